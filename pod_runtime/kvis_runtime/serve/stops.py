"""Finds stop strings in text that arrives piece by piece, also across pieces.

Text is held back while its end could be the beginning of a stop string, so a client never sees part of one.
The earliest occurrence wins, the longer stop string on a tie; the stop string itself is not returned.
"""

from collections.abc import Sequence


class StopScanner:
    """Scanner of one sequence. `stopped` turns true at a stop string; text after it is dropped."""

    __slots__ = ("_held", "_stops", "stopped")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = sorted(stops, key=len, reverse=True)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Return what may be shown after `text` arrived."""
        if self.stopped:
            return ""
        if not self._stops:
            return text
        seen = self._held + text
        found = [position for stop in self._stops if (position := seen.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return seen[: min(found)]
        keep = self._could_begin_a_stop(seen)
        self._held = seen[len(seen) - keep :]
        return seen[: len(seen) - keep]

    def finish(self) -> str:
        """Return what was held back: the sequence ended, so no stop string will complete."""
        held, self._held = self._held, ""
        return held

    def _could_begin_a_stop(self, text: str) -> int:
        """Return the length of the longest end of `text` that begins some stop string."""
        longest = min(len(text), max(map(len, self._stops)) - 1)
        for length in range(longest, 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
