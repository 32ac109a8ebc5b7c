"""What a model makes of each sample: rows in the order of the samples, computed on one device or on several.

Batch k is the samples k * size to (k + 1) * size, wherever it is computed and whenever a run began, so that the rows
are the same to the byte.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from workers.engines.choosing import likeliest
from workers.engines.models import Loaded
from workers.engines.results import Results
from workers.engines.samples import Rows, Texts

ENGINE_VERSION = "2"
DIGITS = 8
AHEAD = 2  # batches that a device may be ahead of the one that is written next
# Logits in memory at once, so that a large batch of long texts does not fill it.
LOGITS = 1 << 24
Row = dict[str, Any]


class Abandoned(Exception):
    """The batch in hand is given up because there is no time left to finish it."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A model and the samples it is judged by, ``batch_size`` of them at a time."""

    model: Loaded
    samples: Rows | Texts
    batch_size: int

    @property
    def batches(self) -> int:
        """How many batches there are; the last may be smaller."""
        return -(-len(self.samples) // self.batch_size)

    def rows(self, number: int, module: nn.Module, must_stop: Callable[[], bool] = lambda: False) -> list[Row]:
        """The rows of batch ``number`` as ``module``, one of the model's, gives them. Raises :class:`Abandoned`."""
        first = number * self.batch_size
        last = min(first + self.batch_size, len(self.samples))
        with torch.no_grad():
            if isinstance(self.samples, Rows):
                return _classified(self.samples, first, last, module)
            return _foretold(self.samples, first, last, module, self.model.config["context"], must_stop)


def kept(value: float) -> float | None:
    """The value in the ``DIGITS`` significant digits that a row keeps; None for NaN and infinity."""
    return float(f"{value:.{DIGITS}g}") + 0.0 if math.isfinite(value) else None


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device


def _classified(samples: Rows, first: int, last: int, module: nn.Module) -> list[Row]:
    """Each sample's class, the lowest where several are equally likely; none where the logits are no numbers."""
    labels = samples.labels[first:last]
    logits = module(samples.inputs[first:last].to(_device(module))).cpu()
    predicted = likeliest(logits)
    nll = -logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
    rows = []
    for index, label, guess, loss in zip(range(first, last), labels.tolist(), predicted, nll.tolist(), strict=True):
        rows.append({"index": index, "label": label, "predicted": guess, "correct": guess == label, "nll": kept(loss)})
    return rows


def _foretold(
    samples: Texts, first: int, last: int, module: nn.Module, context: int, must_stop: Callable[[], bool]
) -> list[Row]:  # fmt: skip
    """How unlikely the model found each text: the sum over all its tokens but the first, in windows of ``context``."""
    windows = [(text, window) for text in range(first, last) for window in _windows(samples.tokens[text], context)]
    losses: dict[int, list[float]] = {text: [] for text in range(first, last)}
    for several in _passes(windows, context, module):
        if must_stop():
            raise Abandoned
        for (text, _), found in zip(several, _nll(several, module), strict=True):
            losses[text] += found
    rows = []
    for text in range(first, last):
        nll = math.fsum(losses[text]) if all(map(math.isfinite, losses[text])) else math.nan
        rows.append(
            {"index": text, "tokens": len(losses[text]), "bytes": samples.sizes[text], "nll": kept(nll)}
        )  # fmt: skip
    return rows


def _windows(tokens: torch.Tensor, context: int) -> Iterator[torch.Tensor]:
    """Stretches of at most ``context`` + 1 tokens, each begun by the last token of the one before."""
    for start in range(0, len(tokens) - 1, context):
        yield tokens[start : start + context + 1]


Window = tuple[int, torch.Tensor]


def _passes(windows: Sequence[Window], context: int, module: nn.Module) -> Iterator[Sequence[Window]]:
    words = module.get_parameter("head.weight").shape[0]
    each = max(1, LOGITS // (context * words))
    for start in range(0, len(windows), each):
        yield windows[start : start + each]


def _nll(windows: Sequence[Window], module: nn.Module) -> Iterator[list[float]]:
    """Of each window the loss of every token but the first."""
    lengths = [len(window) - 1 for _, window in windows]
    padded = torch.zeros(len(windows), max(lengths) + 1, dtype=torch.int64)
    for place, (_, window) in enumerate(windows):
        padded[place, : len(window)] = window
    padded = padded.to(_device(module))
    logits = module(padded[:, :-1])
    nll = -logits.log_softmax(-1).gather(2, padded[:, 1:, None])[:, :, 0]
    for losses, length in zip(nll.cpu(), lengths, strict=True):
        yield losses[:length].tolist()


def evaluate(
    evaluation: Evaluation,
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
    line = _Line(evaluation, results, on_batch, should_stop, must_stop)
    modules = evaluation.model.modules
    if len(modules) == 1:
        line.work(modules[0])
    else:
        with ThreadPoolExecutor(len(modules), thread_name_prefix="evaluate") as pool:
            for future in [pool.submit(line.work, module) for module in modules]:
                future.result()
    return len(results) == len(evaluation.samples)


class _Line:
    """Batches that are handed out in order and appended in order, whoever is done first."""

    def __init__(
        self, evaluation: Evaluation, results: Results, on_batch: Callable[[], None],
        should_stop: Callable[[], bool], must_stop: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._evaluation = evaluation
        self._results = results
        self._on_batch = on_batch
        self._should_stop = should_stop
        self._must_stop = must_stop
        self._moved = threading.Condition()
        self._next = self._due = len(results) // evaluation.batch_size
        self._ahead = AHEAD * len(evaluation.model.modules)
        self._ready: dict[int, list[Row]] = {}
        self._over = len(results) == len(evaluation.samples)

    def work(self, module: nn.Module) -> None:
        """Batches are computed until there are no more, or it is time to stop."""
        try:
            while (number := self._take()) is not None:
                self._give(number, self._evaluation.rows(number, module, self._must_stop))
        except Abandoned:
            self._end()
        except BaseException:
            self._end()
            raise

    def _take(self) -> int | None:
        with self._moved:
            self._moved.wait_for(lambda: self._over or self._next < self._due + self._ahead)
            if self._over or self._next == self._evaluation.batches or self._should_stop():
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
