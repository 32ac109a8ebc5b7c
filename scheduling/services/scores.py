"""What was scored on which samples: evaluations, and searches by the best model that each found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.store.queries import evaluations
from scheduling.store.queries.access import Actor
from workers import evolve_params
from workers.evaluate_params import DATASET
from workers.rows_params import MODEL
from workers.search_rows import SEARCH, TESTED

EVALUATE, EVOLVE = "evaluate", "evolve"


@dataclass(frozen=True, slots=True)
class Contest:
    """The samples that models were evaluated on: the digest of a data set, its ``file`` where that was said, and how
    many from the first (``limit``; None: all)."""

    dataset: str
    file: str | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class Score:
    """What a job of kind ``found_by`` found of one model: the digest of the ``model`` and the ``name`` by which it was
    meant, what it was evaluated on, and what that gave. ``fitted``: it was searched on these very samples."""

    model: str
    name: str
    contest: Contest
    metrics: Mapping[str, Any]
    counts: Mapping[str, Any]
    artifact: str
    job: str
    at: datetime
    found_by: str
    fitted: bool


def scores(actor: Actor, project: str, limit: int) -> Iterator[Score]:
    """Those of the newest ``limit`` evaluations and searches that the actor may know of, the newest first; of a search
    that on its test before that on its search set. Records of another form are passed over."""
    rows = evaluations.newest(actor, project, limit)
    found = evaluations.found_by_searches(row["job_id"] for row in rows if row["job__kind"] == EVOLVE)
    for row in rows:
        if row["job__kind"] == EVALUATE:
            yield from _of_evaluation(row)
        elif row["job_id"] in found:
            yield from _of_search(row, *found[row["job_id"]])


def _of_evaluation(row: Mapping[str, Any]) -> Iterator[Score]:
    inputs = _inputs(row)
    if {MODEL, DATASET} <= inputs.keys():
        model, params, meta = inputs[MODEL], row["job__params"], row["artifact__meta"]
        contest = Contest(inputs[DATASET]["digest"], params.get("file"), params.get("limit"))
        yield from _score(row, model["digest"], model["name"], contest, meta, fitted=False)


def _of_search(row: Mapping[str, Any], digest: str, name: str) -> Iterator[Score]:
    """Of the job's own record: equal searches share an artifact, which tells of the first of them."""
    inputs, told = _inputs(row), row["meta"].get("scores")
    parts = ((TESTED, evolve_params.TEST, "test"), (SEARCH, evolve_params.DATASET, "objective"))
    for part, given, asked in parts:
        params = row["job__params"].get(asked)
        if given in inputs and isinstance(params, Mapping) and isinstance(told, Mapping):
            contest = Contest(inputs[given]["digest"], params.get("file"), params.get("limit"))
            yield from _score(row, digest, name, contest, told.get(part), fitted=part == SEARCH)


def _score(
    row: Mapping[str, Any], model: str, name: str, contest: Contest, told: Any, *, fitted: bool
) -> Iterator[Score]:
    found = told if isinstance(told, Mapping) else {}
    metrics, counts = found.get("metrics"), found.get("counts")
    if isinstance(metrics, Mapping) and isinstance(counts, Mapping):
        at = row["job__ended_at"] or row["job__submitted_at"]
        artifact, job = str(row["artifact_id"]), str(row["job_id"])
        yield Score(model, name, contest, metrics, counts, artifact, job, at, row["job__kind"], fitted)


def _inputs(row: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {each["as"]: each for each in row["job__spec"].get("inputs", [])}
