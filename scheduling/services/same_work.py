"""Do two jobs do the same work? Their parameters are the same, by whatever names they call the same artifacts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.catalog import KINDS
from workers.merge_recipe import renamed


@dataclass(frozen=True, slots=True)
class Work:
    """The kind, its checked parameters, and the artifacts that these name, in their order, as they were found."""

    kind: str
    params: Mapping[str, Any]
    inputs: Sequence[Mapping[str, Any]]


def is_same(one: Work, other: Work) -> bool:
    """Whether a checkpoint of the one is one of the other."""
    return one.kind == other.kind and _by_id(one) == _by_id(other)


def _by_id(work: Work) -> Any:
    """The parameters with the id of each artifact in the place of what it is called there."""
    params = copy.deepcopy(dict(work.params))
    if params.get("recipe") is not None:
        named = zip(KINDS[work.kind].references(params), work.inputs, strict=True)
        return {
            **params,
            "recipe": renamed(params["recipe"], {name: found["artifact"] for (_, name, _), found in named}),
        }
    for (field, _, _), found in zip(KINDS[work.kind].references(params), work.inputs, strict=True):
        _, name, *key = field.split(".", 2)  # params.files, params.models.0, params.inputs.base
        if not key:
            params[name] = found["artifact"]
        elif isinstance(params[name], list):
            params[name][int(key[0])] = found["artifact"]
        else:
            params[name][key[0]] = found["artifact"]
    return params
