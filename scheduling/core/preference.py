"""Which cell is the better one for a job of one node? One key, the smallest is the best (D15, D16)."""

from __future__ import annotations

from collections.abc import Iterable

LOOSE, SMALL, LARGE = range(3)
SMALL_SHARE = 4
MIXED = 1 << 60  # the "memory class" of GPUs that are not all of one class: worse than any
Preference = tuple[int, ...]
CLAIMED_AT = {"whole_groups": 3, "smallest_memory": 0, "best_fit": 0}
"""The place of ``claimed`` in the key: before the memory."""


def memory_classes(sizes_mib: Iterable[int]) -> dict[int, int]:
    """The class of each of these sizes of memory: the smallest size in it, which no other one exceeds by over a tenth.

    GPUs of one model report different sizes, by their driver (81,559 and 81,920 MiB) and by ECC, which takes a
    sixteenth of some (46,068 of 49,140 MiB). Which of them a job gets is no waste, so classes are compared, not sizes;
    whether one has enough for a job is a matter of its size.
    """
    found: dict[int, int] = {}
    least = 0
    for size in sorted(set(sizes_mib)):
        if 10 * size > 11 * least:
            least = size
        found[size] = least
    return found


def kind_of(size: int, largest: int, *, loose: bool) -> int:
    """Whether a cell is outside groups, a small group or a large one.

    Small is a group of at most a quarter of the pool's ``largest``: what needs a large one can make no use of it.
    """
    if loose:
        return LOOSE
    return SMALL if size * SMALL_SHARE <= largest else LARGE


def preference(
    prefer: str, *, kind: int, whole: bool, size: int, tier: int, free: int, need: int, claimed: int = 0
) -> Preference:
    """How good a cell is; ties go to the lowest index, or, where no group is small, see ``View.best_cell``.

    ``whole``: all of its ``size`` GPUs are free; ``tier``: the memory class of the GPUs it would give, ``MIXED`` for
    several; ``free``: how many suitable ones are free; ``need``: how many the job takes; ``claimed``: 1 when others
    that wait can go nowhere else.

    - ``whole_groups``: GPUs outside groups, then small groups, then large ones; of each those already broken or used
      up exactly, then the smallest whole group. Among those what is not claimed, the smallest memory, the fewest free.
    - ``smallest_memory``: the same with what is not claimed first, then memory.
    - ``best_fit``: what is not claimed, the smallest memory, then the fewest free, whatever is broken.
    """
    if prefer == "best_fit":
        return (claimed, tier, free)
    breaks = kind != LOOSE and whole and size > need
    place = (kind, int(breaks), size if breaks else 0)
    if prefer == "smallest_memory":
        return (claimed, tier, *place, free)
    return (*place, claimed, tier, free)
