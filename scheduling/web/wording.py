"""How numbers read: every one with its unit. The pages' scripts write them the same way."""

from __future__ import annotations

import re

from scheduling.core.gpu_time import gpu_time_in_words
from scheduling.core.units import gb

__all__ = ["amount", "duration", "gb", "gpu_hours", "limit", "per_second", "plural", "size", "steps_of"]

# A unit's name that takes an s in English; symbols (MB, %, it) and words of other alphabets stay as they were sent.
_WORD = re.compile("(?:.*[ _-])?[a-z]{3,}", re.ASCII)
_BYTES = ("byte", "bytes", "B")
_STEPS = ((86_400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def duration(seconds: float | None) -> str:
    """``12 s``, ``4m 05s``, ``1h 04m``, ``2d 03h``; nothing for None."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    for above, big, part, small in _STEPS:
        if whole >= above:
            return f"{whole // above}{big} {whole % above // part:02d}{small}"
    return f"{whole} s"


def limit(seconds: float) -> str:
    """A limit as somebody would write it: ``4h``, ``7d``, ``1h 30m``, ``45 s``. Exact, since it may be the largest that
    is accepted."""
    rest, parts = int(seconds), []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) if len(parts) > 1 or seconds >= 60 else f"{int(seconds)} s"


def size(count: int) -> str:
    """Bytes in decimal units: ``512 B``, ``12.3 kB``, ``1.2 GB``."""
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.95 or unit == "TB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def gpu_hours(hours: float | None) -> str:
    """GPU-hours to 0.01; few of them in GPU-minutes or GPU-seconds."""
    return "" if hours is None else gpu_time_in_words(hours * 3600)


def amount(count: int, noun: str) -> str:
    """``1 job``, ``3 jobs``, ``5,001 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def plural(unit: str) -> str:
    """The name of a job's unit for a count that isn't 1: ``steps``, ``batches``, ``entries``; ``MB`` as it is."""
    if _WORD.fullmatch(unit) is None or (unit.endswith("s") and not unit.endswith("ss")):
        return unit
    if re.search("(ss|x|z|ch|sh)$", unit):
        return f"{unit}es"
    return f"{unit[:-1]}ies" if re.search("[^aeiou]y$", unit) else f"{unit}s"


def steps_of(step: int, total: int, unit: str) -> str:
    """How far a job is: ``24 of 30 steps``, ``0 of 1 step``, ``1.2 MB of 3.0 MB``; numbers alone without a unit."""
    if unit in _BYTES:
        return f"{size(step)} of {size(total)}"
    return f"{step} of {total} {unit if total == 1 else plural(unit)}".rstrip()


def per_second(rate: float, unit: str) -> str:
    """How fast it is: ``2.5 steps/s``, ``1.2 MB/s``; steps where it has no unit of its own."""
    if unit in _BYTES:
        return f"{size(int(rate))}/s"
    told = f"{rate:.3g}"
    return f"{told} {unit if unit and told == '1' else plural(unit or 'step')}/s"
