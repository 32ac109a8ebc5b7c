"""What is happening to this job, why, and what came out?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from scheduling.core.lifecycle import JobState
from scheduling.services import jobs as verbs
from scheduling.services import now, whatif
from scheduling.store.queries import after, events, known, pages, series, windows
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.access import Actor
from scheduling.store.queries.same_work import same_as
from scheduling.web import metric_words, search_chart
from scheduling.web.access import posted, signed_in
from scheduling.web.asked_words import asked_for, by_default
from scheduling.web.job_log import known_job, tail_of
from scheduling.web.job_words import asked, at_stake, jobs_in, shown
from scheduling.web.lost_words import goes_on, lost_in_all, lost_line
from scheduling.web.outlook_words import ALONE, foretold
from scheduling.web.people_words import parts
from scheduling.web.wording import duration
from workers.catalog import KINDS
from workers.evolve_params import DATASET, TEST

EVOLVE = "evolve"


@signed_in
def job(request: HttpRequest, actor: Actor, job_id: UUID) -> HttpResponse:
    """The job's state and reasons, its attempts, timeline, log and artifacts, and what may be done to it."""
    seq, row, moment = events.newest(), known_job(actor, job_id), now()
    found = queries.as_dict(row, now=moment)
    seen = whatif.foretell(found["id"], moment, kind=found["kind"]) if _may_be_foretold(found) else None
    if seen is not None:  # what it waits for and when it starts are of one instant
        found = {**found, "reasons": whatif.told_now(actor, seen.reasons, found)}
    names = known.names(actor, [*jobs_in(found["reasons"]), *(seen.in_the_way if seen else ())])
    one = shown(found, moment, names=names)
    timeline = queries.events(row)
    refused, sent = one["state"] == JobState.REJECTED, {k: v for k, v in row.spec.items() if k != "inputs"}
    runs = [_run(a, JobState(found["state"]), moment) for a in queries.attempts(row)]
    context = {
        "seq": seq,
        "windows_are": windows.fingerprint(moment),
        "job": one,
        "outlook": foretold(
            seen,
            one["id"],
            names,
            now=moment,
            start_by=row.start_by,
            alone=any(reason["code"] in ALONE for reason in found["reasons"]),
            started=bool(found["attempt"]),
        ),
        "timeline": [{**e, "word": e["type"].replace("_", " "), "parts": list(parts(e["message"]))} for e in timeline],
        "attempts": list(reversed(runs)),
        "log": tail_of(row, runs, request.GET),
        "metrics": [] if row.kind == EVOLVE else metric_words.rows(series.newest(row, metric_words.FIRST), row.kind),
        "search": _search(row) if row.kind == EVOLVE and not refused else None,
        "rows": [] if refused else asked_for(found, sent, row.spec.get("inputs", [])),
        "decided": [] if refused else by_default(found, sent),
        "form_kinds": tuple(KINDS),
        "asked": _asked(actor, one["id"]) if refused else [],
        "lost": lost_in_all(one["lost_work"]),
        "goes_on": goes_on(one),
        "instead_of": queries.in_place_of(row),
        "replaced_by": queries.replaced_by(row),
        "after": after.listed(row),
        "followers": after.followers(row),
        "same": same_as(actor, row.work_key, but=one["id"]) if one["waiting"] else None,
        "at_stake": at_stake(one, timeline, moment, waiting=after.cancelled_with(row)) if one["can"]["cancel"] else "",
    }
    return render(request, "job.html", context)


def _search(row: Any) -> dict[str, Any] | None:
    """The chart of a search and its scores; None before there is any."""
    titles = {i["as"]: i["name"] for i in row.spec.get("inputs", []) if i["as"] not in (DATASET, TEST)}
    drawn = search_chart.chart(series.points(row, search_chart.SERIES, search_chart.MOST))
    told = series.points(row, search_chart.names_of_scores(titles), 1)
    newest = {name: points[-1][1] for name, points in told.items() if points}
    scores = search_chart.scores(newest, titles)
    if drawn is None and not scores:
        return None
    tested = row.params.get("test") is not None
    return {"chart": drawn, "scores": scores, "metric": search_chart.metric_of(row.params), "tested": tested}


def _may_be_foretold(found: Mapping[str, Any]) -> bool:
    return found["state"] == JobState.QUEUED and not after.is_said(found["reasons"])


@posted
@signed_in
def act(request: HttpRequest, actor: Actor, job_id: UUID, verb: str) -> HttpResponse:
    """The verb is done, or a message says why it made no sense."""
    key, moment = str(job_id), now()
    if verb in ("hold", "release"):
        moved = verbs.hold(key, actor, moment, release=verb == "release")
    else:
        moved = verbs.cancel(key, actor, moment, force=verb == "force")
    if moved is None:
        raise Http404("there is no such job in your projects")
    if not moved.lawful:
        state = moved.state.replace("_", " ").lower()
        messages.error(request, f"This job is {state}, so it can't be {_DONE[verb]}; nothing was changed.")
    return redirect("job", job_id=job_id)


@posted
@signed_in
def retry(request: HttpRequest, actor: Actor, job_id: UUID) -> HttpResponse:
    """To the job that does this one again from its newest checkpoint, or back with the reason why there is none."""
    result = verbs.retry(str(job_id), actor, now())
    if result is None:
        raise Http404("there is no such job in your projects")
    if isinstance(result, verbs.Accepted):
        return redirect("job", job_id=result.job_id)
    if isinstance(result, verbs.Refused) and result.job_id is not None:
        return redirect("job", job_id=result.job_id)  # its page tells every reason
    state = result.state.replace("_", " ").lower() if isinstance(result, verbs.Moved) else "not to be accepted now"
    messages.error(request, f"This job is {state}, so it can't be retried; nothing was changed.")
    return redirect("job", job_id=job_id)


_DONE = {"hold": "held", "release": "released", "cancel": "cancelled", "force": "cancelled by force"}


def _live(job: JobState, *, started: bool) -> JobState:
    if job in (JobState.PREEMPTING, JobState.CANCELLING):
        return job
    return JobState.RUNNING if started else JobState.DISPATCHING


def _asked(actor: Actor, job_id: str) -> list[dict[str, str]]:
    names = {each["id"]: each["name"] for each in (*pages.models_to_merge(actor), *pages.datasets(actor))}
    return asked(verbs.body_again(job_id, actor) or {"params": {}}, names)


def gpus_on(node: str, gpus: Sequence[Mapping[str, Any]]) -> str:
    """``GPU 0, GPU 1 (NVLink g0), GPU 2 (NVLink g1), GPU 3``: those of the node, each run of them with its group."""
    here = [gpu for gpu in gpus if gpu["node"] == node]
    runs = [(group, list(each)) for group, each in groupby(here, key=lambda gpu: gpu["nvlink_group_id"])]
    return ", ".join(
        ", ".join(f"GPU {gpu['index']}" for gpu in each) + (f" (NVLink {group})" if group else "")
        for group, each in runs
    )


def _run(attempt: dict[str, Any], job: JobState, now: Any) -> dict[str, Any]:
    """An attempt as the page shows it: a live one that is asked to stop says so, as its job does."""
    began, ended = attempt["started_at"], attempt["ended_at"]
    ran_s = ((ended or now) - began).total_seconds() if began else None
    on_nodes = [{**part, "gpus": gpus_on(part["node"], attempt["gpus"])} for part in attempt["nodes"]]
    left = attempt["outcome"] == "PREEMPTED" and any(part["manner"] == "yielded" for part in attempt["nodes"])
    return {
        **attempt,
        "ran": duration(ran_s),
        "ran_s": None if ended else ran_s,
        "state": attempt["outcome"] or _live(job, started=began is not None),
        "called": "left by itself" if left else "asked to leave" if not ended and job is JobState.PREEMPTING else "",
        "parts": on_nodes,
        "lost_line": lost_line(attempt["lost"], len(attempt["gpus"])),
    }
