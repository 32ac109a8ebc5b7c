"""Who used what? The reports of the page, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.door import Door, parameters
from scheduling.api.paging import refuse_filters
from scheduling.api.problems import Problem
from scheduling.api.shapes import reports as shapes
from scheduling.api.shapes.answers import documented, query
from scheduling.services.reports import asked, capacity, idle, lost, usage, waits
from scheduling.services.reports.asked import Asked
from scheduling.services.reports.period import MAX_PIECES, Period
from scheduling.services.reports.usage import DIMENSIONS, HOUR_MS
from scheduling.services.reports.waits import Waits
from workers.catalog import nearest

HOUR_S = 3600
PERIOD = (
    query("from", "The first day, like 2026-11-01; without it the first of the month of `to`."),
    query("to", "The last day; without it today."),
    query("each", f"`day`, `week` or `month`: at most {MAX_PIECES} of them."),
    query("zone", "Whose days they are, like Europe/Berlin; without it UTC."),
)
OF_JOBS = (
    query("project", "Only jobs of this project; one of yours."),
    query("user", "Only jobs of this person; `me` for yours."),
    query("kind", "Only jobs of this kind."),
    query("queue", "Only jobs of this queue."),
)


class Report(Door):
    """A report over a time."""

    scopes = {"GET": "pool:read"}

    def asked(self, request: Request, more: tuple[str, ...] = ()) -> tuple[Asked, dict[str, str]]:
        """What is asked for, and all that was given; 400 with every wrong value."""
        given = parameters(request, (*asked.FIELDS, *more))
        found, wrong = asked.read(self.actor, given, self.now)
        refuse_filters(wrong)
        assert found is not None  # noqa: S101  nothing is wrong
        return found, given


class Usage(Report):
    """GPU-hours."""

    @documented(
        "reports_usage", "GPU-hours by time, project, user, kind and queue", tag="reports", answer=shapes.UsageShape,
        parameters=(*PERIOD, *OF_JOBS, query("by", f"Of {', '.join(DIMENSIONS)} those that rows are told by, with "
                                                   "commas; without it `piece,project`.")),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Rows that add up to the total, which is what the allocations held."""
        wanted, given = self.asked(request, ("by",))
        names = _dimensions(given.get("by") or "piece,project")
        found = usage.usage(self.actor, wanted, self.now)
        rows = [
            {**{n: v if n != "user" else v or None for n, v in zip(names, key, strict=True)}, **amount.hours()}
            for key, amount in found.by(names).items()
        ]
        return Response({"period": period_as_dict(wanted.period), "total": found.total().hours(), "results": rows})


class WaitList(Report):
    """Waits."""

    @documented(
        "reports_waits", "How long jobs waited until they first ran", tag="reports", answer=shapes.WaitReportShape,
        parameters=(*PERIOD, *OF_JOBS),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Of the jobs that first ran in the period. What its owner held back or had wait for another does not count as
        far as the request says it."""
        wanted, _ = self.asked(request)
        found = waits.waits(wanted)
        return Response(
            {
                "period": period_as_dict(wanted.period),
                "all": None if found.all is None else _waits(found.all),
                "priorities": [
                    {"queue": queue, "priority": level, **_waits(each)}
                    for (queue, level, _), each in found.priorities.items()
                ],
                "projects": [{"project": name, **_waits(each)} for name, each in found.projects.items()],
                "kinds": [{"kind": name, **_waits(each)} for name, each in found.kinds.items()],
            }
        )


class LostList(Report):
    """Lost work."""

    @documented(
        "reports_lost", "What was lost for no fault of the jobs, by cause", tag="reports",
        answer=shapes.LostReportShape, parameters=(*PERIOD, *OF_JOBS),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """By project and cause."""
        wanted, _ = self.asked(request)
        found = lost.lost(wanted)
        rows = [
            {"project": each.project, "cause": each.cause, "gpu_hours": each.gpu_ms / HOUR_MS,
             "attempts": each.attempts, "in_vain": each.in_vain}
            for each in found
        ]  # fmt: skip
        total = sum(each.gpu_ms for each in found) / HOUR_MS
        return Response({"period": period_as_dict(wanted.period), "gpu_hours": total, "results": rows})


class CapacityList(Report):
    """What was there."""

    @documented(
        "reports_capacity", "What was there, how much was held, and how busy it was", tag="reports",
        answer=shapes.CapacityShape, parameters=(*PERIOD, *OF_JOBS),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The pool by piece. Filters narrow `jobs` alone."""
        wanted, _ = self.asked(request)
        found = capacity.capacity(self.actor, wanted, self.now)
        jobs = [
            {"project": project, "user": user or None, "kind": kind, "queue": queue,
             "known_gpu_h": each.known / HOUR_MS, "utilization": each.utilization}
            for (project, user, kind, queue), each in sorted(found.jobs.items())
        ]  # fmt: skip
        return Response(
            {
                "period": period_as_dict(wanted.period),
                "looked_since": found.since,
                "total": found.total.numbers(),
                "results": [{"piece": n, **piece.numbers()} for n, piece in enumerate(found.pieces)],
                "jobs": jobs,
            }
        )


class IdleList(Report):
    """What was held and idle."""

    scopes = {"GET": "jobs:read"}

    @documented(
        "reports_idle", "GPUs that were held and idle, by job", tag="reports", answer=shapes.IdleShape,
        parameters=(*PERIOD, *OF_JOBS),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The most first."""
        wanted, _ = self.asked(request)
        found = idle.idle(self.actor, wanted)
        rows = [
            {"job": row.job, "name": row.name or None, "project": row.project, "user": row.user or None,
             "kind": row.kind, "queue": row.queue, "gpu_hours": row.gpu_s / HOUR_S, "stretches": row.stretches,
             "longest_s": row.longest_s, "gpus": [f"{node}/{gpu}" for node, gpu in sorted(row.gpus)],
             "idle_now": row.now}
            for row in found.jobs
        ]  # fmt: skip
        return Response(
            {
                "period": period_as_dict(wanted.period), "below_percent": found.percent, "for_minutes": found.minutes,
                "gpu_hours": found.total_s / HOUR_S, "results": rows,
            }
        )  # fmt: skip


def _dimensions(text: str) -> list[str]:
    """The names in ``by``; 400 for one that is unknown or told twice."""
    names = text.split(",")
    for name in names:
        if name not in DIMENSIONS or names.count(name) > 1:
            what = "is given twice" if name in DIMENSIONS else f"is unknown{nearest(name, list(DIMENSIONS))}"
            message = f"by: {name[:80]!r} {what}; give some of {', '.join(DIMENSIONS)}, each once, with commas"
            raise Problem(400, "bad_by", message, field="by", limit=list(DIMENSIONS))
    return names


def period_as_dict(period: Period) -> Mapping[str, Any]:
    """The period with its pieces, as answers have it."""
    pieces = [
        {"first": piece.first, "last": piece.last, "start": piece.start, "end": piece.end} for piece in period.pieces
    ]
    return {
        "first": period.first, "last": period.last, "each": period.each, "zone": period.zone, "pieces": pieces,
    }  # fmt: skip


def _waits(found: Waits) -> dict[str, Any]:
    return {name if name == "jobs" else f"{name}_s": value for name, value in asdict(found).items()}
