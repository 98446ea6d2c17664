"""Sliding windows over time-stamped values, as the ported scalers keep them."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Window:
    """Values of the last `seconds`. A value exactly `seconds` old has left."""

    seconds: float
    _values: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, at: float, value: float) -> None:
        self._values.append((at, value))
        while self._values and self._values[0][0] <= at - self.seconds:
            self._values.popleft()

    def within(self, at: float, seconds: float) -> list[float]:
        return [value for stamp, value in self._values if stamp > at - seconds]

    def mean(self, at: float, seconds: float | None = None) -> float | None:
        values = self.within(at, self.seconds if seconds is None else seconds)
        return sum(values) / len(values) if values else None

    def max(self) -> float | None:
        return max((value for _, value in self._values), default=None)
