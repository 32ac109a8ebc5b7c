"""MergeEngine: a strategy, matching tensors and parameters give a candidate, computed one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from workers.engines.combining import (
    REDUCTION_CHUNK,
    Combination,
    Copy,
    Values,
    bit_equal,
    finite,
    nonfinite_input,
    stretches,
)
from workers.engines.dtypes import BY_PARAMETER, TensorSpec, output_order
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.strategies import STRATEGIES
from workers.engines.strategies.contract import Strategy
from workers.engines.tensors import TensorInputs, TensorSet
from workers.merge_params import base_error, check_strategy, model_count_error
from workers.merge_strategies import STRATEGIES as RULES

ENGINE_VERSION = "1"
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A merge that is decided but not computed: every output's name, type and shape is known.

    ``outputs`` are in processing order. ``metadata`` is what the output file's header carries.
    """

    tensors: TensorSet
    strategy: Strategy
    params: Mapping[str, Any]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str]
    chunk: int = REDUCTION_CHUNK

    def chunks(self, spec: TensorSpec, device: torch.device = CPU) -> Iterator[torch.Tensor]:
        """The output tensor ``spec`` as flat stretches in order, on the CPU, in its stored type.

        Raises ``nonfinite_input``, ``nonfinite_output`` or ``integer_mismatch``; what came before is then void.
        """
        inputs = self.tensors.inputs(spec.name)
        if spec.dtype.kind != "float":
            return self._copied(inputs)
        return self._merged(inputs, spec, device)

    def tensor(self, name: str, device: torch.device = CPU) -> torch.Tensor:
        """The whole output tensor ``name``."""
        spec = next(s for s in self.outputs if s.name == name)
        parts = list(self.chunks(spec, device))
        flat = torch.cat(parts) if parts else torch.empty(0, dtype=spec.dtype.torch)
        return flat.reshape(spec.shape)

    def recipe(self) -> dict[str, Any]:
        """What was asked, without the models and the base: the same recipe and models give the same bytes."""
        rest = {k: v for k, v in self.params.items() if k not in ("models", "base_model")}
        return {"strategy": self.strategy.name, **rest}

    def memory_estimate(self) -> int:
        """Upper bound in bytes of what one worker allocates for data at any moment; models on disk don't count."""
        largest = max((self._at_once(s, max(self.chunk, REDUCTION_CHUNK)) for s in self.outputs), default=0)
        return (len(self.tensors.models) + self.strategy.spare) * 8 * largest

    def _at_once(self, spec: TensorSpec, chunk: int) -> int:
        """How many elements of this tensor are in memory at once: whole rows where the strategy needs them."""
        row = min(self.strategy.together(spec.shape, self.params), spec.numel)
        return min(spec.numel, max(chunk // max(row, 1), 1) * row)

    def _copied(self, inputs: TensorInputs) -> Iterator[torch.Tensor]:
        if not bit_equal(inputs):
            labels = [m.label for m in self.tensors.models]
            raise EngineRefusal(
                "integer_mismatch",
                f"tensor {inputs.name!r} ({inputs.specs[0].dtype.name}) differs between {', '.join(labels)};"
                " integers are copied, never averaged",
                {"tensor": inputs.name, "models": labels},
            )
        for start, stop in stretches(inputs.numel, self.chunk):
            yield inputs.stored(0, start, stop)

    def _merged(self, inputs: TensorInputs, spec: TensorSpec, device: torch.device) -> Iterator[torch.Tensor]:
        if inputs.numel == 0:
            return
        wide = self.params.get("dtype") == "float64" or any(s.dtype.name == "F64" for s in inputs.specs)
        values = Values(inputs, torch.float64 if wide else torch.float32, device)
        combination = (
            Copy(0)
            if self.strategy.keeps_equal(self.params) and bit_equal(inputs)
            else self.strategy.prepare(values, self.params)
        )
        for start, stop in stretches(inputs.numel, self._at_once(spec, self.chunk)):
            result = _combined(values, combination, start, stop)
            # A copy looks at one input only, so the others are checked for themselves; elsewhere NaN spreads.
            hidden = isinstance(combination, Copy) or combination.hides
            unseen = range(len(inputs.models)) if hidden else ()
            sound = all(finite(inputs.stored(i, start, stop)) for i in unseen)
            if not sound or not finite(result, spec.dtype.torch):
                raise nonfinite_input(inputs) or self._nonfinite_output(values, spec, combination)
            yield result.to(spec.dtype.torch).to(CPU)

    def _nonfinite_output(self, values: Values, spec: TensorSpec, combination: Combination) -> EngineRefusal:
        count = sum(
            int((~torch.isfinite(_combined(values, combination, start, stop).to(spec.dtype.torch))).sum())
            for start, stop in stretches(spec.numel, self._at_once(spec, self.chunk))
        )
        return EngineRefusal(
            "nonfinite_output",
            f"tensor {spec.name!r}: {count} of {spec.numel} elements don't fit {spec.dtype.name} although the inputs"
            " are finite; choose a wider out_dtype",
            {"tensor": spec.name, "count": count, "dtype": spec.dtype.name},
        )


def _combined(values: Values, combination: Combination, start: int, stop: int) -> torch.Tensor:
    if isinstance(combination, Copy):
        return values.inputs.stored(combination.index, start, stop)
    return combination.function(values.read(start, stop), start)


class MergeEngine:
    """Merges opened models. ``chunk`` is how many elements are combined at once; no result depends on it."""

    def __init__(self, chunk: int = REDUCTION_CHUNK) -> None:
        self._chunk = chunk

    def merge(self, strategy: str, tensors: TensorSet, params: Mapping[str, Any]) -> Candidate:
        """The candidate of ``strategy`` with ``params``; no data is read. Refuses bad parameters as ``config``.

        The stored type is ``out_dtype``, else ``dtype``, else each tensor's own type in the first model.
        ``dtype: float64`` also widens the arithmetic; nothing narrows it below float32.
        """
        clean, problems = checked(strategy, params, tensors)
        if problems:
            raise EngineRefusal.of(problems)
        params = {**params, **clean}
        stored_as = params.get("out_dtype") or params.get("dtype")
        outputs = [
            replace(s, dtype=BY_PARAMETER[stored_as]) if stored_as and s.dtype.kind == "float" else s
            for s in tensors.specs
        ]
        metadata = {k: v for k, v in tensors.models[0].metadata.items() if k == "format"}
        return Candidate(
            tensors, STRATEGIES[strategy], params, tuple(sorted(outputs, key=output_order)), metadata, self._chunk
        )


def checked(strategy: str, params: Mapping[str, Any], tensors: TensorSet) -> tuple[dict[str, Any], list[Problem]]:
    """The strategy's own parameters with their defaults, and everything wrong with its name and parameters."""
    if strategy not in STRATEGIES:
        message = f"unknown strategy {strategy[:80]!r}: one of {', '.join(STRATEGIES)}"
        return {}, [Problem("config", message, {"field": "params.strategy"})]
    rule, count = RULES[strategy], len(tensors.models) - tensors.based
    clean, errors = check_strategy(rule, params, count)
    found = [e for e in (model_count_error(rule, count), base_error(rule, given=tensors.based)) if e] + errors
    problems = [Problem("config", e.message, {"field": e.field}) for e in found]
    for key in ("dtype", "out_dtype"):
        if params.get(key) is not None and params[key] not in BY_PARAMETER:
            message = f"{key} must be one of {', '.join(BY_PARAMETER)}"
            problems.append(Problem("config", message, {"field": f"params.{key}"}))
    return clean, problems


def device_class(device: torch.device) -> str:
    """Which kind of arithmetic a result comes from: part of what identifies it."""
    return "cpu" if device.type == "cpu" else f"cuda:{torch.cuda.get_device_name(device)}"
