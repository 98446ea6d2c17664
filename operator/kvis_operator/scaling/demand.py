"""Memory of demand: the highest need of the last M seconds is the floor under any scale-down (reference H4).

Needs are kept as fractions of a replica in buckets of `width` seconds. A bucket without an observation is unknown:
it neither lowers the floor nor counts as covered, so gaps and lost state can only delay a scale-down.
"""

import math
from dataclasses import dataclass
from typing import Final

LONGEST_SECONDS: Final = 4 * 3600.0
WIDEST_BUCKET_SECONDS: Final = 60.0
BUCKETS_PER_MEMORY: Final = 10
DECIMALS: Final = 3


@dataclass(frozen=True, slots=True)
class DemandRing:
    """`values[i]` is the highest need seen in bucket `first + i`; None where nothing was observed."""

    width: float = WIDEST_BUCKET_SECONDS
    first: int = 0
    values: tuple[float | None, ...] = ()

    def recorded(self, need: float, *, now: float, width: float) -> "DemandRing":
        """With one need added. Another width starts anew, as if nothing were known."""
        bucket = math.floor(now / width)
        value = round(need, DECIMALS)
        longest = math.ceil(LONGEST_SECONDS / width)
        missing = bucket + 1 - (self.first + len(self.values))
        if width != self.width or not self.values or bucket < self.first or missing > longest:
            return DemandRing(width, bucket, (value,))
        values = [*self.values, *[None] * missing][-longest:]
        first = bucket + 1 - len(values) if missing > 0 else self.first
        known = values[bucket - first]
        values[bucket - first] = value if known is None else max(known, value)
        return DemandRing(width, first, tuple(values))

    def _window(self, memory: float, now: float) -> tuple[float | None, ...]:
        """The buckets of the last `memory` seconds, whole: the current one and the one half forgotten included."""
        last = math.floor(now / self.width)
        count = 1 + math.ceil(memory / self.width)
        indices = range(last - count + 1 - self.first, last + 1 - self.first)
        return tuple(self.values[i] if 0 <= i < len(self.values) else None for i in indices)

    def floor(self, memory: float, *, now: float) -> float | None:
        """Highest need of the last `memory` seconds, in replicas; None when nothing was observed."""
        return max((value for value in self._window(memory, now) if value is not None), default=None)

    def coverage(self, memory: float, *, now: float) -> float:
        """Share of the last `memory` seconds that was observed, 0-1."""
        window = self._window(memory, now)
        return sum(value is not None for value in window) / len(window)

    def held_until(self, above: float, memory: float, *, now: float) -> float | None:
        """When the newest need above `above` leaves the memory (Unix seconds); None if there is none."""
        window = self._window(memory, now)
        last = math.floor(now / self.width)
        for age, value in enumerate(reversed(window)):
            if value is not None and value > above:
                return (last - age + len(window)) * self.width
        return None


def bucket_width(memory: float, tick: float) -> float:
    """Bucket width for a memory: a tenth of it, at least a tick, at most a minute."""
    return min(WIDEST_BUCKET_SECONDS, max(tick, memory / BUCKETS_PER_MEMORY))
