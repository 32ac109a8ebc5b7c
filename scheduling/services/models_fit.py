"""Do the artifacts a job names exist, and do the models of a merge fit? Told before anything is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.store.queries import artifacts
from scheduling.store.queries.access import Actor
from workers.catalog import KINDS, nearest
from workers.merge_params import BASE_INPUT

SHOWN = 5
BASE_FIELD = "params.base_model"


def check(
    kind: str, params: Mapping[str, Any], *, project: str, actor: Actor
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(inputs, errors): each referenced artifact as ``{artifact, as, name, digest}``, and everything that is wrong.

    An artifact the actor may not know of reads exactly like one that doesn't exist.
    """
    inputs: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    tensors: list[tuple[str, str, dict[str, Any]]] = []
    for field, reference, name in KINDS[kind].references(params):
        found = artifacts.resolve(actor, project, reference) if actor.sees(project) else None
        if found is None:
            hint = nearest(reference, artifacts.names(actor, project)) if actor.sees(project) else ""
            errors.append(
                _wrong(field, "no_such_artifact", f"there is no artifact {reference[:100]!r} in your projects{hint}")
            )
        elif KINDS[kind].takes and found.kind not in KINDS[kind].takes:
            errors.append(_wrong(field, "not_a_model", f"{found.name!r} is a {found.kind}, not a model"))
        elif found.corrupt:
            errors.append(
                _wrong(field, "corrupt_artifact", f"the stored bytes of {found.name!r} failed their last check")
            )
        else:
            inputs.append({"artifact": str(found.pk), "as": name, "name": found.name, "digest": found.digest})
            if found.tensors is not None:
                tensors.append((field, found.name, found.tensors))
    if kind == "merge":
        errors += _base_among_models(inputs)
        for field, other, theirs in tensors[1:]:
            beside = field if field == BASE_FIELD else "params.models"
            errors += _differences(beside, tensors[0][1:], (other, theirs))
    return inputs, errors


def _base_among_models(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A base that is merged too would only count as a model that changed nothing."""
    models = {row["artifact"] for row in inputs if row["as"] != BASE_INPUT}
    return [
        _wrong(BASE_FIELD, "base_among_models", f"{row['name']!r} is the base and one of the models: leave it out of "
               "models")
        for row in inputs if row["as"] == BASE_INPUT and row["artifact"] in models
    ]  # fmt: skip


def _differences(
    field: str, one: tuple[str, dict[str, Any]], another: tuple[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """What keeps two models from being merged: tensors only one has, and shapes that differ, both named."""
    (first, ours), (other, theirs) = one, another
    errors = []
    for holder, lacker, names in (
        (first, other, ours.keys() - theirs.keys()),
        (other, first, theirs.keys() - ours.keys()),
    ):
        if names:
            shown = ", ".join(sorted(names)[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
            hint = nearest(min(names), sorted((theirs if holder == first else ours).keys()))
            errors.append(
                _wrong(
                    field,
                    "missing_tensor",
                    f"{lacker!r} lacks {shown}, which {holder!r} has{hint}",
                    sorted(names)[:SHOWN],
                )
            )
    unequal = [n for n in sorted(ours.keys() & theirs.keys()) if ours[n][1] != theirs[n][1]]
    for n in unequal[:SHOWN]:
        errors.append(
            _wrong(field, "shape_mismatch",
                   f"tensor {n!r} is {_shape(ours[n])} in {first!r} and {_shape(theirs[n])} in {other!r}", n)
        )  # fmt: skip
    if len(unequal) > SHOWN:
        errors.append(_wrong(field, "shape_mismatch", f"and {len(unequal) - SHOWN} more differ in shape"))
    return errors


def _shape(row: Any) -> str:
    return " x ".join(str(n) for n in row[1]) or "a single number"


def _wrong(field: str, code: str, message: str, limit: Any = None) -> dict[str, Any]:
    return {"field": field, "code": code, "message": message, "limit": limit}
