"""Fair share in numbers: the ledgers, and the statement of an account."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.door import Door, parameters
from scheduling.api.paging import refuse_filters
from scheduling.api.shapes import pool as pool_shapes
from scheduling.api.shapes import share as shapes
from scheduling.api.shapes.answers import documented, query
from scheduling.core.statement import Line
from scheduling.services import share_statement
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
