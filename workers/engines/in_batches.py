"""Rows made batch by batch on one device or on several, and kept in the order of what they are made of.

Batch k is what lies from k * size to (k + 1) * size, wherever it is computed and whenever a run began, so that the
rows are the same to the byte.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from torch import nn

from workers.engines.results import Results

AHEAD = 2  # batches that a device may be ahead of the one that is written next
Row = dict[str, Any]


class Abandoned(Exception):
    """The batch in hand is given up because there is no time left to finish it."""


class Batched(Protocol):
    """What there is to do: ``count`` rows, ``batch_size`` of them at a time, by any of ``modules``, one a device."""

    @property
    def count(self) -> int:
        """How many rows come out in all."""

    @property
    def batch_size(self) -> int:
        """How many of them are made at a time."""

    @property
    def modules(self) -> Sequence[nn.Module]:
        """The model, once on each device."""

    def rows(self, first: int, last: int, module: nn.Module, must_stop: Callable[[], bool]) -> list[Row]:
        """The rows from ``first`` to before ``last``; raises :class:`Abandoned` once ``must_stop`` says so."""


def compute(
    work: Batched,
    results: Results,
    *,
    on_batch: Callable[[], None] = lambda: None,
    should_stop: Callable[[], bool] = lambda: False,
    must_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Every row that ``results`` has not yet is appended, in order; True when all are there.

    Each device takes the next batch, a range of indices, when it is free. ``should_stop`` is asked between batches;
    ``must_stop`` also inside of one, which is then given up. ``on_batch`` is called after each batch that is
    appended. An exception stops every device at its next batch and is raised; what was appended stays.
    """
    line = _Line(work, results, on_batch, should_stop, must_stop)
    if len(work.modules) == 1:
        line.work(work.modules[0])
    else:
        with ThreadPoolExecutor(len(work.modules), thread_name_prefix="compute") as pool:
            for future in [pool.submit(line.work, module) for module in work.modules]:
                future.result()
    return len(results) == work.count


class _Line:
    """Batches that are handed out in order and appended in order, whoever is done first."""

    def __init__(
        self, work: Batched, results: Results, on_batch: Callable[[], None],
        should_stop: Callable[[], bool], must_stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._work = work
        self._results = results
        self._on_batch = on_batch
        self._should_stop = should_stop
        self._must_stop = must_stop
        self._moved = threading.Condition()
        self._next = self._due = len(results) // work.batch_size
        self._batches = -(-work.count // work.batch_size)
        self._ahead = AHEAD * len(work.modules)
        self._ready: dict[int, list[Row]] = {}
        self._over = len(results) == work.count

    def work(self, module: nn.Module) -> None:
        """Batches are computed until there are no more, or it is time to stop."""
        size, count = self._work.batch_size, self._work.count
        try:
            while (number := self._take()) is not None:
                first, last = number * size, min((number + 1) * size, count)
                self._give(number, self._work.rows(first, last, module, self._must_stop))
        except Abandoned:
            self._end()
        except BaseException:
            self._end()
            raise

    def _take(self) -> int | None:
        with self._moved:
            self._moved.wait_for(lambda: self._over or self._next < self._due + self._ahead)
            if self._over or self._next == self._batches or self._should_stop():
                return None
            self._next += 1
            return self._next - 1

    def _give(self, number: int, rows: list[Row]) -> None:
        with self._moved:
            self._ready[number] = rows
            while self._due in self._ready:
                self._results.append(self._ready.pop(self._due))
                self._due += 1
                self._on_batch()
            self._moved.notify_all()

    def _end(self) -> None:
        with self._moved:
            self._over = True
            self._moved.notify_all()
