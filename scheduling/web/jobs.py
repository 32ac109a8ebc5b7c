"""Where are my jobs?"""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render

from scheduling.core.lifecycle import JobState
from scheduling.services import filters, now
from scheduling.services import jobs as verbs
from scheduling.store.queries import events, pages
from scheduling.store.queries.access import Actor
from scheduling.web import csv_export
from scheduling.web.access import posted, signed_in
from scheduling.web.job_words import shown
from scheduling.web.wording import amount
from workers.catalog import KINDS

FILTERS = ("state", "kind", "queue", "project", "user", "pipeline", "sweep", "q")
MOST_AT_ONCE = 200
GROUPS = (("waiting", "waiting"), ("live", "on GPUs"), ("ended", "ended"))
STATES = (*GROUPS, *((s.value, s.replace("_", " ").lower()) for s in JobState))
COLUMNS = (
    "id", "name", "state", "kind", "project", "user", "queue", "priority", "gpu_count", "node_count",
    "gpus_per_node", "submitted_at", "started_at", "ended_at", "outcome", "exit_code", "gpu_hours", "error",
)  # fmt: skip


@signed_in
def jobs(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The jobs that match the address, newest first, a page at a time."""
    wanted, moment, seq = _wanted(request), now(), events.newest()
    wrong = filters.wrong_of_jobs(actor, wanted)
    after = request.GET.get("after", "")
    page = pages.Page((), "") if wrong else pages.job_page(actor, wanted, after=after, now=moment)
    given = {k: v for k, v in wanted.items() if v}
    context = {
        "seq": seq,
        "rows": [shown(row, moment) for row in page.rows],
        "following": urlencode({**given, "after": page.following}) if page.following else "",
        "later_page": bool(after),
        "wrong": wrong,
        "query": urlencode(given),
        "wanted": wanted,
        "filtered": bool(given),
        "groups": STATES,
        "kinds": sorted(KINDS),
        "queues": pages.queue_names(),
        "projects": pages.project_names(actor),
        "sentence": _sentence(actor),
    }
    return render(request, "jobs.html", context, status=400 if wrong else 200)


@signed_in
def ids(request: HttpRequest, actor: Actor) -> JsonResponse:
    """The ids of the jobs on the page at this address, as ``{jobs: [id]}``: a page compares them with its rows."""
    wanted = _wanted(request)
    if filters.wrong_of_jobs(actor, wanted):
        return JsonResponse({"jobs": []}, status=400)
    page = pages.job_page(actor, wanted, after=request.GET.get("after", ""), now=now())
    return JsonResponse({"jobs": [row["id"] for row in page.rows]})


@signed_in
def export(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The jobs that match, as CSV."""
    wanted = _wanted(request)
    if wrong := filters.wrong_of_jobs(actor, wanted):
        text = "\n".join(each["message"] for each in wrong)
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    rows = pages.job_export(actor, wanted, now=now())
    return csv_export.answer("jobs.csv", COLUMNS, rows)


@posted
@signed_in
def cancel_many(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The chosen jobs will stop; those that have ended already are told apart."""
    chosen = request.POST.getlist("job")[:MOST_AT_ONCE]
    results = [verbs.cancel(job, actor, now()) for job in chosen]
    done = sum(r is not None and r.lawful for r in results)
    if done:
        messages.success(request, f"{amount(done, 'job')} cancelled or being cancelled.")
    if done < len(chosen):
        messages.warning(request, f"{amount(len(chosen) - done, 'job')} had ended already and did not change.")
    if not chosen:
        messages.warning(request, "No job was chosen: tick some rows first.")
    return redirect(f"/jobs/?{urlencode({k: v for k, v in _wanted(request, post=True).items() if v})}")


def _wanted(request: HttpRequest, *, post: bool = False) -> dict[str, str]:
    given = request.POST if post else request.GET
    return {key: given.get(key, "")[:200].replace("\x00", "") for key in FILTERS}


def _sentence(actor: Actor) -> str:
    standing = pages.standing(actor)
    where = (
        "in all projects" if actor.is_admin else f"in {' and '.join(actor.projects)}" if actor.projects else "of yours"
    )
    running, waiting = amount(standing["running"], "job"), standing["waiting"]
    verb = "runs" if standing["running"] == 1 else "run"
    return f"{running} {verb} and {waiting} {'waits' if waiting == 1 else 'wait'} {where}."
