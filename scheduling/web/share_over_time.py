"""How did the shares go over time?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from scheduling.services import now, share_over_time
from scheduling.services.reports import period
from scheduling.services.share_ahead import DAYS
from scheduling.services.share_over_time import Asked, Share, Told, instants
from scheduling.store.queries import pages
from scheduling.store.queries import share as shares
from scheduling.store.queries.access import Actor
from scheduling.web import csv_export, period_form, report_chart, share_chart
from scheduling.web import report_words as words
from scheduling.web.access import signed_in
from scheduling.web.report_words import hours, percent, when
from scheduling.web.share_ahead_words import ASSUMES
from scheduling.web.share_chart import Line

SHOWN = 60  # rows of the table; the CSV has all of them
HOUR_MS = 3_600_000
COLUMNS = ("what", "first", "last", "at", "project", "held_gpu_h", "held_part", "due_part", "account_gpu_h",
           "target_gpu_h", "account_of_target")  # fmt: skip


@signed_in
def over_time(request: HttpRequest, actor: Actor) -> HttpResponse:
    """Shares of the last four weeks, or of what the address asks for."""
    given, moment = period_form.given(request, share_over_time.FIELDS), now()
    wanted, wrong = share_over_time.read(actor, given, moment)
    today = moment.astimezone(ZoneInfo(period_form.zone_of(given))).date()
    kept = {name: given[name] for name in ("project", "queue", "zone")}
    context: dict[str, Any] = {
        "wrong": wrong, "given": given, "each": period.EACH, "presets": period_form.presets(today, kept),
        "projects": shares.project_names(), "queues": pages.queue_names(), "assumes": ASSUMES, "days": DAYS,
    }  # fmt: skip
    if wanted is not None:
        told = share_over_time.told(actor, wanted, moment)
        at = when(wanted.period, today)
        context |= {"query": urlencode(_address(wanted)), "asked": wanted, "sentence": _headline(told, at),
                    **_page(told)}  # fmt: skip
    return render(request, "share_over_time.html", context, status=400 if wrong else 200)


@signed_in
def export(request: HttpRequest, actor: Actor) -> HttpResponseBase:
    """The same as CSV, with what is foreseen."""
    moment = now()
    wanted, wrong = share_over_time.read(actor, period_form.given(request, share_over_time.FIELDS), moment)
    if wanted is None:
        text = "\n".join(each["message"] for each in wrong)
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    file = f"shares-{wanted.period.first}-{wanted.period.last}.csv"
    return csv_export.answer(file, COLUMNS, list(_rows(share_over_time.told(actor, wanted, moment))))


def _address(wanted: Asked) -> dict[str, str]:
    """The query that asks for the same again, on whatever day."""
    found = wanted.period
    narrowed = {"project": wanted.project, "queue": wanted.queue}
    return {
        "from": found.first.isoformat(), "to": found.last.isoformat(), "each": found.each, "zone": found.zone,
        **{name: value for name, value in narrowed.items() if value},
    }  # fmt: skip


def _headline(told: Told, at: str) -> str:
    """Who had the most, in one sentence."""
    held = {each.project: sum(piece.held for piece in each.pieces) for each in told.shares}
    of = f" of queue {told.asked.queue}" if told.asked.queue else ""
    if not any(held.values()):
        whose = f" by {told.asked.project}" if told.asked.project else ""
        return f"{at}, no GPU was held{whose}{f' for jobs{of}' if of else ''}."
    most = told.shares[0]
    part = percent(held[most.project], told.whole)
    return f"{at}, {most.project} held {part} of what jobs{of} held; by weight {100 * most.due:.0f} % are due to it."


def _page(told: Told) -> dict[str, Any]:
    """Everything that the page tells."""
    pieces = told.asked.period.pieces
    labels = [words.piece(each, told.asked.period.each) for each in pieces]
    held = {each.project: [100 * (p.part or 0.0) for p in each.pieces] for each in told.shares}
    bars = report_chart.bars(labels, held, due={each.project: 100 * each.due for each in told.shares})
    colours = {key["name"]: key["colour"] for key in bars["keys"]} if bars else {}
    for each in told.shares:  # who held nothing but has an account
        if each.project not in colours and len(colours) < report_chart.COLOURS - 1:
            colours[each.project] = len(colours)
    rows = list(_numbers(told, labels))
    return {
        "bars": bars,
        "lines": share_chart.accounts(
            {each.project: _line(told, each) for each in told.shares}, colours, zone=told.asked.period.zone
        ),
        "rows": rows[:SHOWN],
        "more": max(0, len(rows) - SHOWN),
        "ahead": list(_ahead(told)),
        "without": [each.project for each in told.shares if each.target is None and each.at_first is not None],
    }


def _line(told: Told, share: Share) -> Line:
    """The account of the project as percents of its target; nothing while it has none."""
    if not share.target or share.at_first is None:
        return Line((), ())
    accounts = [share.at_first, *(piece.account for piece in share.pieces if piece.account is not None)]
    past = [
        (at, 100 * on / share.target) for at, on in zip(instants(told.asked.period, told.now), accounts, strict=True)
    ]
    reaches = told.asked.period.end >= told.now and share.foreseen is not None
    later = (
        [(p.at, 100 * p.consumed / share.target) for p in share.foreseen.points] if reaches and share.foreseen else []
    )
    return Line(past, later)


def _numbers(told: Told, labels: list[str]) -> Iterator[Mapping[str, str]]:
    """The rows of the table, the newest first."""
    for n in reversed(range(len(labels))):
        for share in told.shares:
            piece = share.pieces[n]
            if piece.account is None:
                continue
            yield {
                "when": labels[n], "project": share.project, "held": hours(piece.held),
                "part": "–" if piece.part is None else f"{100 * piece.part:.1f} %", "due": f"{100 * share.due:.1f} %",
                "account": hours(piece.account), "of_target": _of_target(piece.account, share.target),
            }  # fmt: skip


def _ahead(told: Told) -> Iterator[dict[str, Any]]:
    """The rows of what is foreseen, by day."""
    if told.asked.period.end < told.now:
        return
    for share in told.shares:
        for point in share.foreseen.points[1:] if share.foreseen else ():
            yield {"at": point.at, "project": share.project, "account": hours(point.consumed),
                   "of_target": _of_target(point.consumed, share.target)}  # fmt: skip


def _of_target(account: float, target: float | None) -> str:
    return f"{100 * account / target:.1f} %" if target else "–"


def _rows(told: Told) -> Iterator[dict[str, Any]]:
    """The rows of the CSV."""
    for share in told.shares:
        ends = list(instants(told.asked.period, told.now))[1:]
        whose = {
            **dict.fromkeys(COLUMNS), "project": share.project,
            "target_gpu_h": None if share.target is None else share.target / HOUR_MS,
        }  # fmt: skip
        for days, piece, end in zip(told.asked.period.pieces, share.pieces, ends, strict=False):
            yield {
                **whose, "what": "held", "first": days.first.isoformat(), "last": days.last.isoformat(), "at": end,
                "held_gpu_h": piece.held / HOUR_MS, "held_part": piece.part, "due_part": share.due,
                **_account(piece.account, share.target),
            }  # fmt: skip
        for point in share.foreseen.points[1:] if share.foreseen and told.asked.period.end >= told.now else ():
            yield {**whose, "what": "foreseen", "at": point.at, **_account(point.consumed, share.target)}


def _account(gpu_ms: float | None, target: float | None) -> dict[str, float | None]:
    if gpu_ms is None:
        return {}
    return {"account_gpu_h": gpu_ms / HOUR_MS, "account_of_target": gpu_ms / target if target else None}
