"""What did my jobs cost, and where does my balance come from?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from scheduling.core.statement import Line
from scheduling.services import now, share_statement
from scheduling.services.share_statement import Asked, JobLine, Told
from scheduling.store.queries import share as shares
from scheduling.store.queries.access import Actor
from scheduling.web import csv_export, period_form
from scheduling.web import statement_words as words
from scheduling.web.access import signed_in
from scheduling.web.report_words import hours

SHOWN = 50  # jobs of the page; the CSV has all of them
HOUR_MS = 3_600_000
COLUMNS = ("what", "job", "name", "user", "kind", "queue", "held_gpu_h", "charged_gpu_h", "given_back_gpu_h",
           "faded_gpu_h", "balance_gpu_h")  # fmt: skip


@signed_in
def statement(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The statement that the address asks for: of this month and one's first project, where it asks for nothing."""
    moment = now()
    given = period_form.given(request, share_statement.FIELDS)
    wanted, wrong = share_statement.read(actor, given, moment)
    today = moment.astimezone(ZoneInfo(period_form.zone_of(given))).date()
    kept = {name: given[name] for name in ("project", "user", "zone")}
    project = wanted.project if wanted else given["project"]
    context: dict[str, Any] = {
        "wrong": wrong, "given": given, "presets": period_form.presets(today, kept),
        "projects": shares.project_names(), "project": project, "people": shares.people(actor, project),
    }  # fmt: skip
    if wanted is not None:
        told = share_statement.told(actor, wanted, moment)
        context |= {"query": urlencode(_address(wanted)), "asked": wanted, "sentence": words.headline(told, today),
                    **_page(actor, told)}  # fmt: skip
    return render(request, "statement.html", context, status=400 if wrong else 200)


@signed_in
def export(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The statement as CSV: rows whose balances add up to the last one's."""
    moment = now()
    wanted, wrong = share_statement.read(actor, period_form.given(request, share_statement.FIELDS), moment)
    if wanted is None:
        text = "\n".join(each["message"] for each in wrong)
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    name = "-".join(filter(None, (wanted.project, wanted.user)))
    file = f"statement-{name}-{wanted.period.first}-{wanted.period.last}.csv"
    return csv_export.answer(file, COLUMNS, _rows(share_statement.told(actor, wanted, moment)))


def _address(wanted: Asked) -> dict[str, str]:
    """The query that asks for the same again, on whatever day."""
    found = wanted.period
    whose = {"project": wanted.project} | ({"user": wanted.user} if wanted.user else {})
    return {"from": found.first.isoformat(), "to": found.last.isoformat(), "zone": found.zone, **whose}


def _peers(asked: Asked, name: str) -> Asked:
    """The same of who is ahead."""
    return replace(asked, user=name) if asked.user else replace(asked, project=name)


def _page(actor: Actor, told: Told) -> dict[str, Any]:
    """Everything that the page tells."""
    known = actor.sees(told.asked.project)
    shown, more = told.jobs[:SHOWN], told.jobs[SHOWN:]
    count, rest = told.others[0] + len(more), Line()
    for line in (told.others[1], *(each.line for each in more)):
        rest.add(line)
    ahead = told.standing and told.standing.ahead
    return {
        "whose": words.whose(told.asked),
        "steps": words.steps(told),
        "checked": words.checked(told.check),
        "stands": words.stands(told),
        "fades": words.fades(told.half_life_s),
        "jobs": [_job(each) for each in shown],
        "ahead": ahead and {"name": ahead.name, "query": urlencode(_address(_peers(told.asked, ahead.name)))},
        "others": {**words.others(count, known=known), **_line(rest)},
        "total": _line(told.account.total),
        "known": known,
    }


def _job(found: JobLine) -> dict[str, Any]:
    return {"job": found.job, **found.about._asdict(), **_line(found.line)}


def _line(line: Line) -> dict[str, str]:
    weight = line.charged / line.held_ms if line.held_ms else None
    return {
        "held": hours(line.held_ms), "weight": "–" if weight is None else f"{round(weight, 3):g}",
        "charged": hours(line.charged), "credited": hours(line.credited) if line.credited else "–",
        "faded": hours(line.faded), "kept": hours(line.kept),
    }  # fmt: skip


def _rows(told: Told) -> Iterator[dict[str, Any]]:
    """The rows of the CSV."""
    account = told.account
    yield _row("opening balance", balance=account.opening)
    for each in told.jobs:
        about = each.about
        yield {**_of("job", each.line), "job": each.job, "name": about.name, "user": about.user, "kind": about.kind,
               "queue": about.queue}  # fmt: skip
    if told.others[0]:
        yield _of("jobs of others", told.others[1])
    yield {**_row("faded of the opening balance", balance=-account.faded_of_opening),
           "faded_gpu_h": account.faded_of_opening / HOUR_MS}  # fmt: skip
    yield _row("closing balance", balance=account.closing)


def _of(what: str, line: Line) -> dict[str, Any]:
    return {
        **_row(what, balance=line.kept), "held_gpu_h": line.held_ms / HOUR_MS,
        "charged_gpu_h": line.charged / HOUR_MS, "given_back_gpu_h": line.credited / HOUR_MS,
        "faded_gpu_h": line.faded / HOUR_MS,
    }  # fmt: skip


def _row(what: str, *, balance: float) -> dict[str, Any]:
    return {**dict.fromkeys(COLUMNS), "what": what, "balance_gpu_h": balance / HOUR_MS}
