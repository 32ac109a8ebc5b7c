"""How far is the moving of an attempt's bytes? Told now and then, and only of what takes long enough to be asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workers.agent.statedir import Ref


@dataclass(frozen=True, slots=True)
class Moved:
    """So many of an attempt's files and bytes are where they should be; ``what`` is one of the protocol's transfers.

    ``over``: nothing more of it is moved; ``whole``: because all is there and was taken. ``step``: of a checkpoint that
    knows its own, else 0. ``begun``: milliseconds of the node's clock, which tell it from the attempt's other moves.
    """

    ref: Ref
    what: str
    files: int
    of_files: int
    bytes: int
    of_bytes: int
    over: bool = False
    whole: bool = False
    step: int = 0
    begun: int = 0

    def report(self) -> dict[str, Any]:
        """As the server is told."""
        return {
            "type": "transfer", "what": str(self.what), "files": self.files, "of_files": self.of_files,
            "bytes": self.bytes, "of_bytes": self.of_bytes, "over": self.over,
            "whole": self.whole, "step": self.step, "begun": self.begun,
        }  # fmt: skip


@dataclass(slots=True)
class Meter:
    """Counts one transfer after the other, and calls ``tell`` at most every ``every_s`` seconds of ``clock``."""

    ref: Ref
    tell: Callable[[Moved], None]
    clock: Callable[[], float]
    every_s: float
    what: str = ""
    files: int = 0
    of_files: int = 0
    bytes: int = 0
    of_bytes: int = 0
    step: int = 0
    begun: float = 0.0
    told_at: float = math.inf
    told: bool = False

    def begin(self, what: str, files: int, size: int, *, step: int = 0) -> None:
        """From now on ``what`` is moved, of a checkpoint that of ``step``: so many files of ``size`` bytes in all.

        What was moved before is all there.
        """
        self.end(whole=True)
        self.what, self.files, self.of_files, self.bytes, self.of_bytes = what, 0, files, 0, size
        self.step, self.begun = step, self.clock()
        if self.told_at == math.inf:
            self.told_at = self.begun

    def add(self, files: int, size: int) -> None:
        """So much more is there. What had to be moved twice counts once."""
        self.files = min(self.of_files, self.files + files)
        self.bytes = min(self.of_bytes, self.bytes + size)
        now = self.clock()
        if now - self.told_at >= self.every_s:
            self.told_at, self.told = now, True
            self.tell(self._moved())

    def end(self, *, whole: bool) -> None:
        """Nothing more is moved, with ``whole`` because all is there; who was told that something is hears of it."""
        if self.told:
            self.told = False
            self.tell(self._moved(over=True, whole=whole))

    def _moved(self, *, over: bool = False, whole: bool = False) -> Moved:
        return Moved(
            self.ref, self.what, self.files, self.of_files, self.bytes, self.of_bytes, over=over, whole=whole,
            step=self.step, begun=int(1000 * self.begun),
        )  # fmt: skip


def unheard(ref: Ref) -> Meter:
    """A meter that nobody reads."""
    return Meter(ref, lambda _: None, lambda: 0.0, math.inf)
