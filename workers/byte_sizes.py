"""How many bytes is ``5GB``? Decimal units are powers of 1000, binary ones of 1024. Standard library only."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{mark}b": base ** (power + 1)
    for mark, base in (("", 1000), ("i", 1024))
    for power, letter in enumerate("kmgt")
}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]{0,3})", re.ASCII)


def whole_bytes(value: object) -> int | None:
    """The bytes that a whole number, or a text like ``500MiB`` or ``1.5 GB``, says, rounded down; None for anything
    else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    unit = None if found is None else _UNITS.get(found[2].lower())
    return None if found is None or unit is None else int(Fraction(found[1]) * unit)
