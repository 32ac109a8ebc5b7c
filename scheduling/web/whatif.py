"""What would a change do? A form of the whole policy and the nodes, replays under way, and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render

from scheduling.services import now, policy_versions, whatif_runs, whatif_shown
from scheduling.services.policy_versions import Refused
from scheduling.store.queries.access import Actor
from scheduling.web import csv_export, whatif_chart, whatif_form, whatif_words
from scheduling.web.access import posted, signed_in
from scheduling.web.wording import amount, duration

RUNS, SHOWN = 20, 30
GOING = ("QUEUED", "RUNNING")
COLUMNS = ("job", "name", "project", "priority", "gpus", "wait_before_s", "wait_after_s", "later_s", "started_before",
           "started_after", "preemptions_before", "preemptions_after")  # fmt: skip
ADMINS = "changing the policy is for admins; ask one, and give the address of the replay"


@signed_in
def what_if(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The form and one's replays; posted, a replay that a worker will play, or the form with what is wrong."""
    present = policy_versions.present()
    if request.method == "POST":
        sent = whatif_form.body(request.POST, present)
        made = whatif_runs.ask(sent, actor, now())
        if isinstance(made, UUID):
            return redirect("what-if-run", run=made)
        if isinstance(made, whatif_runs.TooMany):
            return _form(request, actor, present, sent, {"": f"{made.message}."}, status=409)
        return _form(request, actor, present, sent, {e["field"]: e["message"] for e in made.errors}, status=422)
    tried = request.GET.get("from", "")
    earlier = whatif_shown.one(tried, actor) if _is_uuid(tried) else None
    known = {} if earlier is None else {"days": earlier["days"], **earlier["change"]}
    return _form(request, actor, present, known, {})


def _form(
    request: HttpRequest, actor: Actor, present: Mapping[str, Any], body: Mapping[str, Any],
    errors: Mapping[str, str], *, status: int = 200,
) -> HttpResponse:  # fmt: skip
    form = whatif_form.fields(present, body, errors, actor)
    shown_beside = whatif_form.beside(form)
    runs = [
        {
            **run,
            "word": whatif_words.STATES[run["state"]],
            "lines": whatif_form.changed_in_words(run["change"], present),
        }
        for run in whatif_shown.many(actor, RUNS)
    ]
    context = {
        "form": form,
        "added": whatif_form.nodes_added(body, errors),
        "removed": body.get("remove_nodes", []),
        "days": body.get("days", whatif_runs.DEFAULT_DAYS),
        "days_error": errors.get("days", ""),
        "most_days": whatif_runs.most_days(),
        "nodes": whatif_runs.node_names(),
        "above": [told for path, told in errors.items() if path not in shown_beside
                  and not path.startswith((whatif_form.MATRIX, "add_nodes"))],
        "runs": runs,
        "everybody": actor.is_admin,
        "wrong": len(errors),
    }  # fmt: skip
    return render(request, "what_if.html", context, status=status)


@signed_in
def run(request: HttpRequest, actor: Actor, run: UUID) -> HttpResponse:
    """How far a replay is, or what came out of it."""
    found = _found(run, actor)
    if request.headers.get("HX-Request"):
        if found["state"] not in GOING:
            answer = HttpResponse(status=204)
            answer["HX-Refresh"] = "true"
            return answer
        return render(request, "parts/what_if_progress.html", {"run": found, **_progress(found)})
    present = policy_versions.present()
    context: dict[str, Any] = {
        "run": found,
        "sentence": whatif_words.headline(found),
        "word": whatif_words.STATES[found["state"]],
        "lines": whatif_form.changed_in_words(found["change"], present),
        "going": found["state"] in GOING,
        "may_apply": actor.is_admin and bool(found["change"].get("policy")),
        **_progress(found),
    }
    if found["result"] is not None:
        context |= _outcome(found["result"])
    return render(request, "what_if_run.html", context)


@signed_in
def export(request: HttpRequest, actor: Actor, run: UUID) -> HttpResponseBase:
    """The jobs that fare otherwise as CSV."""
    found = _found(run, actor)
    rows = found["result"]["moved"]["jobs"] if found["result"] else []
    return csv_export.answer("what-if.csv", COLUMNS, rows)


@posted
@signed_in
def cancel(request: HttpRequest, actor: Actor, run: UUID) -> HttpResponse:
    """The replay stops."""
    if not whatif_runs.cancel(run, actor, now()):
        raise Http404("there is no such replay")
    return redirect("what-if-run", run=run)


@signed_in
def apply(request: HttpRequest, actor: Actor, run: UUID) -> HttpResponse:
    """What the change would make of the policy of now, value by value; posted, it is so, as a version."""
    found = _found(run, actor)
    _admins_only(actor)
    if request.method == "POST":
        made = policy_versions.apply(run, actor, now())
        if isinstance(made, Refused):
            messages.error(request, f"{_sentence('; '.join(made.messages))} Nothing was changed.")
            return redirect("what-if-apply", run=run)
        messages.success(request, f"The policy is version {made} now. It can be reverted below.")
        return redirect("policy-versions")
    policy = found["change"].get("policy", {})
    lines = policy_versions.foreseen(policy)
    context = {
        "run": found,
        "refused": [_sentence(each) for each in lines.messages] if isinstance(lines, Refused) else [],
        "lines": [] if isinstance(lines, Refused) else [_line(line) for line in lines],
        "fixed": policy_versions.fixed(policy),
        "nodes": whatif_form.changed_in_words(
            {k: v for k, v in found["change"].items() if k != "policy"}, policy_versions.present()
        ),
        "removed": found["change"].get("remove_nodes", []),
    }
    return render(request, "what_if_apply.html", context)


@signed_in
def versions(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Every change of the policy that is known, newest first, each with a way back."""
    _admins_only(actor)
    found = [
        {"number": each.number, "at": each.at, "by": each.by, "why": each.why, "what_if": each.what_if,
         "lines": [_line(line) for line in each.lines], "may_revert": each.may_revert}
        for each in policy_versions.versions()
    ]  # fmt: skip
    changes = [each for each in found if each["lines"]]
    sentence = (
        f"{changes[0]['by'] or 'Somebody'} changed the policy last." if changes
        else "The policy has not been changed since it was first known."
    )  # fmt: skip
    return render(request, "policy_versions.html", {"versions": found, "sentence": sentence})


@posted
@signed_in
def revert(request: HttpRequest, actor: Actor, number: int) -> HttpResponse:
    """What a version changed is as it was before."""
    _admins_only(actor)
    made = policy_versions.revert(number, actor, now())
    if isinstance(made, Refused):
        messages.error(request, f"{_sentence('; '.join(made.messages))} Nothing was changed.")
    else:
        messages.success(request, f"Version {number} is reverted, by version {made}.")
    return redirect("policy-versions")


def _admins_only(actor: Actor) -> None:
    if not actor.is_admin:
        raise PermissionDenied(ADMINS)


def _found(run: UUID, actor: Actor) -> dict[str, Any]:
    found = whatif_shown.one(run, actor)
    if found is None:
        raise Http404("there is no such replay")
    return found


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _progress(found: Mapping[str, Any]) -> dict[str, Any]:
    progress = found["progress"]
    rate, eta = progress["rate"], progress["eta_s"]
    words = [f"{progress['done']:,} of {amount(progress['total'], 'job')} played"] if progress["total"] else []
    words += [f"{rate:,.0f} jobs/s"] if rate else []
    words += [f"about {duration(eta)} left"] if eta else []
    return {"progress": progress, "progress_words": ", ".join(words)}


def _outcome(result: Mapping[str, Any]) -> dict[str, Any]:
    before, after = result["before"], result["after"]
    moments = _moments(result["from"], result["until"])
    series = {"before": before["series"], "after": after["series"]}
    utilization = {side: whatif_chart.held(series[side], result[side]["gpus"]) for side in ("before", "after")}
    percent = whatif_words.percent
    waiting = {side: series[side]["waiting"] for side in ("before", "after")}
    charts = [
        whatif_chart.bars(before["priorities"], after["priorities"], "mean_wait_s", duration,
                          title="Mean wait by priority"),
        whatif_chart.bars(before["projects"], after["projects"], "mean_wait_s", duration, title="Mean wait by project"),
        whatif_chart.bars(before["priorities"], after["priorities"], "preemptions", lambda n: f"{n:,.0f}",
                          title="Preemptions by the priority of who was evicted"),
    ]  # fmt: skip
    return {
        "result": result,
        "summary": whatif_words.summary(result),
        "trust": whatif_words.trust(result),
        "rows": whatif_words.rows(result),
        "priorities": whatif_words.groups(result, "priorities"),
        "projects": whatif_words.groups(result, "projects"),
        "people": whatif_words.groups(result, "users"),
        "jobs": [whatif_words.job(row) for row in result["moved"]["jobs"][:SHOWN]],
        "more": max(0, len(result["moved"]["jobs"]) - SHOWN),
        "bars": [chart for chart in charts if chart],
        "lines_over_time": [
            chart
            for chart in (
                whatif_chart.lines(utilization, percent, moments, title="GPUs held over time", most=1.0),
                whatif_chart.lines(waiting, lambda n: f"{n:.3g}", moments, title="Jobs that wait over time"),
            )
            if chart
        ],
        "shares": whatif_chart.shares(before["series"], after["series"], moments, percent),
    }


def _moments(start: datetime, end: datetime) -> list[str]:
    middle = start + (end - start) / 2
    return [f"{moment.day} {moment:%b %H:%M}" for moment in (start, middle, end)]


def _line(line: policy_versions.Line) -> dict[str, Any]:
    path, rules = line.path, line.path == "preemption"
    old, new = ([_rule(r) for r in each or []] if rules else _value(each) for each in (line.before, line.after))
    if rules:
        gone, come = [each for each in old if each not in new], [each for each in new if each not in old]
        return {"what": "Who may evict whom", "before": "; ".join(gone) or "–", "after": "; ".join(come) or "–"}
    return {"what": whatif_form.path_in_words(path), "before": old, "after": new}


def _rule(rule: Mapping[str, str]) -> str:
    return f"{rule['queue']} {rule['level']} may evict {rule['victim_queue']} {rule['victim_level']}"


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {whatif_form.said(each)}" for name, each in value.items())
    return ", then ".join(map(str, value)) if isinstance(value, list) else whatif_form.said(value)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
