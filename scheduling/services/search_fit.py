"""Do the models, the space and the data sets of a search fit each other? Told before anything is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling.services import rows_fit
from scheduling.services.model_config import config_of
from workers.evaluate_params import DATASET as READS
from workers.evolve_params import (
    DATASET,
    TEST,
    evaluation_field,
    evaluation_params,
    merge_field,
    not_searched,
    plan_of,
    same_data,
)
from workers.merge_layout import lay_out
from workers.merge_params import merge_references
from workers.merge_recipe import recipe_of
from workers.model_table import Row, Table
from workers.param_errors import ParamError
from workers.rows_params import MODEL, family_of

_MERGE = "params.merge."


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What all candidates are, as an evaluation asks of a model: they carry the files of one of the models, and have
    these ``tensors`` (None: not known yet)."""

    name: str
    files: list[dict[str, Any]]
    tensors: Mapping[str, Row] | None


def tensors_made(
    merge: Mapping[str, Any], tables: Mapping[str, Table], *, right: bool, matching: bool
) -> Mapping[str, Row] | None:
    """Type and shape of each tensor that a candidate has, of right parameters; None where that is not known yet.

    ``tables``: the models that are there, by the names of the inputs. ``matching``: nothing keeps these from being
    merged. Of models that don't match, or of which one is yet to be made, it is what the first of them has, as long
    as all have to be alike.
    """
    if not right:
        return None
    if matching and all(name in tables for _, _, name in merge_references(merge)):
        parts, wrong = lay_out(recipe_of(merge), tables)
        read = {part.name: (part, tables[part.origins[0][0]].tensors[part.origins[0][1]]) for part in parts}
        rows = {
            name: row if part.settled.rows is None else (row[0], (part.settled.rows, *row[1][1:]))
            for name, (part, row) in read.items()
        }
        return None if wrong else rows
    first = next(iter(tables.values()), None)
    return first.tensors if first is not None and merge.get("on_mismatch") is None else None


def faults(
    params: Mapping[str, Any], found: Mapping[str, Any], tensors: Mapping[str, Row] | None, *, right: bool
) -> list[ParamError]:
    """What headers, configuration and names of files tell of right parameters: nothing of others. ``found``: the
    artifacts by the names of the inputs, as far as they are there and of the right kind; ``tensors``: what candidates
    have, as :func:`tensors_made` says."""
    if not right:
        return []
    errors: list[ParamError] = []
    if tensors is not None:
        errors += plan_of(params, tensors)[1]
    carrier = found.get(recipe_of(params["merge"]).carries)
    candidate = None if carrier is None else _Candidate(carrier.name, carrier.files, tensors)
    if candidate is not None and (other := _not_searched(params, candidate)):
        return [*errors, *other]
    for name, test in ((DATASET, False), (TEST, True)):
        there = {MODEL: candidate, READS: found.get(name)}
        read = {input_: artifact for input_, artifact in there.items() if artifact is not None}
        if test and TEST not in found:
            continue
        wrong = rows_fit.faults("evaluate", evaluation_params(params, test=test), read)
        told = [replace(e, field=evaluation_field(e.field, test=test)) for e in wrong]
        errors += [e for e in told if not test or e.field.startswith("params.test")]
    if DATASET in found and TEST in found and found[DATASET].pk == found[TEST].pk:
        errors += [error for error in (same_data(params),) if error is not None]
    return errors


def _not_searched(params: Mapping[str, Any], candidate: _Candidate) -> list[ParamError]:
    """Why candidates can't be scored, by what their configuration says they are."""
    family, _, wrong = family_of(evaluation_params(params), config_of(candidate.files), candidate.name)
    told = [] if family is None or wrong else not_searched(family)
    return [replace(e, field=evaluation_field(e.field)) for e in told]


def models(inputs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the inputs that are merged."""
    return [row for row in inputs if row["as"] not in (DATASET, TEST)]


def place(field: str) -> str:
    """Where an error of the merge's ``field`` belongs in the parameters of the search."""
    return field if field.startswith(_MERGE) else merge_field(field)
