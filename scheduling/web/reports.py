"""Who used what?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from scheduling.services import now
from scheduling.services.reports import asked, capacity, idle, lost, period, usage, waits
from scheduling.services.reports.asked import Asked
from scheduling.services.reports.usage import HOUR_MS, Amount, Usage
from scheduling.services.reports.waits import Waits
from scheduling.store.queries import pages
from scheduling.store.queries.access import Actor
from scheduling.web import csv_export, period_form, report_chart
from scheduling.web import report_words as words
from scheduling.web.access import signed_in
from scheduling.web.share_words import CAUSES
from scheduling.web.wording import duration
from workers.catalog import KINDS

SHOWN = 50  # rows of a table; its CSV has all of them
COLUMNS = {
    "usage": ("first", "last", "project", "user", "kind", "queue", "held_gpu_h", "lost_gpu_h", "used_gpu_h",
              "charged_gpu_h"),
    "waits": ("by", "queue", "name", "jobs", "median_s", "p95_s", "longest_s", "mean_s"),
    "lost": ("project", "cause", "gpu_h", "attempts", "in_vain"),
    "capacity": ("first", "last", "installed_gpu_h", "out_gpu_h", "held_gpu_h", "held_part", "utilization"),
    "idle": ("job", "name", "project", "user", "kind", "queue", "gpu_h", "stretches", "longest_s", "gpus", "idle_now"),
}  # fmt: skip


@signed_in
def reports(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The report that the address asks for: of this month, where it asks for nothing."""
    given, moment = period_form.given(request, asked.FIELDS), now()
    wanted, wrong = asked.read(actor, given, moment)
    today = moment.astimezone(ZoneInfo(period_form.zone_of(given))).date()
    kept = {name: given[name] for name in (*asked.OF_JOBS, "zone")}
    context: dict[str, Any] = {
        "wrong": wrong, "given": given, "each": period.EACH, "presets": period_form.presets(today, kept),
        "kinds": sorted(KINDS), "queues": pages.queue_names(), "projects": pages.project_names(actor),
    }  # fmt: skip
    if wanted is not None:
        context |= {"query": urlencode(_address(wanted)), "asked": wanted, **_told(actor, wanted, today)}
    return render(request, "reports.html", context, status=400 if wrong else 200)


@signed_in
def export(request: HttpRequest, actor: Actor, name: str) -> HttpResponseBase:
    """One of the reports as CSV: every row of it."""
    if name not in COLUMNS:
        raise Http404
    wanted, wrong = asked.read(actor, period_form.given(request, asked.FIELDS), now())
    if wanted is None:
        text = "\n".join(each["message"] for each in wrong)
        return HttpResponse(text, status=400, content_type="text/plain; charset=utf-8")
    file = f"{name}-{wanted.period.first}-{wanted.period.last}.csv"
    return csv_export.answer(file, COLUMNS[name], list(_rows(name, actor, wanted)))


def _address(wanted: Asked) -> dict[str, str]:
    """The query that asks for the same again, on whatever day."""
    found = wanted.period
    return {
        "from": found.first.isoformat(), "to": found.last.isoformat(), "each": found.each, "zone": found.zone,
        **wanted.jobs,
    }  # fmt: skip


def _told(actor: Actor, wanted: Asked, today: date) -> dict[str, Any]:
    """Everything that the page tells."""
    moment = now()
    found = usage.usage(actor, wanted, moment)
    pool = capacity.capacity(actor, wanted, moment, found)
    waited, losses, left = waits.waits(wanted), lost.lost(wanted, found), idle.idle(actor, wanted)
    labels = [words.piece(piece, wanted.period.each) for piece in wanted.period.pieces]
    total = found.total()
    causes = lost.by_cause(losses)
    return {
        "sentence": words.headline(found, pool, wanted.jobs, today),
        "total": _amount(total, total),
        "chart": report_chart.bars(labels, _by_project(found)),
        "by_piece": _by_piece(found, labels),
        "tables": _tables(found),
        "waits": words.waited(waited),
        "wait_tables": [
            ("Priority", [_wait(f"{level} in {queue}", w) for (queue, level, _), w in waited.priorities.items()]),
            ("Project", [_wait(name, each) for name, each in waited.projects.items()]),
            ("Kind", [_wait(name, each) for name, each in waited.kinds.items()]),
        ],
        "lost": words.lost(causes, total),
        "causes": [_cause(loss, total) for loss in causes],
        "losses": [_cause(loss, total) for loss in losses],
        "busy": words.busy(pool, wanted.period.zone),
        "busy_chart": report_chart.lines(
            labels,
            {
                "held": [None if p.held_part is None else 100 * p.held_part for p in pool.pieces],
                "utilization": [p.utilization for p in pool.pieces],
            },
        ),
        "busy_rows": _busy_rows(pool, labels),
        "idle": words.idle(left),
        "idle_more": max(0, len(left.jobs) - SHOWN),
        "idle_rows": [_idle(row) for row in left.jobs[:SHOWN]],
    }


def _by_project(found: Usage) -> dict[str, list[float]]:
    """GPU-hours held, by project, of each piece."""
    series: dict[str, list[float]] = {}
    for (project, piece), amount in found.by(("project", "piece")).items():
        row = series.setdefault(str(project), [0.0] * len(found.period.pieces))
        row[int(piece)] = amount.held / HOUR_MS
    return series


def _by_piece(found: Usage, labels: list[str]) -> list[dict[str, Any]]:
    """The newest first; without those in which nothing was held."""
    sums, total = found.by(("piece",)), found.total()
    return [{"name": labels[int(piece)], **_amount(sums[(piece,)], total)} for (piece,) in reversed(sums)]


def _tables(found: Usage) -> list[dict[str, Any]]:
    total = found.total()
    tables = (
        ("By project", "Project", ("project",)), ("By person", "Person", ("project", "user")),
        ("By kind", "Kind", ("kind",)), ("By queue", "Queue", ("queue",)),
    )  # fmt: skip
    told = []
    for title, head, names in tables:
        ranked = sorted(found.by(names).items(), key=lambda each: (-each[1].held, each[0]))
        rows = [{**_named(key), **_amount(amount, total)} for key, amount in ranked]
        told.append({"title": title, "head": head, "rows": rows[:SHOWN], "more": max(0, len(rows) - SHOWN)})
    return told


def _named(key: tuple[str | int, ...]) -> dict[str, str]:
    if len(key) == 1:
        return {"name": str(key[0]), "of": ""}
    return {"name": str(key[1]) or "people", "of": str(key[0])}


def _amount(amount: Amount, total: Amount) -> dict[str, str]:
    return {
        "held": words.hours(amount.held), "lost": words.hours(amount.lost) if amount.lost else "–",
        "used": words.hours(amount.used), "charged": words.hours(amount.charged_micro / 10**6),
        "part": words.percent(amount.held, total.held),
    }  # fmt: skip


def _wait(name: str, found: Waits) -> dict[str, Any]:
    return {
        "name": name, "jobs": found.jobs, "median": duration(found.median), "p95": duration(found.p95),
        "longest": duration(found.longest),
    }  # fmt: skip


def _cause(loss: lost.Loss, total: Amount) -> dict[str, Any]:
    return {
        "project": loss.project, "words": CAUSES[loss.cause], "hours": words.hours(loss.gpu_ms),
        "part": words.percent(loss.gpu_ms, total.lost), "attempts": loss.attempts, "in_vain": loss.in_vain,
    }  # fmt: skip


def _busy_rows(pool: capacity.CapacityReport, labels: list[str]) -> list[dict[str, str]]:
    """The newest first; without those of which nothing is known."""
    return [
        {
            "name": labels[n], "installed": words.hours(piece.installed), "held": words.hours(piece.held),
            "part": words.percent(piece.held, piece.installed),
            "out": words.percent(piece.out, piece.installed) if piece.out else "–",
            "utilization": "not known" if piece.utilization is None else f"{piece.utilization:.0f} %",
        }
        for n, piece in reversed(list(enumerate(pool.pieces)))
        if piece.installed
    ]  # fmt: skip


def _idle(row: idle.IdleJob) -> dict[str, Any]:
    gpus = [f"{node}/{gpu}" for node, gpu in sorted(row.gpus)]
    told = gpus if len(gpus) <= 4 else [*gpus[:3], f"{len(gpus) - 3} more"]
    return {
        "job": row.job, "name": row.name or "a job of another project", "project": row.project, "user": row.user,
        "kind": row.kind, "hours": f"{row.gpu_s / 3600:,.2f}", "longest": duration(row.longest_s),
        "gpus": ", ".join(told), "now": row.now,
    }  # fmt: skip


def _rows(name: str, actor: Actor, wanted: Asked) -> Iterator[dict[str, Any]]:
    """The rows of the CSV of that name."""
    pieces = wanted.period.pieces
    if name == "usage":
        for key, amount in sorted(usage.usage(actor, wanted, now()).amounts.items()):
            yield {**_days(pieces[key.piece]), **key._asdict(), **amount.hours()}
    elif name == "waits":
        yield from _wait_rows(waits.waits(wanted))
    elif name == "lost":
        for loss in lost.lost(wanted):
            yield {**loss._asdict(), "gpu_h": loss.gpu_ms / HOUR_MS}
    elif name == "capacity":
        for piece, there in zip(pieces, capacity.capacity(actor, wanted, now()).pieces, strict=True):
            yield {**_days(piece), **there.numbers()}
    else:
        for row in idle.idle(actor, wanted).jobs:
            gpus = " ".join(f"{node}/{gpu}" for node, gpu in sorted(row.gpus))
            yield {
                "job": row.job, "name": row.name, "project": row.project, "user": row.user, "kind": row.kind,
                "queue": row.queue, "gpu_h": row.gpu_s / 3600, "stretches": row.stretches, "longest_s": row.longest_s,
                "gpus": gpus, "idle_now": row.now,
            }  # fmt: skip


def _days(piece: period.Piece) -> dict[str, str]:
    return {"first": piece.first.isoformat(), "last": piece.last.isoformat()}


def _wait_rows(found: waits.WaitReport) -> Iterable[dict[str, Any]]:
    groups: list[tuple[str, str, str, Waits]] = [
        *(("priority", queue, level, each) for (queue, level, _), each in found.priorities.items()),
        *(("project", "", name, each) for name, each in found.projects.items()),
        *(("kind", "", name, each) for name, each in found.kinds.items()),
    ]
    for by, queue, name, each in groups:
        yield {
            "by": by, "queue": queue, "name": name, "jobs": each.jobs, "median_s": each.median, "p95_s": each.p95,
            "longest_s": each.longest, "mean_s": each.mean,
        }  # fmt: skip
