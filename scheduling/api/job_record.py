"""What a job has left behind: its timeline, runs, log and series."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.door import Door, parameters, whole
from scheduling.api.paging import address_with, envelope
from scheduling.api.problems import Problem, not_found
from scheduling.api.ranges import headers_of, span_of
from scheduling.api.shapes import jobs as shapes
from scheduling.api.shapes.answers import documented, page_of, query
from scheduling.store.queries import changes, series
from scheduling.store.queries import jobs as queries

EVENTS = 500
LOG_BYTES = 262_144
MAX_LOG_BYTES = 1_048_576
WHOLE_LOG = 2**40


class OfJob(Door):
    """Something of a job that the actor may know of."""

    scopes = {"GET": "jobs:read"}

    def job(self, job_id: str) -> Any:
        """The job, or 404."""
        job = queries.one(self.actor, job_id)
        if job is None:
            raise not_found("job")
        return job


class JobEvents(OfJob):
    """The timeline."""

    @documented("jobs_events", "A job's timeline, oldest first", tag="jobs", answer=page_of("Event", shapes.EventShape),
                parameters=(query("after", "Only events after this seq.", OpenApiTypes.INT),
                            query("limit", "At most so many, 1 to 500.", OpenApiTypes.INT)))  # fmt: skip
    def get(self, request: Request, job_id: str) -> Response:
        """The events after ``after``, oldest first."""
        given = parameters(request, ("after", "limit"))
        limit = whole(given, "limit", default=EVENTS, least=1, most=EVENTS)
        rows = queries.events(self.job(job_id), after=whole(given, "after", default=0), limit=limit + 1)
        more = len(rows) > limit
        rows = rows[:limit]
        return Response(envelope(rows, next=address_with(request, after=str(rows[-1]["seq"])) if more else None))


class JobAttempts(OfJob):
    """The runs."""

    @documented(
        "jobs_attempts", "A job's runs, first to last", tag="jobs", answer=page_of("Attempt", shapes.AttemptShape)
    )
    def get(self, request: Request, job_id: str) -> Response:
        """All runs of the job."""
        parameters(request, ())
        return Response(envelope(queries.attempts(self.job(job_id))))


class JobMetrics(OfJob):
    """The series."""

    @documented("jobs_metrics", "A job's series: {name: [[step, value], ...]}", tag="jobs", answer=OpenApiTypes.OBJECT)
    def get(self, request: Request, job_id: str) -> Response:
        """All series over all runs."""
        parameters(request, ())
        return Response(series.every(self.job(job_id)))


class JobLog(OfJob):
    """The log, as JSON pieces to follow or as one text."""

    @documented(
        "jobs_logs", "A run's log", tag="jobs", answer=shapes.LogShape, more={(200, "text/plain"): OpenApiTypes.STR},
        parameters=(
            query("attempt", "The run's number; the newest by default.", OpenApiTypes.INT),
            query("node", "The node's part of it; the leading node by default."),
            query("offset", "From this byte.", OpenApiTypes.INT),
            query("limit", "About so many bytes, 1 to 1048576.", OpenApiTypes.INT),
            query("format", "text: the whole log as text, with Range; json by default."),
            query("download", "With format=text: as a file.", OpenApiTypes.BOOL),
        ),
    )  # fmt: skip
    def get(self, request: Request, job_id: str) -> HttpResponse:
        """A piece of the log as JSON, or all of it as text."""
        given = parameters(request, ("attempt", "node", "offset", "limit", "format", "download"))
        form = given.get("format") or ("text" if request.headers.get("Accept", "").startswith("text/plain") else "json")
        if form not in ("json", "text"):
            raise Problem(400, "bad_parameter", "format is json or text", field="format", limit=["json", "text"])
        job = self.job(job_id)
        number = whole(given, "attempt", default=0, most=2**31 - 1) or None
        rank = self._rank(job, number, given.get("node", ""))
        if form == "json":
            offset = whole(given, "offset", default=0)
            limit = whole(given, "limit", default=LOG_BYTES, least=1, most=MAX_LOG_BYTES)
            return Response(queries.log(job, attempt=number, rank=rank, offset=offset, limit=limit))
        return self._text(
            request, queries.log(job, attempt=number, rank=rank, limit=WHOLE_LOG), job_id, "download" in given
        )

    def _rank(self, job: Any, number: int | None, node: str) -> int:
        if not node:
            return 0
        rank = changes.rank_of(job.pk, number, node)
        if rank is None:
            raise not_found("node in this run of the job")
        return rank

    def _text(self, request: Request, log: dict[str, Any], job_id: str, download: bool) -> HttpResponse:
        """The log's text, at most what is kept of one run (EMEP_LOG_BYTES), or a range of it."""
        content = log["text"].encode()
        etag = f'"{log["attempt"]}-{len(content)}"'
        span = span_of(request._request, len(content), etag)
        headers = headers_of(span, etag, f"{job_id}-{log['attempt']}.log")
        if not download:
            headers["Content-Disposition"] = "inline"
        return HttpResponse(
            content[span.start : span.stop], status=206 if span.partial else 200, headers=headers,
            content_type="text/plain; charset=utf-8",
        )  # fmt: skip
