"""Which reasons still hold? While nothing is free, each shape lacks what it lacked before: only the outlook changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.plan import Number, Reason
from scheduling.core.scarcity import Shortage, shortage

if TYPE_CHECKING:
    from scheduling.core.room import Room
    from scheduling.core.waiting import Queued, Shape

Numbers = tuple[tuple[str, Number], ...]
Expected = tuple[int, str] | None
"""From when on, in ms, and where enough is free at the latest; None when nowhere ever."""

MAX_KEPT = 4096


class Shortfalls:
    """What is said of jobs while no GPU is free, kept from cycle to cycle as long as the same GPUs take work."""

    __slots__ = ("_reasons", "_room", "_short", "_usable")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._usable: Room | None = None
        self._short: dict[tuple[Shape, int], Shortage] = {}
        self._reasons: dict[tuple[int, Shape, int], tuple[Expected, Reason]] = {}  # the last by level, shape, memory

    def of(self, usable: Room) -> Shortfalls:
        """These, as far as they were told of this pool. ``usable``: the GPUs that take work."""
        if self._usable is not usable or len(self._reasons) >= MAX_KEPT:
            self._usable = usable
            self._short.clear()
            self._reasons.clear()
        return self

    def reason(self, queued: Queued, expected: Expected) -> Reason:
        """How much is missing where for a job whose rules stay the same, now that nothing is free."""
        shape, request = queued.shape, queued.job.request
        key = (queued.level, shape, request.gpu_memory_min_mib)
        told = self._reasons.get(key)
        if told is None or told[0] != expected:
            short = self._short.get(key[1:])
            if short is None:
                short = self._short[key[1:]] = shortage(self._room, shape.wanted, request)
            code, message, numbers = short
            told = expected, Reason(code, message, (*numbers, *expected_numbers(expected)))
            self._reasons[key] = told
        return told[1]


def expected_numbers(expected: Expected) -> Numbers:
    """The instant and the place as numbers of a reason."""
    return () if expected is None else (("earliest_domain", expected[1]), ("earliest_at_ms", expected[0]))
