"""A run of engine steps with the same batch: its step time is linear in the step's number, so it has a closed form."""

import math


class Stretch:
    """`steps` steps from `began`; the first takes `first` seconds, each further one `growth` longer. 0 steps: idle."""

    __slots__ = ("began", "first", "growth", "prefill", "steps")

    def __init__(self) -> None:
        self.steps = 0
        self.prefill = 0  # prompt tokens in each step
        self.began = 0.0
        self.first = self.growth = 0.0

    def begin(self, now: float, steps: int, first: float, growth: float) -> float:
        """Starts the stretch; when it will end."""
        self.steps = steps
        self.began = now
        self.first = first
        self.growth = growth
        return now + steps * (first + 0.5 * growth * (steps - 1))

    def seconds(self, steps: int) -> float:
        """Duration of the first `steps` steps."""
        return steps * (self.first + 0.5 * self.growth * (steps - 1))

    def cut(self, now: float) -> float:
        """Ends with the step that is under way at `now`, or where it would have ended; when that is."""
        steps = max(1, math.ceil(self._steps_in(now - self.began) - 1e-9))
        self.steps = min(steps, self.steps)
        return self.began + self.seconds(self.steps)

    def done(self, now: float) -> int:
        """Whole steps that are over at `now`."""
        if not self.steps or now <= self.began:
            return 0
        return min(self.steps, int(self._steps_in(now - self.began) + 1e-9))

    def _steps_in(self, seconds: float) -> float:
        """Real-valued inverse of `seconds`: the root of growth/2 n^2 + (first - growth/2) n = seconds."""
        linear = self.first - 0.5 * self.growth
        return 2.0 * seconds / (linear + math.sqrt(linear * linear + 2.0 * self.growth * seconds))
