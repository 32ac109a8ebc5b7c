"""How numbers read: every one with its unit. The pages' scripts write them the same way."""

from __future__ import annotations

from scheduling.core.gpu_time import gpu_time_in_words
from scheduling.core.units import gb

__all__ = ["amount", "duration", "gb", "gpu_hours", "limit", "size"]

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
