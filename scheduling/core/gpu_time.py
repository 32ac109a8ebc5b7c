"""How much GPU time is that, in words? A little reads in a unit in which it is not nothing."""

from __future__ import annotations

_IN_HOURS_FROM = 360  # GPU-seconds: a tenth of an hour, of which hundredths still tell something
_IN_MINUTES_FROM = 60


def gpu_time_in_words(gpu_seconds: float) -> str:
    """``1.23 GPU-hours``, ``2.7 GPU-minutes`` below a tenth of an hour, ``45 GPU-seconds`` below a minute.

    Of whole GPU-seconds, whatever came of the number on its way: so the same time reads the same everywhere.
    """
    whole = round(gpu_seconds)
    if whole >= _IN_HOURS_FROM:
        return f"{whole / 3600:.2f} GPU-hours"
    if whole >= _IN_MINUTES_FROM:
        return f"{whole / 60:.1f} GPU-minutes"
    return f"{whole} GPU-second" if whole == 1 else f"{whole} GPU-seconds"
