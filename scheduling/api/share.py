"""Fair share in numbers: the ledgers, the statement of an account, shares over time, and how they go on."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.door import Door, parameters
from scheduling.api.paging import refuse_filters
from scheduling.api.reports import period_as_dict
from scheduling.api.shapes import pool as pool_shapes
from scheduling.api.shapes import share as shapes
from scheduling.api.shapes.answers import documented, query
from scheduling.core.statement import Line
from scheduling.services import share_ahead, share_over_time, share_statement
from scheduling.services.reports.period import MAX_PIECES
from scheduling.services.share_ahead import Foreseen
from scheduling.services.share_over_time import Share as ShareOverTime
from scheduling.services.share_statement import Told
from scheduling.store.queries import share

HOUR_MS = 3_600_000
MOST = 1000  # jobs of one answer
DAYS = (
    query("from", "The first day, like 2026-11-01; without it the first of the month of `to`."),
    query("to", "The last day; without it today."),
    query("zone", "Whose days they are, like Europe/Berlin; without it UTC."),
)


class Share(Door):
    """The ledgers."""

    scopes = {"GET": "pool:read"}

    @documented("share_retrieve", "Fair share of queues, projects and users", tag="pool", answer=pool_shapes.ShareShape)
    def get(self, request: Request) -> Response:
        """The three ledgers."""
        parameters(request, ())
        return Response(share.share(self.actor, self.now))


class Statement(Door):
    """One account."""

    scopes = {"GET": "jobs:read"}

    @documented(
        "share_statement", "The account of a project, or of a person in it, over a time", tag="pool",
        answer=shapes.StatementShape,
        parameters=(query("project", "Whose account; any project. Without it the first of yours."),
                    query("user", "That of this person in it, a project of yours; `me` for your own."), *DAYS),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Sums that agree with the allocations and with the balance that orders the queue."""
        wanted, wrong = share_statement.read(self.actor, parameters(request, share_statement.FIELDS), self.now)
        refuse_filters(wrong)
        assert wanted is not None  # noqa: S101  nothing is wrong
        return Response(_statement(share_statement.told(self.actor, wanted, self.now)))


class OverTime(Door):
    """Shares over time."""

    scopes = {"GET": "pool:read"}

    @documented(
        "share_over_time", "Who held which part of the pool over time, and what was on the accounts", tag="pool",
        answer=shapes.OverTimeShape,
        parameters=(
            query("from", "The first day, like 2026-11-01; without it 27 days before `to`."), *DAYS[1:],
            query("each", f"`day`, `week` or `month`: at most {MAX_PIECES} of them."),
            query("project", "Only this project; any."),
            query("queue", "What was held by jobs of this queue. Accounts are over all queues."),
        ),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The projects that held anything, or have anything on their account."""
        wanted, wrong = share_over_time.read(self.actor, parameters(request, share_over_time.FIELDS), self.now)
        refuse_filters(wrong)
        assert wanted is not None  # noqa: S101  nothing is wrong
        told = share_over_time.told(self.actor, wanted, self.now)
        rows = [_over_time(each) for each in told.shares]
        return Response({"period": period_as_dict(wanted.period), "results": rows})


class Forecast(Door):
    """How shares go on."""

    scopes = {"GET": "pool:read"}

    @documented("share_forecast", "How shares go on if nothing new starts", tag="pool", answer=shapes.ForecastShape)
    def get(self, request: Request) -> Response:
        """Every project that has work, and the people of yours."""
        parameters(request, ())
        rows = [_foreseen(each) for each in share_ahead.ahead(self.actor, self.now)]
        return Response(
            {"as_of": self.now, "assumed": share_ahead.ASSUMED, "within_days": share_ahead.WITHIN_DAYS, "results": rows}
        )


def _over_time(share: ShareOverTime) -> dict[str, Any]:
    return {
        "project": share.project,
        "due_part": share.due,
        "target_gpu_h": _hours(share.target),
        "account_at_first_gpu_h": _hours(share.at_first),
        "pieces": [
            {"piece": n, "held_gpu_h": piece.held / HOUR_MS, "held_part": piece.part,
             "account_gpu_h": _hours(piece.account)}
            for n, piece in enumerate(share.pieces)
        ],
    }  # fmt: skip


def _foreseen(found: Foreseen) -> dict[str, Any]:
    return {
        "name": found.name, "project": found.project or None, "target_gpu_h": found.target / HOUR_MS,
        "ahead": found.ahead, "falls_behind_at": found.falls_behind_at,
        "points": [
            {"at": point.at, "account_gpu_h": point.consumed / HOUR_MS, "used_of_target": point.used_of_target}
            for point in found.points
        ],
    }  # fmt: skip


def _hours(gpu_ms: float | None) -> float | None:
    return None if gpu_ms is None else gpu_ms / HOUR_MS


def _statement(told: Told) -> dict[str, Any]:
    asked, account, standing = told.asked, told.account, told.standing
    first, rest = told.jobs[:MOST], told.jobs[MOST:]
    others = Line()
    for line in (told.others[1], *(each.line for each in rest)):
        others.add(line)
    whole = account.total
    return {
        "period": {"first": asked.period.first, "last": asked.period.last, "zone": asked.period.zone,
                   "start": told.start, "end": told.end},
        "project": asked.project,
        "user": asked.user or None,
        "half_life_s": told.half_life_s,
        "opening_gpu_h": account.opening / HOUR_MS,
        "charged_gpu_h": whole.charged / HOUR_MS,
        "given_back_gpu_h": whole.credited / HOUR_MS,
        "faded_gpu_h": account.faded / HOUR_MS,
        "faded_of_opening_gpu_h": account.faded_of_opening / HOUR_MS,
        "closing_gpu_h": account.closing / HOUR_MS,
        "jobs": [{"job": each.job, **each.about._asdict(), **_line(each.line)} for each in first],
        "others": {"jobs": told.others[0] + len(rest), **_line(others)},
        "account": {"as_of": told.now, "counted_gpu_h": told.check.counted / HOUR_MS,
                    "stored_gpu_h": told.check.stored / HOUR_MS},
        "standing": standing and {**standing._asdict(), "ahead": standing.ahead and standing.ahead._asdict()},
    }  # fmt: skip


def _line(line: Line) -> dict[str, float]:
    return {
        "held_gpu_h": line.held_ms / HOUR_MS, "charged_gpu_h": line.charged / HOUR_MS,
        "given_back_gpu_h": line.credited / HOUR_MS, "faded_gpu_h": line.faded / HOUR_MS,
        "counts_gpu_h": line.kept / HOUR_MS,
    }  # fmt: skip
