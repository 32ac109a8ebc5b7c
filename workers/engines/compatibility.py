"""Can these models be merged tensor by tensor? Answered from their headers alone, with every reason at once."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from workers.engines.dtypes import TensorSpec
from workers.engines.refusals import MORE, Problem
from workers.engines.sources import Model

MAX_PROBLEMS = 50
PACKED = (".qweight", ".qzeros", ".g_idx", ".absmax", ".quant_map", ".weight_packed", ".weight_scale", ".SCB")


def compatibility_problems(models: Sequence[Model], settled: Collection[str] = ()) -> list[Problem]:
    """Everything that keeps ``models`` from being merged, at most ``MAX_PROBLEMS`` and a count of the rest.

    ``settled``: tensors of which it is known what becomes of them, however different they are.
    """
    found = list(islice(_problems(models, settled), MAX_PROBLEMS + 1))
    if len(found) > MAX_PROBLEMS:
        rest = sum(1 for _ in _problems(models, settled)) - MAX_PROBLEMS
        found[MAX_PROBLEMS:] = [Problem("more_problems", f"and {rest} more of this kind", {MORE: rest})]
    return found


def _problems(models: Sequence[Model], settled: Collection[str]) -> Iterator[Problem]:
    for model in models:
        yield from _unmergeable(model)
    names = sorted({name for model in models for name in model.specs}.difference(settled))
    yield from _missing(models, names)
    yield from _different(models, names)


def _unmergeable(model: Model) -> Iterator[Problem]:
    if not model.specs:
        yield Problem("no_weights", f"{model.label} holds no tensor at all", {"model": model.label})
    if _declares_quantization(model):
        yield Problem(
            "quantized_weights",
            f"{model.label} is quantized (quantization_config in its config.json); merge the unquantized model",
            {"model": model.label},
        )
        return
    for name in sorted(model.specs):
        spec = model.specs[name]
        if name.endswith(PACKED) or ".quant_state." in name:
            yield Problem(
                "quantized_weights",
                f"{model.label} holds packed quantized weights ({name!r}); merge the unquantized model",
                {"model": model.label, "tensor": name},
            )
        elif spec.dtype.kind == "unsupported":
            yield Problem(
                "unsupported_dtype",
                f"{model.label}: tensor {name!r} is {spec.dtype.name}; give the model with 16, 32 or 64 bit floats",
                {"model": model.label, "tensor": name, "dtype": spec.dtype.name},
            )


def _declares_quantization(model: Model) -> bool:
    config = model.config
    return isinstance(config, dict) and bool(config.get("quantization_config"))


def _missing(models: Sequence[Model], names: Sequence[str]) -> Iterator[Problem]:
    for name in names:
        owner = next(m for m in models if name in m.specs)
        for model in models:
            if name not in model.specs:
                close = difflib.get_close_matches(name, list(model.specs), n=3, cutoff=0.6)
                hint = f"; nearest there: {', '.join(map(repr, close))}" if close else ""
                yield Problem(
                    "missing_tensor",
                    f"{model.label} has no tensor {name!r}, {owner.label} has{hint}",
                    {"tensor": name, "model": model.label, "other": owner.label, "nearest": close},
                )


def _different(models: Sequence[Model], names: Sequence[str]) -> Iterator[Problem]:
    for name in names:
        owners = [m for m in models if name in m.specs]
        first = owners[0]
        for other in owners[1:]:
            yield from _compare(first.specs[name], other.specs[name], first.label, other.label)


def _compare(first: TensorSpec, second: TensorSpec, first_label: str, second_label: str) -> Iterator[Problem]:
    where = {"tensor": first.name, "models": [first_label, second_label]}
    if first.shape != second.shape:
        shapes = [list(first.shape), list(second.shape)]
        yield Problem(
            "shape_mismatch",
            f"tensor {first.name!r} is {shapes[0]} in {first_label} and {shapes[1]} in {second_label}",
            {**where, "shapes": shapes},
        )
    floats = first.dtype.kind == second.dtype.kind == "float"
    if first.dtype != second.dtype and not floats:
        yield Problem(
            "dtype_mismatch",
            f"tensor {first.name!r} is {first.dtype.name} in {first_label} and {second.dtype.name} in {second_label};"
            " only floats of different width can be merged",
            {**where, "dtypes": [first.dtype.name, second.dtype.name]},
        )
