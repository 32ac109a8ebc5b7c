"""What is happening to this job, why, and what came out?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render

from scheduling.core.lifecycle import JobState
from scheduling.services import jobs as verbs
from scheduling.services import now, whatif
from scheduling.store.queries import events, known, pages
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.access import Actor
from scheduling.web.access import posted, signed_in
from scheduling.web.job_words import asked, at_stake, jobs_in, shown
from scheduling.web.outlook_words import foretold
from scheduling.web.wording import duration

LOG_TAIL = 64 * 1024


@signed_in
def job(request: HttpRequest, actor: Actor, job_id: UUID) -> HttpResponse:
    """The job's state and reasons, its attempts, timeline, log and artifacts, and what may be done to it."""
    seq, row, moment = events.newest(), _known(actor, job_id), now()
    found = queries.as_dict(row, now=moment)
    seen = whatif.foretell(found["id"], moment) if found["state"] == JobState.QUEUED else None
    if seen is not None:  # what it waits for and when it starts are of one instant
        found = {**found, "reasons": list(seen.reasons)}
    names = known.names(actor, [*jobs_in(found["reasons"]), *(seen.in_the_way if seen else ())])
    one = shown(found, moment, names=names)
    timeline = queries.events(row)
    runs = [_run(a, moment) for a in queries.attempts(row)]
    end = runs[-1]["log_bytes"] if runs else 0
    context = {
        "seq": seq,
        "job": one,
        "outlook": foretold(
            seen,
            one["id"],
            names,
            now=moment,
            start_by=row.start_by,
            alone=any(reason["code"] == "NO_PARTNER" for reason in found["reasons"]),
        ),
        "timeline": [{**e, "word": e["type"].replace("_", " ")} for e in timeline],
        "attempts": list(reversed(runs)),
        "log": queries.log(row, attempt=None, offset=max(0, end - LOG_TAIL)),
        "log_cut": end > LOG_TAIL,
        "inputs": row.spec.get("inputs", []),
        "asked": _asked(actor, one["id"]) if one["state"] == JobState.REJECTED else [],
        "at_stake": at_stake(one, timeline, moment) if one["can"]["cancel"] else "",
    }
    return render(request, "job.html", context)


@signed_in
def log(request: HttpRequest, actor: Actor, job_id: UUID) -> JsonResponse:
    """The log of an attempt from a byte offset, as REST gives it."""
    wanted, offset = _number(request, "attempt"), _number(request, "offset")
    return JsonResponse(queries.log(_known(actor, job_id), attempt=wanted, offset=offset or 0))


@signed_in
def log_file(request: HttpRequest, actor: Actor, job_id: UUID) -> StreamingHttpResponse:
    """The whole log of an attempt, as a download."""
    row, wanted = _known(actor, job_id), _number(request, "attempt")
    response = StreamingHttpResponse(_pieces(row, wanted), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{job_id}.{wanted or "log"}.txt"'
    return response


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


_DONE = {"hold": "held", "release": "released", "cancel": "cancelled", "force": "cancelled by force"}


def _known(actor: Actor, job_id: UUID) -> Any:
    row = queries.one(actor, str(job_id))
    if row is None:
        raise Http404("there is no such job in your projects")
    return row


def _asked(actor: Actor, job_id: str) -> list[dict[str, str]]:
    names = {m["id"]: m["name"] for m in pages.models_to_merge(actor)}
    return asked(verbs.body_again(job_id, actor) or {"params": {}}, names)


def _run(attempt: dict[str, Any], now: Any) -> dict[str, Any]:
    began, ended = attempt["started_at"], attempt["ended_at"]
    ran = duration(((ended or now) - began).total_seconds()) if began else ""
    return {**attempt, "ran": ran, "nodes": sorted({g["node"] for g in attempt["gpus"]})}


def _pieces(row: Any, attempt: int | None) -> Iterator[str]:
    offset = 0
    while True:
        piece = queries.log(row, attempt=attempt, offset=offset)
        if piece["next"] == offset:
            return
        yield piece["text"]
        offset = piece["next"]


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
