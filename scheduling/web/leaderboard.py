"""Which candidate is best?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from scheduling.services import leaderboard as service
from scheduling.services.leaderboard import Entry, Leaderboard
from scheduling.services.scores import EVOLVE, Contest
from scheduling.store.queries import pages
from scheduling.store.queries.access import Actor
from scheduling.web import csv_export
from scheduling.web.access import signed_in
from scheduling.web.metric_words import METRIC_WORDS, heading_of, word_of
from scheduling.web.recipe_words import made_by
from scheduling.web.wording import amount

SHOWN = 200
FITTED = "It was searched on these very samples: compare it on others."
COLUMNS = (
    "rank",
    "model",
    "project",
    "digest",
    "metric",
    "value",
    "samples",
    "made_by",
    "evaluation",
    "job",
    "evaluated_at",
    "found_by",
    "fitted",
)


@signed_in
def leaderboard(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The models that were evaluated on the same samples, ranked; two of them side by side where they were chosen."""
    given = _given(request)
    wrong = service.wrong(actor, given)
    found = service.leaderboard(actor, {} if wrong else given)
    ranked = [_row(entry, found) for entry in found.entries]
    chosen = [row for row in ranked if row["evaluation"] in request.GET.getlist("compare")]
    context = {
        "wrong": wrong,
        "given": given,
        "found": found,
        "sentence": _sentence(found),
        "samples": _samples(found.contest, found.dataset),
        "rows": ranked[:SHOWN],
        "more": max(len(ranked) - SHOWN, 0),
        "metrics": [{"name": name, "word": word_of(name), "head": heading_of(name)} for name in found.metrics],
        "others": [{"said": _samples(*each), "query": _address(each[0], given)} for each in found.others],
        "projects": pages.project_names(actor),
        "query": _address(found.contest, given) if found.contest else "",
        "chosen": [row["evaluation"] for row in chosen],
        "pair": list(_beside(*chosen)) if len(chosen) == 2 else [],
        "two": chosen if len(chosen) == 2 else [],
        "not_two": bool(request.GET.getlist("compare")) and len(chosen) != 2,
    }
    return render(request, "leaderboard.html", context, status=400 if wrong else 200)


@signed_in
def export(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The leaderboard as CSV."""
    given = _given(request)
    if wrong := service.wrong(actor, given):
        text = "\n".join(each["message"] for each in wrong)
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    found = service.leaderboard(actor, given)
    rows = ({**_row(entry, found), "metric": found.metric, "evaluated_at": entry.at} for entry in found.entries)
    return csv_export.answer("leaderboard.csv", COLUMNS, rows)


def _given(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "")[:200].replace("\x00", "") for name in service.FILTERS}


def _row(entry: Entry, found: Leaderboard) -> dict[str, Any]:
    model = entry.artifact
    return {
        "rank": entry.rank,
        "id": None if model is None else model.pk,
        "model": entry.digest[:19] if model is None else entry.name,
        "project": "" if model is None else model.project.name,
        "deleted": model is not None and model.deleted_at is not None,
        "digest": entry.digest,
        "value": entry.metrics[found.metric],
        "said": _said(entry.metrics[found.metric]),
        "others": [
            {"word": word_of(name), "said": _said(entry.metrics[name]) if name in entry.metrics else "–"}
            for name in found.metrics
            if name != found.metric
        ],
        "metrics": entry.metrics,
        "counts": entry.counts,
        "samples": entry.counts.get("samples", ""),
        "made_by": made_by(entry.meta),
        "meta": entry.meta,
        "evaluation": entry.evaluation,
        "job": entry.job,
        "at": entry.at,
        "times": entry.times,
        "found_by": entry.found_by,
        "fitted": entry.fitted,
        "searched": entry.found_by == EVOLVE,
    }


def _sentence(found: Leaderboard) -> str:
    """Which is best, first of all."""
    ranked = [entry for entry in found.entries if entry.rank is not None]
    if not found.entries:
        return "No model has been evaluated yet." if not found.others else "Nothing was evaluated on these samples."
    where = f"on {_samples(found.contest, found.dataset)} by {word_of(found.metric)}"
    if not ranked:
        return f"No model has a number {where}."
    best = [entry for entry in ranked if entry.rank == 1]
    names = [entry.name if entry.artifact else entry.digest[:19] for entry in best]
    value = _said(best[0].metrics[found.metric])
    warned = f" {FITTED}" if len(best) == 1 and best[0].fitted else ""
    if len(found.entries) == 1:
        return f"{names[0]} is the only model that was evaluated {where}: {value}.{warned}"
    if len(best) == 1:
        return f"{names[0]} is the best of {amount(len(found.entries), 'model')} {where}: {value}.{warned}"
    return f"{amount(len(best), 'model')} of {len(found.entries)} are equally good {where}: {value}."


def _samples(contest: Contest | None, dataset: Any) -> str:
    """What the models were evaluated on, in words."""
    if contest is None:
        return ""
    name = dataset.name if dataset is not None else contest.dataset[:19]
    first = f"the first {amount(contest.limit, 'sample')} of " if contest.limit is not None else ""
    return f"{first}{name}{f', {contest.file}' if contest.file else ''}"


def _address(contest: Contest, given: Mapping[str, str]) -> str:
    """The query that asks for this contest, in the project that was asked for."""
    asked = {
        "dataset": contest.dataset, "file": contest.file or "all",
        "limit": "all" if contest.limit is None else str(contest.limit),
    }  # fmt: skip
    kept = {name: given[name] for name in ("project",) if given.get(name)}
    return urlencode({**kept, **asked})


def _beside(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Two models line by line: metrics, what they were made by and of, with whether they differ."""
    for name in dict.fromkeys((*METRIC_WORDS, *one["metrics"], *other["metrics"])):
        if name in one["metrics"] or name in other["metrics"]:
            yield _line(word_of(name), *(_said(each["metrics"].get(name)) for each in (one, other)))
    for name in dict.fromkeys((*one["counts"], *other["counts"])):
        yield _line(name.replace("_", " "), *(each["counts"].get(name) for each in (one, other)))
    recipes = [each["meta"].get("recipe") or {} for each in (one, other)]
    for name in dict.fromkeys((*recipes[0], *recipes[1])):
        yield _line(name.replace("_", " "), *(_text(recipe.get(name)) for recipe in recipes))
    yield _line("sha256", *(f"{each['digest'].removeprefix('sha256:')[:16]}…" for each in (one, other)))


def _line(word: str, one: Any, other: Any) -> dict[str, Any]:
    return {"word": word, "one": "–" if one in (None, "") else one, "other": "–" if other in (None, "") else other,
            "differs": one != other}  # fmt: skip


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _said(value: float | None) -> str:
    return "no number" if value is None else f"{value:.6g}"
