"""A config.json that speaks of the merged model: its layers and words, its type, and whether its head is its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.engines.dtypes import BY_PARAMETER, TensorSpec
from workers.engines.durable import write_file
from workers.engines.merging import Candidate
from workers.engines.sources import CONFIG
from workers.merge_recipe import Recipe
from workers.model_table import TIES, is_head, says_tied

WORDS = "vocab_size"
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


def rows_cut(candidate: Candidate) -> dict[int, int]:
    """How many rows are left of tensors that had so many in the model whose small files are carried."""
    carried = candidate.carries.specs
    return {
        carried[name].shape[0]: piece.inputs.rows
        for name, piece in candidate.pieces.items()
        if piece.inputs.rows is not None and name in carried
    }


def is_untied(candidate: Candidate) -> bool:
    """Does the result have a head whose numbers are not those of its embeddings? So it is where a model says that its
    own are not tied."""
    heads = [piece for name, piece in candidate.pieces.items() if is_head(name)]
    return any(says_tied(model.config) is False for piece in heads for model in piece.inputs.models)


def fit_config(
    directory: Path,
    *,
    taken: Sequence[int] | None,
    stored: str | None,
    cut: Mapping[int, int] | None = None,
    untied: bool = False,
) -> list[str]:
    """Make ``config.json`` speak of these layers (None: of all, as they were), of this type, of the words that are left
    where rows were ``cut``, and of a head of its own (``untied``); returns what was done in words, nothing where it
    fits as it is.

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
    changed = {**_vocabulary(config, cut or {}), **_head(config, untied=untied), **types}
    if layers or changed:
        write_file(path, json.dumps({**config, **layers, **changed}, indent=2, ensure_ascii=False).encode() + b"\n")
    return [*told, *(f"{CONFIG} says {name} {_said(value)}" for name, value in changed.items())]


def _vocabulary(config: Mapping[str, Any], cut: Mapping[int, int]) -> dict[str, int]:
    left = cut.get(config[WORDS]) if type(config.get(WORDS)) is int else None
    return {} if left is None else {WORDS: left}


def _head(config: Mapping[str, Any], *, untied: bool) -> dict[str, bool]:
    return {TIES: False} if untied and config.get(TIES) is True else {}


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


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
