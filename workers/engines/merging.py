"""MergeEngine: a strategy, matching tensors and parameters give a candidate, computed one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from workers.engines.sources import Model
from workers.engines.strategies import STRATEGIES
from workers.engines.strategies.contract import Strategy
from workers.engines.tensors import TensorInputs, TensorSet
from workers.merge_layout import PATTERN, Part, lay_out
from workers.merge_recipe import Recipe, Source, plain_recipe
from workers.merge_strategies import STRATEGIES as RULES
from workers.merge_table import Row, rows_of
from workers.model_layers import pattern_fault
from workers.model_table import Table, says_tied
from workers.strategy_params import base_error, check_strategy, model_count_error

ENGINE_VERSION = "1"
CPU = torch.device("cpu")
# What a layout refuses of the models; everything else of the parameters.
_OF_MODELS = frozenset({"missing_tensor", "shape_mismatch", "dtype_mismatch", "missing_layer", "no_layers"})


@dataclass(frozen=True, slots=True)
class Piece:
    """One tensor of the output: what it is made of, and the strategy's parameters for it.

    ``copied``: it is that of its only model, whatever the strategy. ``kept``: the model whose integers count where they
    differ, None where that is refused.
    """

    inputs: TensorInputs
    params: Mapping[str, Any]
    copied: bool = False
    kept: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A merge that is decided but not computed: every output's name, type and shape is known.

    ``outputs`` are in processing order, ``pieces`` by their names. ``params`` are those of all tensors together.
    ``metadata`` is what the output file's header carries. ``table`` tells what each is made of, and with which values.
    ``carries`` is the model whose small files go with it.
    """

    strategy: Strategy
    params: Mapping[str, Any]
    outputs: tuple[TensorSpec, ...]
    pieces: Mapping[str, Piece]
    metadata: Mapping[str, str]
    carries: Model
    table: tuple[Row, ...] = ()
    chunk: int = REDUCTION_CHUNK

    def chunks(self, spec: TensorSpec, device: torch.device = CPU) -> Iterator[torch.Tensor]:
        """The output tensor ``spec`` as flat stretches in order, on the CPU, in its stored type.

        Raises ``nonfinite_input``, ``nonfinite_output`` or ``integer_mismatch``; what came before is then void.
        """
        piece = self.pieces[spec.name]
        if spec.dtype.kind != "float":
            return self._copied(piece)
        return self._merged(piece, spec, device)

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

    def memory_estimate(self, workers: int = 1) -> int:
        """Upper bound in bytes of what so many workers allocate for data at any moment, a finished stretch that is
        still being written included. Models on disk don't count, those that can't be mapped do."""
        chunk, spare = max(self.chunk, REDUCTION_CHUNK), self.strategy.spare
        each = ((len(self.pieces[s.name].inputs.models) + spare + 1) * self._at_once(s, chunk) for s in self.outputs)
        models = {id(model): model.resident for piece in self.pieces.values() for model in piece.inputs.models}
        return 8 * max(each, default=0) * workers + sum(models.values())

    def _at_once(self, spec: TensorSpec, chunk: int) -> int:
        """How many elements of this tensor are in memory at once: whole rows where the strategy needs them."""
        piece = self.pieces[spec.name]
        row = 1 if piece.copied else min(self.strategy.together(spec.shape, piece.params), spec.numel)
        return min(spec.numel, max(chunk // max(row, 1), 1) * row)

    def _copied(self, piece: Piece) -> Iterator[torch.Tensor]:
        inputs = piece.inputs
        if piece.kept is None and not bit_equal(inputs):
            labels = [m.label for m in inputs.models]
            raise EngineRefusal(
                "integer_mismatch",
                f"tensor {inputs.name!r} ({inputs.specs[0].dtype.name}) differs between {', '.join(labels)};"
                " integers are copied, never averaged: say with on_mismatch whose count",
                {"tensor": inputs.name, "models": labels},
            )
        for start, stop in stretches(inputs.numel, self.chunk):
            yield inputs.stored(piece.kept or 0, start, stop)

    def _merged(self, piece: Piece, spec: TensorSpec, device: torch.device) -> Iterator[torch.Tensor]:
        inputs = piece.inputs
        if inputs.numel == 0:
            return
        wide = self.params.get("dtype") == "float64" or any(s.dtype.name == "F64" for s in inputs.specs)
        values = Values(inputs, torch.float64 if wide else torch.float32, device)
        combination = (
            Copy(0)
            if piece.copied or (self.strategy.keeps_equal(piece.params) and bit_equal(inputs))
            else self.strategy.prepare(values, piece.params)
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
        named = tuple(f"model-{i}" for i in range(len(tensors.models)))
        sources = tuple(Source(name, name) for name in named)
        merged, base = (sources[:-1], sources[-1]) if tensors.based else (sources, None)
        return self.follow(plain_recipe(RULES[strategy], params, merged, base), tensors, params, named)

    def follow(self, recipe: Recipe, tensors: TensorSet, params: Mapping[str, Any], inputs: Sequence[str]) -> Candidate:
        """The candidate of a checked recipe, the models in the order of its ``inputs``; no data is read.

        ``params`` are those of all tensors together: ``dtype``, ``out_dtype`` and ``seed`` are of account here. Refuses
        layers that are missing, tensors that can't be put together, and values that are wrong for a tensor.
        """
        models = dict(zip(inputs, tensors.models, strict=True))
        tables = {name: table_of(model) for name, model in models.items()}
        parts, errors = lay_out(recipe, tables)
        if errors:
            raise EngineRefusal.of(
                Problem(e.code if e.code in _OF_MODELS else "config", e.message, {"field": e.field}) for e in errors
            )
        pieces = {part.name: _piece(part, models, params) for part in parts}
        stored_as = params.get("out_dtype") or params.get("dtype")
        outputs = [_output(name, piece.inputs.specs[0], stored_as) for name, piece in pieces.items()]
        metadata = {k: v for k, v in models[recipe.slices[0].sources[0].input].metadata.items() if k == "format"}
        table = tuple(rows_of(recipe, parts, tables))
        ordered = tuple(sorted(outputs, key=output_order))
        carries = models[recipe.carries]
        return Candidate(
            STRATEGIES[recipe.strategy.name], params, ordered, pieces, metadata, carries, table, self._chunk
        )


def _piece(part: Part, models: Mapping[str, Model], params: Mapping[str, Any]) -> Piece:
    read = tuple(models[name] for name, _ in part.origins)
    settled = part.settled
    inputs = TensorInputs(part.name, read, tuple(tensor for _, tensor in part.origins), part.based, settled.rows)
    return Piece(inputs, {**params, **part.values}, settled.copied, settled.kept)


def _output(name: str, spec: TensorSpec, stored_as: str | None) -> TensorSpec:
    dtype = BY_PARAMETER[stored_as] if stored_as and spec.dtype.kind == "float" else spec.dtype
    return replace(spec, name=name, dtype=dtype)


def table_of(model: Model) -> Table:
    """What is known of a model before its data is read."""
    tensors = {name: (spec.dtype.name, spec.shape) for name, spec in model.specs.items()}
    return Table(model.label, tensors, says_tied(model.config))


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
    pattern = params.get("layer_pattern")
    if pattern is not None and (fault := pattern_fault(pattern)) is not None:
        problems.append(Problem("config", f"layer_pattern {fault[1]}", {"field": PATTERN}))
    return clean, problems


def device_class(device: torch.device) -> str:
    """Which kind of arithmetic a result comes from: part of what identifies it."""
    return "cpu" if device.type == "cpu" else f"cuda:{torch.cuda.get_device_name(device)}"
