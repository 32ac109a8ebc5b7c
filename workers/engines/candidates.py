"""Candidates that are never written: merged in memory, evaluated at once, several at a time in their order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from workers.engines.dtypes import TensorSpec
from workers.engines.evaluating import Evaluation
from workers.engines.in_batches import Abandoned, Row
from workers.engines.measuring import Measured, measure
from workers.engines.merging import Candidate
from workers.engines.models import load
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.samples import Samples
from workers.engines.sources import Model
from workers.model_families import Family
from workers.rows_params import tensor_faults

# What is wrong with what is read, and so with every candidate.
_OF_FILES = frozenset({"corrupt_input"})
NOT_FINITE, NO_MEMORY, BROKEN = "not_finite", "out_of_memory", "error"
A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Judge:
    """What models are judged by: their family and configuration, the samples, and the metrics, the first of which
    counts first."""

    family: Family
    config: Mapping[str, Any]
    samples: Samples
    batch_size: int
    metrics: Sequence[str]

    def measured(self, model: Model, device: torch.device, must_stop: Callable[[], bool]) -> Measured:
        """The metrics of the model, computed on ``device``. Raises :class:`Abandoned`, and refuses a model that is not
        of the family and configuration, or can't be loaded."""
        tensors = {name: (spec.dtype.name, spec.shape) for name, spec in model.specs.items()}
        if wrong := tensor_faults(self.family, self.config, model.label, tensors):
            raise EngineRefusal.of(Problem(each.code, each.message, {}) for each in wrong)
        evaluation = Evaluation(load(model, self.config, [device]), self.samples, self.batch_size)
        return measure(self._rows(evaluation, must_stop), self.family.task, self.metrics)

    @staticmethod
    def _rows(evaluation: Evaluation, must_stop: Callable[[], bool]) -> Iterator[Row]:
        (module,) = evaluation.model.modules
        for first in range(0, evaluation.count, evaluation.batch_size):
            if must_stop():
                raise Abandoned
            yield from evaluation.rows(first, min(first + evaluation.batch_size, evaluation.count), module, must_stop)


@dataclass(frozen=True, slots=True)
class Found:
    """What came of an evaluation: its ``metrics``, or why it has none (``failed`` a code, ``why`` in words)."""

    metrics: Mapping[str, float | None] | None
    failed: str | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Computed:
    """Reads a tensor of a model that is nowhere but in its formula."""

    candidate: Candidate
    device: torch.device

    def read(self, spec: TensorSpec, start: int, stop: int) -> torch.Tensor:
        """Elements ``start`` to ``stop`` of the tensor, which is computed as a whole."""
        parts = list(self.candidate.chunks(spec, self.device))
        whole = parts[0] if len(parts) == 1 else torch.cat(parts) if parts else torch.empty(0, dtype=spec.dtype.torch)
        return whole[start:stop]


def in_memory(candidate: Candidate, label: str, device: torch.device) -> Model:
    """The model that the candidate would be when it was written, tensor by tensor as it is read; it has the very bits
    of one that was written and opened again."""
    specs = {spec.name: spec for spec in candidate.outputs}
    return Model(label, specs, candidate.metadata, _Computed(candidate, device), directory=None)


def tried(
    model: Callable[[], Model], judge: Judge, device: torch.device, must_stop: Callable[[], bool]
) -> Found:  # fmt: skip
    """The metrics of the model, or why there are none: what can't be merged, loaded or computed has failed and ends
    nothing. Raises :class:`Abandoned`, and what is wrong with the files of all of them."""
    try:
        found = judge.measured(model(), device, must_stop)
    except EngineRefusal as refusal:
        if refusal.code in _OF_FILES:
            raise
        return Found(None, refusal.code, refusal.message)
    except (torch.OutOfMemoryError, MemoryError) as error:
        return Found(None, NO_MEMORY, str(error))
    except RuntimeError as error:
        return Found(None, BROKEN, str(error))
    first = judge.metrics[0]
    if found.metrics[first] is None:
        odd = found.counts["not_finite"]
        why = f"{first} is no finite number: that of {odd} of {found.counts['samples']} samples is none"
        return Found(found.metrics, NOT_FINITE, why)
    return Found(found.metrics)


def in_order(
    asks: Sequence[A], devices: Sequence[torch.device], work: Callable[[A, torch.device], R],
    on_result: Callable[[A, R], None], should_stop: Callable[[], bool],
) -> bool:  # fmt: skip
    """``work`` is done for every ask, on as many devices at a time, and each result handed over in the order of the
    asks; True when all were.

    ``should_stop`` is asked before each; what is in hand then is finished and handed over, unless it raises
    :class:`Abandoned`. An exception stops every device at its next ask and is raised.
    """
    over = threading.Event()
    free: queue.SimpleQueue[torch.device] = queue.SimpleQueue()
    for device in devices:
        free.put(device)

    def one(ask: A) -> R | None:
        if over.is_set() or should_stop():
            return None
        device = free.get()
        try:
            return work(ask, device)
        except Abandoned:
            return None
        except BaseException:
            over.set()
            raise
        finally:
            free.put(device)

    if len(devices) == 1:
        return all(_handed(ask, one(ask), on_result) for ask in asks)
    with ThreadPoolExecutor(len(devices), thread_name_prefix="evolve") as pool:
        futures = [pool.submit(one, ask) for ask in asks]
        try:
            return all(_handed(ask, future.result(), on_result) for ask, future in zip(asks, futures, strict=True))
        finally:
            over.set()


def _handed(ask: A, result: R | None, on_result: Callable[[A, R], None]) -> bool:
    if result is None:
        return False
    on_result(ask, result)
    return True
