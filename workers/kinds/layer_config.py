"""A config.json that says how many layers the merged model has, where a recipe has changed their number or order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from workers.engines.durable import write_file
from workers.merge_recipe import Recipe

CONFIG = "config.json"
COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
PER_LAYER = ("layer_types",)


def layers_taken(recipe: Recipe) -> list[int]:
    """Of each layer of the result, which layer it is of the model whose small files are carried, or of the first one
    where that takes no part."""
    taken: list[int] = []
    for each in recipe.slices:
        source = next((s for s in each.origins if s.input == recipe.carries), each.sources[0])
        taken += [(source.first or 0) + offset for offset in range(each.layers or 0)]
    return taken


def rewrite_layers(directory: Path, taken: Sequence[int]) -> str:
    """Make ``config.json`` speak of these layers; returns what was done, or "" where it had nothing to do.

    A list with one entry a layer (``layer_types``) gets the entries of the layers taken.
    """
    path = directory / CONFIG
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(config, dict):
        return ""
    counts = [name for name in COUNTS if type(config.get(name)) is int]
    if counts and list(taken) == list(range(config[counts[0]])):
        return ""
    if not counts:
        return f"{CONFIG} has none of {', '.join(COUNTS)}: it is as it was, see to it that it fits {len(taken)} layers"
    changed: dict[str, object] = {name: len(taken) for name in counts}
    for name in PER_LAYER:
        given = config.get(name)
        if isinstance(given, list) and len(given) > max(taken):
            changed[name] = [given[at] for at in taken]
    write_file(path, json.dumps({**config, **changed}, indent=2, ensure_ascii=False).encode() + b"\n")
    return f"{CONFIG} says {', '.join(f'{name} {len(taken)}' for name in counts)}"
