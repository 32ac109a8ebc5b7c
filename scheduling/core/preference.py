"""Which cell is the better one for a job of one node? One key, the smallest is the best (D15, D16)."""

from __future__ import annotations

LOOSE, BROKEN, WHOLE = range(3)
MIXED = 1 << 60  # the "memory size" of GPUs that are not all of one size: worse than any size
Preference = tuple[int, int, int, int]


def preference(prefer: str, *, loose: bool, whole: bool, size: int, tier: int, free: int, need: int) -> Preference:
    """How good a cell is; ties go to the lowest index.

    ``whole``: all of its ``size`` GPUs are free; ``tier``: the memory size in MiB of the GPUs it would give, ``MIXED``
    for several; ``free``: how many suitable ones are free; ``need``: how many the job takes.

    - ``whole_groups``: GPUs outside groups; then groups already broken or used up exactly; then the smallest whole
      group. Among those the smallest memory, then the fewest free.
    - ``smallest_memory``: the same with memory first.
    - ``best_fit``: the smallest memory, then the fewest free, whatever is broken.
    """
    if prefer == "best_fit":
        return (tier, free, 0, 0)
    kind = LOOSE if loose else WHOLE if whole and size > need else BROKEN
    broken_size = size if kind == WHOLE else 0
    if prefer == "smallest_memory":
        return (tier, kind, broken_size, free)
    return (kind, broken_size, tier, free)
