"""Ray Serve's replica autoscaling on ongoing requests.

Source: ray-project/ray `python/ray/serve/autoscaling_policy.py` (2026-08): ongoing requests (look-back mean
of 30 s) over the target per replica; a change needs *consecutive* agreement for 30 s upwards and 600 s
downwards, and one contrary evaluation starts the count again.
"""

import math
from dataclasses import dataclass, field

from kvis_sim.baselines.reading import FleetReading
from kvis_sim.baselines.windows import Window


def wanted_replicas(ongoing: float, *, target: float, replicas: int, factor: float = 1.0) -> int:
    """Replicas by the error ratio, damped by a smoothing `factor`; a stuck shrink goes down by one."""
    desired = ongoing / target
    scaled = math.ceil(replicas + factor * (desired - replicas) - 1e-9)
    if math.ceil(desired) < replicas and scaled == replicas:
        scaled -= 1
    return scaled


@dataclass(slots=True)
class Agreement:
    """Counts how long the wish to grow (or shrink) has lasted without a break."""

    up_seconds: float
    down_seconds: float
    _direction: int = 0
    _since: float = 0.0

    def allows(self, wanted: int, current: int, now: float) -> bool:
        direction = (wanted > current) - (wanted < current)
        if direction != self._direction:
            self._direction, self._since = direction, now
        needed = self.up_seconds if direction > 0 else self.down_seconds
        if direction == 0 or now - self._since < needed:
            return False
        self._direction = 0
        return True


@dataclass(slots=True)
class RayServe:
    target: float
    up_delay: float = 30.0
    down_delay: float = 600.0
    look_back: float = 30.0
    interval: float = 10.0
    _ongoing: Window = field(init=False)
    _agreement: Agreement = field(init=False)

    def __post_init__(self) -> None:
        self._ongoing = Window(self.look_back)
        self._agreement = Agreement(self.up_delay, self.down_delay)

    def step(self, reading: FleetReading) -> int:
        total = reading.total_in_flight()
        if total is not None:
            self._ongoing.add(reading.at, total)
        mean = self._ongoing.mean(reading.at)
        if mean is None or not reading.ready:
            return reading.desired
        wanted = reading.clamp(wanted_replicas(mean, target=self.target, replicas=len(reading.ready)))
        return wanted if self._agreement.allows(wanted, reading.desired, reading.at) else reading.desired
