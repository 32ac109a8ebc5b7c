"""Do two jobs do the same work, and do they come to the same result? Their parameters are the same, by whatever names
they call the same artifacts."""

from __future__ import annotations

import copy
import hashlib
import json
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
    return one.kind == other.kind and _naming(one, "artifact") == _naming(other, "artifact")


def key_of(work: Work) -> str:
    """The sha256, in hex, of what the result depends on: the kind, its parameters, and the digests of its artifacts. ""
    where the kind may come to another result each time, and as long as an artifact is yet to be made."""
    if not KINDS[work.kind].repeatable or _is_open(work):
        return ""
    basis = {"kind": work.kind, "params": _naming(work, "digest")}
    return hashlib.sha256(json.dumps(basis, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_open(work: Work) -> bool:
    """Whether it names outputs of jobs that have yet to succeed: these are not among the artifacts that were found."""
    return len(KINDS[work.kind].references(work.params)) != len(work.inputs)


def _naming(work: Work, how: str) -> Any:
    """The parameters with the ``artifact`` (its id) or the ``digest`` of each artifact in the place of its name."""
    params = copy.deepcopy(dict(work.params))
    if _is_open(work):
        return {"inputs": [dict(each) for each in work.inputs], **params}
    if params.get("recipe") is not None:
        named = zip(KINDS[work.kind].references(params), work.inputs, strict=True)
        return {
            **params,
            "recipe": renamed(params["recipe"], {name: found[how] for (_, name, _), found in named}),
        }
    references = KINDS[work.kind].references(params)
    by_name = {name: found[how] for (_, name, _), found in zip(references, work.inputs, strict=True)}
    for holder in (params, params.get("merge")):
        if isinstance(holder, dict) and holder.get("tokenizer_source") in by_name:
            holder["tokenizer_source"] = by_name[holder["tokenizer_source"]]
    for (field, _, _), found in zip(references, work.inputs, strict=True):
        _put(params, field.removeprefix("params."), found[how])
    return params


def _put(holder: Any, place: str, value: Any) -> None:
    """``files``, ``models.0``, ``inputs.base`` or ``merge.models.0`` has the value; a name may have a dot itself."""
    if isinstance(holder, list):
        holder[int(place)] = value
    elif place in holder:
        holder[place] = value
    else:
        name, _, rest = place.partition(".")
        _put(holder[name], rest, value)
