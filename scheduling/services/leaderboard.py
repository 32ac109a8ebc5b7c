"""Which model is best? Those that were evaluated on the same samples, ranked by one metric."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.core.fields import nearest, shown
from scheduling.services.filters import wrong_of_artifacts
from scheduling.services.scores import Contest, Score, scores
from scheduling.store.queries import artifacts as stored
from scheduling.store.queries import evaluations
from scheduling.store.queries.access import Actor
from workers.evaluate_params import METRICS, OF_TASK
from workers.harness_params import is_higher_better, is_of_harness

MOST = 5000  # evaluations and searches that are looked at, the newest
HIGHER = frozenset({"accuracy"})
FILTERS = ("project", "dataset", "file", "limit", "metric")


@dataclass(frozen=True, slots=True)
class Entry:
    """A model in a contest, by its newest evaluation, which a job of kind ``found_by`` did: the ``artifact`` (None: the
    actor may not know of it) and its ``digest``, the ``name`` that this evaluation used and what it was made by
    under that (``meta``), its ``rank`` from 1, equal for equal values and None for one that has none, and all of its
    metrics. ``times``: how often it was evaluated. ``fitted``: a search has chosen it by these very samples, so that
    others would say more of it."""

    digest: str
    artifact: Any
    name: str
    meta: Mapping[str, Any]
    rank: int | None
    metrics: Mapping[str, float | None]
    counts: Mapping[str, int]
    evaluation: str
    job: str
    at: datetime
    times: int
    found_by: str
    fitted: bool


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The entries of one contest, the best first, and the contests that there are besides, the newest first.

    ``dataset`` is the artifact of the contest, None where the actor may not know of it. ``metrics`` are those that any
    entry has."""

    contest: Contest | None
    dataset: Any
    metric: str
    metrics: tuple[str, ...]
    entries: tuple[Entry, ...]
    others: tuple[tuple[Contest, Any], ...]

    @property
    def higher_is_better(self) -> bool:
        """Is it, of this metric?"""
        return _is_higher_better(self.metric)


def wrong(actor: Actor, given: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    """Everything that is wrong with ``project``, ``dataset`` (an id, a digest or a name), ``file``, ``limit`` and
    ``metric`` of a leaderboard; "" asks for what there is."""
    return (*wrong_of_artifacts(actor, {"project": given.get("project", "")}), *_wrong(actor, given))


def leaderboard(actor: Actor, given: Mapping[str, str]) -> Leaderboard:
    """The leaderboard that right values of :data:`FILTERS` ask for: of the contest that was evaluated last where they
    leave it open, by its first metric where they name none."""
    contests: dict[Contest, list[Score]] = {}
    for each in scores(actor, given.get("project", ""), MOST):
        contests.setdefault(each.contest, []).append(each)
    found = evaluations.by_digest(actor, [contest.dataset for contest in contests])
    fitting = [contest for contest in contests if _fits(contest, actor, given)]
    if not fitting:
        return Leaderboard(None, None, "", (), (), tuple((each, found.get(each.dataset)) for each in contests))
    chosen = fitting[0]
    entries = contests[chosen]
    told = {name for each in entries for name in each.metrics}
    metrics = (*(name for name in METRICS if name in told), *sorted(filter(is_of_harness, told)))
    metric = given.get("metric") or _first(metrics)
    return Leaderboard(
        chosen, found.get(chosen.dataset), metric, metrics, tuple(_ranked(actor, entries, metric)),
        tuple((each, found.get(each.dataset)) for each in contests if each != chosen),
    )  # fmt: skip


def _fits(contest: Contest, actor: Actor, given: Mapping[str, str]) -> bool:
    dataset = given.get("dataset")
    if dataset:
        meant = stored.resolve(actor, given.get("project", ""), dataset)
        if contest.dataset not in (dataset, meant.digest if meant else None):
            return False
    for name, value in (("file", contest.file), ("limit", contest.limit)):
        asked = given.get(name)
        if asked and asked != ("all" if value is None else str(value)):
            return False
    return True


def _ranked(actor: Actor, found: Sequence[Score], metric: str) -> Iterator[Entry]:
    """An entry for each model that has the metric; one whose value is no number comes last and has no rank."""
    by_model: dict[str, list[Score]] = {}
    for each in found:
        if metric in each.metrics:
            by_model.setdefault(each.model, []).append(each)
    known = evaluations.by_digest(actor, by_model)
    told = evaluations.told_by_name((each, by_model[digest][0].name) for digest, each in known.items())
    values = {digest: _number(each[0].metrics[metric]) for digest, each in by_model.items()}
    sign = -1.0 if _is_higher_better(metric) else 1.0
    numbers = sorted(sign * value for value in values.values() if value is not None)
    for digest in sorted(values, key=lambda each: _order(values[each], sign, by_model[each][0].at)):
        newest, value, model = by_model[digest][0], values[digest], known.get(digest)
        meta = {} if model is None else told[model.pk]
        yield Entry(
            digest, model, newest.name, meta, None if value is None else bisect_left(numbers, sign * value) + 1,
            {name: _number(said) for name, said in newest.metrics.items()}, newest.counts, newest.artifact, newest.job,
            newest.at, len(by_model[digest]), newest.found_by, any(each.fitted for each in by_model[digest]),
        )  # fmt: skip


def _is_higher_better(metric: str) -> bool:
    return metric in HIGHER or is_higher_better(metric)


def _order(value: float | None, sign: float, at: datetime) -> tuple[bool, float, datetime]:
    return value is None, 0.0 if value is None else sign * value, at


def _number(value: Any) -> float | None:
    right = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if right else None


def _first(metrics: Sequence[str]) -> str:
    """What the task of these metrics is judged by."""
    firsts = [names[0] for names in OF_TASK.values() if names[0] in metrics]
    return (firsts or list(metrics) or [""])[0]


def _wrong(actor: Actor, given: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    dataset, limit, metric = (given.get(name, "") for name in ("dataset", "limit", "metric"))
    if dataset and not dataset.startswith("sha256:"):
        meant = stored.resolve(actor, given.get("project", ""), dataset)
        if meant is None or meant.kind != "dataset":
            hint = nearest(dataset, stored.names(actor, given.get("project", ""), "dataset"))
            yield _said("dataset", f"there is no data set {shown(dataset)} in your projects{hint}", None)
    if limit and limit != "all" and not (limit.isdecimal() and limit.isascii()):
        yield _said("limit", f"limit is the number of samples or all, not {shown(limit)}", None)
    if metric and metric not in METRICS and not is_of_harness(metric):
        message = (
            f"there is no metric {shown(metric)}{nearest(metric, METRICS)}; give one of {', '.join(METRICS)}, or one of"
            " a task of lm-eval, such as TASK/acc"
        )
        yield _said("metric", message, list(METRICS))


def _said(field: str, message: str, limit: Any) -> dict[str, Any]:
    return {"field": field, "code": f"unknown_{field}", "message": message, "limit": limit}
