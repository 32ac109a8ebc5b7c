"""Jobs: submit, list, see, wait for; cancel, hold, release, clone, retry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle, UserRateThrottle

from scheduling.api import waiting
from scheduling.api.body import json_object, only
from scheduling.api.door import Door, parameters
from scheduling.api.paging import PARAMETERS, listed, refuse_filters
from scheduling.api.plan import foretold, hold_to_plan, not_foretold
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import jobs as shapes
from scheduling.api.shapes.answers import PAGING, documented, page_of, query
from scheduling.api.shapes.params import EXAMPLES
from scheduling.core.lifecycle import TERMINAL, JobState
from scheduling.services import filters
from scheduling.services import jobs as service
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.silence import silences

FILTERS = ("state", "kind", "queue", "project", "user", "pipeline", "sweep", "q")
MAX_WAIT_S = 60.0
MAX_KEY = 200
EXACTLY = (
    "a clone copies the job exactly and takes none; to change something, POST /api/v1/jobs/ with a body of your own"
)
KEY = query("Idempotency-Key", "The same key and body again give the same job.", where="header")


class SubmitThrottle(UserRateThrottle):
    """So many submissions a minute and person, as the settings say."""

    scope = "submit"


class JobList(Door):
    """All jobs one may know of, and new ones."""

    scopes = {"GET": "jobs:read", "POST": "jobs:submit"}

    def get_throttles(self) -> list[BaseThrottle]:
        """Reading is not throttled."""
        return [SubmitThrottle()] if self.request.method == "POST" else []

    @documented(
        "jobs_list", "Jobs, newest first", tag="jobs", answer=page_of("Job", shapes.JobShape),
        parameters=(*(query(f, _about) for f, _about in {
            "state": "One or more, with commas; also waiting, live, ended.", "kind": "Kind.", "queue": "Queue.",
            "project": "Project.", "user": "Name, or me.", "pipeline": "Id of a pipeline.",
            "sweep": "Id of a sweep.", "q": "Part of the name, or the id."}.items()), *PAGING),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """One page of the jobs that pass the filters."""
        given = parameters(request, (*FILTERS, *PARAMETERS))
        refuse_filters(filters.wrong_of_jobs(self.actor, given))
        rows = queries.full(queries.filtered(self.actor, given))
        return Response(listed(request, given, rows, by="submitted_at", shown=self._shown))

    def _shown(self, rows: Iterable[Any]) -> list[dict[str, Any]]:
        holds, silent = queries.holds_now(), silences(self.now)
        return [not_foretold(queries.as_dict(job, holds=holds, silent=silent, now=self.now)) for job in rows]

    @documented(
        "jobs_create", "Submit a job", tag="jobs", body=shapes.JobRequest, answer=shapes.JobShape, status=201,
        parameters=(KEY,), more={(200, "application/json"): shapes.JobShape}, examples=EXAMPLES,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """201 with the job; 200 when its key made it before; 422 with every fault at once; 409 when the plan it was
        to be held to has changed."""
        key = idempotency_key(request)
        body, text = json_object(request)
        hold_to_plan(body, self.actor, self.now, key=key)
        return submitted(self, body, key=key, text=text)


def submitted(view: Door, body: Mapping[str, Any], *, key: str | None = None, text: str | None = None) -> Response:
    """The answer to a submission."""
    return answered(view, service.submit(body, view.actor, view.now, key=key, raw=text))


def answered(view: Door, result: service.Accepted | service.Refused | service.KeyConflict) -> Response:
    """What became of a submission: 201, 200 when it had been made before, 409 or 422."""
    if isinstance(result, service.KeyConflict):
        raise Problem(
            409, "idempotency_conflict", "this Idempotency-Key was used before with another body; use a new one",
            field="Idempotency-Key", facts={"job": str(result.job_id)},
        )  # fmt: skip
    if isinstance(result, service.Refused):
        many = f"{len(result.errors)} things are" if len(result.errors) != 1 else "one thing is"
        raise Problem(
            422, "invalid_job", f"the job was not accepted: {many} wrong, see errors", errors=result.errors,
            facts={"job": str(result.job_id) if result.job_id else None},
        )  # fmt: skip
    job = found(view, str(result.job_id))
    return Response(job, status=201 if result.fresh else 200, headers={"Location": f"/api/v1/jobs/{job['id']}/"})


def found(view: Door, job_id: str) -> dict[str, Any]:
    """The job as REST shows it; 404 for one the actor may not know of."""
    job = queries.one(view.actor, job_id)
    if job is None:
        raise not_found("job")
    return not_foretold(queries.as_dict(job, now=view.now))


def idempotency_key(request: Request) -> str | None:
    """The request's Idempotency-Key, if it has one; 400 for what can't be one."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        message = f"Idempotency-Key must be 1 to {MAX_KEY} printable ASCII characters"
        raise Problem(400, "bad_idempotency_key", message, field="Idempotency-Key", limit=MAX_KEY)
    return key


class JobDetail(Door):
    """One job, now or as soon as it changes."""

    scopes = {"GET": "jobs:read"}

    @documented(
        "jobs_retrieve", "One job; with wait, as soon as it changes", tag="jobs", answer=shapes.JobShape,
        parameters=(
            query("wait", "Seconds to wait for a change, 0 to 60.", OpenApiTypes.FLOAT),
            query("since", "Answer above this version; without it, on the next change of state.", OpenApiTypes.INT),
        ),
    )  # fmt: skip
    def get(self, request: Request, job_id: str) -> Response:
        """The job as it is now."""
        waited_for(parameters(request, ("wait", "since")))
        return Response(foretold(found(self, job_id), self.actor, self.now))


def waited_for(given: Mapping[str, str]) -> tuple[float, int | None]:
    """(seconds, version) of ``wait`` and ``since``; 400 says what they may be."""
    try:
        seconds = float(given.get("wait") or 0)
        since = int(given["since"]) if given.get("since") else None
    except ValueError:
        seconds, since = -1.0, None
    if not 0 <= seconds <= MAX_WAIT_S:
        message = f"wait is a number of seconds from 0 to {MAX_WAIT_S:.0f}, since a job's version"
        raise Problem(400, "bad_parameter", message, field="wait", limit=[0, MAX_WAIT_S])
    return seconds, since


async def job(request: HttpRequest, job_id: str) -> HttpResponse:
    """``GET /jobs/{id}/``: JobDetail, repeated after each change of the job until the wait is over."""
    first: list[str] = []

    def enough(answer: Mapping[str, Any]) -> bool:
        seconds, since = waited_for(request.GET.dict())
        first.append(answer["state"])
        if seconds == 0 or answer["state"] in TERMINAL:
            return True
        return answer["state"] != first[0] if since is None else answer["version"] > since

    return await waiting.answer_when(
        lambda: _detail(request, job_id=job_id),
        enough,
        listens_for=lambda what, key: what == "job" and key == _plain(job_id),
        seconds=lambda: waited_for(request.GET.dict())[0],
    )


def _plain(job_id: str) -> str:
    return str(UUID(job_id))


_detail = JobDetail.as_view()
waiting.as_route(job, JobDetail)


class Verb(Door):
    """Something done to a job: twice is the same as once, and 409 tells the state in which it makes no sense."""

    scopes = {"POST": "jobs:submit"}

    def done(self, job_id: str, moved: service.Moved | None, verb: str) -> Response:
        """The job after the verb."""
        if moved is None:
            raise not_found("job")
        if not moved.lawful:
            raise Problem(
                409,
                "wrong_state",
                f"a job that is {moved.state.value} can't be {verb}",
                facts={"state": moved.state.value},
            )
        return Response(found(self, job_id))


class JobCancel(Verb):
    """Stop a job."""

    @documented("jobs_cancel", "Cancel, with a grace or by force", tag="jobs", body=shapes.CancelRequest,
                answer=shapes.JobShape, parameters=(query("force", "true: at once.", OpenApiTypes.BOOL),))  # fmt: skip
    def post(self, request: Request, job_id: str) -> Response:
        """The job will stop; ``force`` in the body or the address leaves it no grace."""
        body, _ = json_object(request, optional=True)
        wanted: Any = {"true": True, "false": False, None: False}.get(parameters(request, ("force",)).get("force"))
        wanted = body.get("force", wanted)
        only(body, ("force",))
        if not isinstance(wanted, bool):
            raise Problem(422, "not_a_boolean", "force must be true or false", field="force", limit=[True, False])
        return self.done(job_id, service.cancel(job_id, self.actor, self.now, force=wanted), "cancelled")


class JobHold(Verb):
    """Keep a waiting job from starting."""

    @documented("jobs_hold", "Hold a waiting job", tag="jobs", answer=shapes.JobShape)
    def post(self, request: Request, job_id: str) -> Response:
        """The job is HELD."""
        return self.done(job_id, service.hold(job_id, self.actor, self.now), "held")


class JobRelease(Verb):
    """Let a held job start."""

    @documented("jobs_release", "Release a held job", tag="jobs", answer=shapes.JobShape)
    def post(self, request: Request, job_id: str) -> Response:
        """The job is QUEUED again."""
        return self.done(job_id, service.hold(job_id, self.actor, self.now, release=True), "released")


class JobClone(Door):
    """The same again."""

    scopes = {"POST": "jobs:submit"}

    def get_throttles(self) -> list[BaseThrottle]:
        """A clone is a submission."""
        return [SubmitThrottle()]

    @documented("jobs_clone", "Submit exactly the same again", tag="jobs", answer=shapes.JobShape, status=201)
    def post(self, request: Request, job_id: str) -> Response:
        """201 with a new job of the same request, which takes no fields; a refused one can't be cloned."""
        state = found(self, job_id)["state"]
        only(json_object(request, optional=True)[0], (), instead=EXACTLY)
        body = None if state == JobState.REJECTED else service.body_again(job_id, self.actor)
        if body is None:
            raise Problem(
                409,
                "wrong_state",
                f"a job that is {state} can't be cloned: it was never accepted",
                facts={"state": state},
            )
        return submitted(self, body)


class JobRetry(Door):
    """Once more, from where it was saved."""

    scopes = {"POST": "jobs:submit"}

    def get_throttles(self) -> list[BaseThrottle]:
        """A retry is a submission."""
        return [SubmitThrottle()]

    @documented(
        "jobs_retry", "Do an ended job again from its newest checkpoint", tag="jobs", answer=shapes.JobShape,
        status=201, more={(200, "application/json"): shapes.JobShape},
    )  # fmt: skip
    def post(self, request: Request, job_id: str) -> Response:
        """201 with a new job; 200 with the one that does it again already; 409 for one that did not end badly."""
        only(json_object(request, optional=True)[0], (), instead=EXACTLY.replace("clone", "retry"))
        result = service.retry(job_id, self.actor, self.now)
        if result is None:
            raise not_found("job")
        if isinstance(result, service.Moved):
            raise Problem(409, "wrong_state", no_retry(result.state), facts={"state": result.state.value})
        return answered(self, result)


def no_retry(state: JobState) -> str:
    """Why a job in this state can't be retried, and what to do."""
    if state is JobState.SUCCEEDED:
        return "a job that is SUCCEEDED can't be retried: it has its result; clone it to compute it once more"
    if state is JobState.REJECTED:
        return "a job that is REJECTED can't be retried: it was never accepted; submit it again with its faults mended"
    return f"a job that is {state.value} can't be retried before it has ended; cancel it first, or wait"
