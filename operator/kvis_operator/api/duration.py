"""Durations as Go and Kubernetes write them (`30m`, `1h30m`, `250ms`), as seconds inside.

The same texts are accepted by CEL's `duration()`, so the API server and this parser agree.
"""

import re
from typing import Final

PATTERN: Final = r"^([0-9]{1,9}(\.[0-9]{1,3})?(h|m|s|ms))+$"
_TERM: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)")
_MILLISECONDS: Final = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError naming a form that would work."""
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"{text!r} is not a duration, write for example 250ms, 2s or 30m")
    return sum(float(number) * _MILLISECONDS[unit] for number, unit in _TERM.findall(text)) / 1000
