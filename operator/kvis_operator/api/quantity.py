"""Kubernetes quantities: amounts of memory as whole bytes, amounts of CPU as thousandths of a core.

Only the forms that a person writes in a manifest; exponents and negative amounts are refused. Called while
the resource and the profile table are parsed, and by whoever prints bytes back.
"""

import re
from typing import Final

BYTES_PATTERN: Final = r"^[0-9]{1,12}(Ki|Mi|Gi|Ti|k|M|G|T)?$"
CPU_PATTERN: Final = r"^[0-9]{1,6}(\.[0-9]{1,3})?$|^[0-9]{1,9}m$"
_FACTORS: Final = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_LARGEST_FIRST: Final = ("Ti", "Gi", "Mi", "Ki")


def parse_bytes(text: str) -> int:
    """`512Mi` -> 536870912. Raises ValueError naming a form that would work."""
    if not re.fullmatch(BYTES_PATTERN, text):
        raise ValueError(f"{text!r} is not an amount of memory, write whole units such as 512Mi or 2Gi")
    digits = text.rstrip("".join(_FACTORS))
    return int(digits) * _FACTORS[text[len(digits) :]]


def format_bytes(amount: int) -> str:
    """The largest unit that divides the amount, so parsing gives the same bytes back: 1536Mi, never 1.5Gi."""
    for unit in _LARGEST_FIRST:
        if amount and amount % _FACTORS[unit] == 0:
            return f"{amount // _FACTORS[unit]}{unit}"
    return str(amount)


def round_up_to_mebibytes(amount: int) -> int:
    return -(-amount // _FACTORS["Mi"]) * _FACTORS["Mi"]


def parse_cpu(text: str) -> int:
    """`1` -> 1000, `250m` -> 250, `1.5` -> 1500 thousandths of a core."""
    if not re.fullmatch(CPU_PATTERN, text):
        raise ValueError(f"{text!r} is not an amount of CPU, write cores such as 2 or 0.5, or 500m")
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


def format_cpu(millicores: int) -> str:
    return f"{millicores}m" if millicores % 1000 else str(millicores // 1000)
