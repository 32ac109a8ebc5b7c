"""Messages between nodes and the server, and what becomes of them: lost, late, doubled, overtaken, cut off."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.clock import Clock
from workers.agent.messages import Failure, FailureKind


class Down(Exception):
    """The server did not answer: it is down, or died over it. ``refused``: somebody says so at once."""

    def __init__(self, *, refused: bool) -> None:
        super().__init__("the server is down")
        self.refused = refused


class Declined(Exception):
    """The server answered no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass
class Network:
    """``troubled`` while faults are on. ``cut`` are (node, "up" or "down"): what the node says or hears is lost."""

    clock: Clock
    dice: random.Random
    troubled: bool = True
    cut: set[tuple[str, str]] = field(default_factory=set)
    lost: int = 0
    doubled: int = 0

    def call(
        self,
        node: str,
        serve: Callable[[], Any],
        *,
        timeout_s: float,
        done: Callable[[Any], None],
        failed: Callable[[Failure], None],
    ) -> None:
        """``serve`` is asked over the network; exactly one of ``done`` and ``failed`` is told what became of it."""
        pending = [True]

        def tell(what: Callable[[Any], None], value: Any) -> None:
            if pending[0]:
                pending[0] = False
                what(value)

        self.clock.after(timeout_s, lambda: tell(failed, Failure(FailureKind.SILENT, "no answer in time")))

        def arrive(*, answers: bool) -> None:
            try:
                answer = serve()
            except Down as down:
                if down.refused and answers:
                    self._back(node, lambda: tell(failed, Failure(FailureKind.REFUSED, "connection refused")))
                return
            except Declined as no:
                said = Failure(FailureKind.STATUS, str(no), no.status, no.code)
                if answers:
                    self._back(node, lambda: tell(failed, said))
                return
            if answers:
                self._back(node, lambda: tell(done, answer))

        if not self._passes(node, "up"):
            return
        self.clock.after(self._delay(), lambda: arrive(answers=True))
        if self.troubled and self.dice.random() < 0.04:
            self.doubled += 1
            self.clock.after(self._delay() + 12 * self.dice.random(), lambda: arrive(answers=False))

    def _back(self, node: str, tell: Callable[[], None]) -> None:
        if self._passes(node, "down"):
            self.clock.after(self._delay(), tell)

    def _passes(self, node: str, way: str) -> bool:
        lost = (node, way) in self.cut or (self.troubled and self.dice.random() < 0.03)
        self.lost += lost
        return not lost

    def _delay(self) -> float:
        """Milliseconds, but for some that come long after what was sent later."""
        if self.troubled and self.dice.random() < 0.06:
            return 9 * self.dice.random()
        return 0.01 + 0.05 * self.dice.random()
