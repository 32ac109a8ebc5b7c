"""A config.json that speaks of the merged model: how many layers it has, and which type is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workers.engines.dtypes import BY_PARAMETER, TensorSpec
from workers.engines.durable import write_file
from workers.merge_recipe import Recipe

CONFIG = "config.json"
COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
PER_LAYER = ("layer_types",)
TYPES = ("torch_dtype", "dtype")


def layers_taken(recipe: Recipe) -> list[int]:
    """Of each layer of the result, which layer it is of the model whose small files are carried, or of the first one
    where that takes no part."""
    taken: list[int] = []
    for each in recipe.slices:
        source = next((s for s in each.origins if s.input == recipe.carries), each.sources[0])
        taken += [(source.first or 0) + offset for offset in range(each.layers or 0)]
    return taken


def stored_type(outputs: Iterable[TensorSpec]) -> str | None:
    """What ``config.json`` calls the type of all floats of the result; None where there are several or none."""
    found = {spec.dtype for spec in outputs if spec.dtype.kind == "float"}
    return next((name for name, dtype in BY_PARAMETER.items() if found == {dtype}), None)


def fit_config(directory: Path, *, taken: Sequence[int] | None, stored: str | None) -> list[str]:
    """Make ``config.json`` speak of these layers (None: of all, as they were) and of this type; returns what was done
    in words, nothing where it fits as it is.

    A list with one entry a layer (``layer_types``) gets the entries of the layers taken.
    """
    path = directory / CONFIG
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(config, dict):
        return []
    layers, told = ({}, []) if taken is None else _layers(config, taken)
    types = {name: stored for name in TYPES if stored and config.get(name) in BY_PARAMETER.keys() - {stored}}
    if layers or types:
        write_file(path, json.dumps({**config, **layers, **types}, indent=2, ensure_ascii=False).encode() + b"\n")
    return [*told, *(f"{CONFIG} says {name} {stored}" for name in types)]


def _layers(config: dict[str, Any], taken: Sequence[int]) -> tuple[dict[str, Any], list[str]]:
    """What changes in it, and what is told."""
    counts = [name for name in COUNTS if type(config.get(name)) is int]
    if counts and list(taken) == list(range(config[counts[0]])):
        return {}, []
    if not counts:
        left = f"{CONFIG} has none of {', '.join(COUNTS)}: it is as it was, see to it that it fits {len(taken)} layers"
        return {}, [left]
    changed: dict[str, Any] = {name: len(taken) for name in counts}
    for name in PER_LAYER:
        given = config.get(name)
        if isinstance(given, list) and len(given) > max(taken):
            changed[name] = [given[at] for at in taken]
    return changed, [f"{CONFIG} says {', '.join(f'{name} {len(taken)}' for name in counts)}"]
