"""How people write memory and time, and what it means in MiB and seconds."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from fractions import Fraction
from typing import TypeGuard

from scheduling.core.unusable import HugeNumber

MIB = 2**20
MAX_MEMORY_MIB = 2**31 - 1
MAX_DURATION_S = 2**31 - 1

_MEMORY_UNITS = {
    "": 10**9,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,6})?"
_MEMORY = re.compile(rf"({_NUMBER})\s*([a-z]*)", re.ASCII | re.IGNORECASE)
_SHORT = re.compile(
    rf"(?:({_NUMBER})\s*d)?\s*(?:({_NUMBER})\s*h)?\s*(?:({_NUMBER})\s*m(?:in)?)?\s*(?:({_NUMBER})\s*s)?",
    re.ASCII | re.IGNORECASE,
)
_ISO = re.compile(
    rf"P(?:({_NUMBER})D)?(?:T(?=[0-9])(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = re.compile(r"-?[0-9]{1,12}", re.ASCII)
_BEYOND = re.compile(r"([0-9]{13,})(?:\.[0-9]+)?\s*([a-z]*)", re.ASCII | re.IGNORECASE)
_TIME_UNITS = ("", "s", "m", "min", "h", "d")


class TooMuch(ValueError):
    """It can be read, and is beyond the largest amount there can be."""


def parse_memory(value: object, what: str = "memory") -> int:
    """Memory per GPU in whole MiB, rounded up (D26); ValueError with a sentence about ``what`` when it can't be read.

    A plain number and ``GB`` mean 10^9 bytes, because an "80 GB" board reports a little less than 80 GiB and a
    request for 80GB must match it; ``MiB``, ``GiB``, ``TiB`` are binary. So 80GB is 76294 MiB, 80GiB 81920 MiB.
    """
    too_much = TooMuch(f"{what} must be at most {MAX_MEMORY_MIB} MiB")
    if _is_beyond(value, _MEMORY_UNITS):
        raise too_much
    size = _memory_bytes(value, what)
    if size <= 0:
        raise ValueError(f"{what} must be more than 0; leave it out when any GPU will do")
    mib = math.ceil(size / MIB)
    if mib > MAX_MEMORY_MIB:
        raise too_much
    return mib


def _is_beyond(value: object, units: Collection[str]) -> bool:
    """Whether it is a positive number with more digits than are read, alone or with one of the units."""
    text = value.literal if isinstance(value, HugeNumber) else value.strip() if isinstance(value, str) else ""
    match = _BEYOND.fullmatch(text)
    return match is not None and match[1].strip("0") != "" and match[2].lower() in units


def _memory_bytes(value: object, what: str) -> Fraction:
    if _is_number(value):
        return Fraction(value) * _MEMORY_UNITS[""]
    match = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = _MEMORY_UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(
            f"{what} must be written like 40GB (10^9 bytes, as a number alone is), 40GiB (2^30 bytes) or 40960MiB"
        )
    return Fraction(match[1]) * factor


def parse_duration(value: object, what: str = "a duration") -> int:
    """A duration in whole seconds, rounded up (D25); ValueError with a sentence about ``what`` when it can't be read.

    Read are ``4h``, ``90m``, ``1h30m``, ``2d``, ``PT4H`` and a number of seconds.
    """
    too_much = TooMuch(f"{what} must be at most {MAX_DURATION_S} seconds")
    if _is_beyond(value, _TIME_UNITS):
        raise too_much
    seconds = _duration(value, what)
    if seconds <= 0:
        raise ValueError(f"{what} must be more than 0 seconds")
    if seconds > MAX_DURATION_S:
        raise too_much
    return math.ceil(seconds)


def _is_number(value: object) -> TypeGuard[int | float]:
    # An int is not asked whether it is finite: one beyond the floats would raise.
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _duration(value: object, what: str) -> Fraction:
    if _is_number(value):
        return Fraction(value)
    if isinstance(value, str):
        text = value.strip()
        if _SECONDS.fullmatch(text):
            return Fraction(text)
        match = _SHORT.fullmatch(text) or _ISO.fullmatch(text)
        if match and any(match.groups()):
            days, hours, minutes, seconds = (Fraction(part or 0) for part in match.groups())
            return days * 86400 + hours * 3600 + minutes * 60 + seconds
    raise ValueError(f"{what} must be written like 4h, 90m, 1h30m, 2d, PT4H or a number of seconds")


def as_memory(mib: int) -> str:
    """MiB as text that :func:`parse_memory` reads back to the same number."""
    return f"{mib}MiB"


def gb(mib: int) -> str:
    """MiB in GB (10^9 bytes) for people: ``80 GB``; a fraction only where it says something."""
    return f"{round(mib * MIB / 10**9, 1):g} GB"
