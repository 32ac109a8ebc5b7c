"""Jobs that are submitted together: pipelines and sweeps."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from scheduling.api.body import json_object, only
from scheduling.api.door import Door
from scheduling.api.jobs import KEY, SubmitThrottle, idempotency_key
from scheduling.api.plan import not_foretold
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import sets as shapes
from scheduling.api.shapes.answers import documented
from scheduling.services import pipelines, sets, sweeps
from scheduling.services.jobs import KeyConflict
from scheduling.services.sets import Made, SetRefused
from scheduling.store.queries import jobs as queries


class SetDoor(Door):
    """What pipelines and sweeps have in common; ``kind`` says which."""

    kind = ""

    def told(self, set_id: str) -> dict[str, Any]:
        """The set and its jobs in their order; 404 where there is none that the actor may know of."""
        rows = queries.full(queries.filtered(self.actor, {self.kind: set_id})).order_by("place_in_set", "submitted_at")
        found = [not_foretold(queries.as_dict(job, now=self.now)) for job in rows]
        if not found:
            raise not_found(self.kind)
        return {"id": found[0][self.kind], "jobs": found}

    def answered(self, result: Made | SetRefused | KeyConflict) -> Response:
        """201, 200 when it had been made before, 409 or 422."""
        if isinstance(result, KeyConflict):
            raise Problem(
                409, "idempotency_conflict", "this Idempotency-Key was used before with another body; use a new one",
                field="Idempotency-Key", facts={"job": str(result.job_id)},
            )  # fmt: skip
        if isinstance(result, SetRefused):
            many = f"{len(result.errors)} things are" if len(result.errors) != 1 else "one thing is"
            message = f"nothing of the {self.kind} was accepted: {many} wrong, see errors"
            raise Problem(422, f"invalid_{self.kind}", message, errors=result.errors)
        return Response(self.told(str(result.set_id)), status=201 if result.fresh else 200)


class Submits(SetDoor):
    """A set that is submitted."""

    scopes = {"POST": "jobs:submit"}

    def get_throttles(self) -> list[BaseThrottle]:
        """A set is one submission."""
        return [SubmitThrottle()]


class Pipeline(Submits):
    """Jobs that wait for each other."""

    kind = "pipeline"

    @documented(
        "jobs_pipeline", "Submit jobs that wait for each other", tag="jobs", body=shapes.PipelineRequest,
        answer=shapes.SetShape, status=201, parameters=(KEY,), more={(200, "application/json"): shapes.SetShape},
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """201 with every job; 200 when its key made them before; 422 with every fault of each, and nothing stored."""
        key = idempotency_key(request)
        body, _ = json_object(request)
        return self.answered(pipelines.submit(body, self.actor, self.now, key=key))


class Sweep(Submits):
    """One job over many values."""

    kind = "sweep"

    @documented(
        "jobs_sweep", "Submit a job for each of many values", tag="jobs", body=shapes.SweepRequest,
        answer=shapes.SetShape, status=201, parameters=(KEY,), more={(200, "application/json"): shapes.SetShape},
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """201 with every job; 200 when its key made them before; 422 with every fault, and nothing stored."""
        key = idempotency_key(request)
        body, _ = json_object(request)
        return self.answered(sweeps.submit(body, self.actor, self.now, key=key))


class CancelsAll(SetDoor):
    """Every job of a set is to stop."""

    scopes = {"POST": "jobs:submit"}

    def post_all(self, request: Request, set_id: str) -> Response:
        """The set, of which every job that has not ended will stop."""
        body, _ = json_object(request, optional=True)
        only(body, ("force",))
        force = body.get("force", False)
        if not isinstance(force, bool):
            raise Problem(422, "not_a_boolean", "force must be true or false", field="force", limit=[True, False])
        if sets.cancel(set_id, self.kind, self.actor, self.now, force=force) is None:
            raise not_found(self.kind)
        return Response(self.told(set_id))


class PipelineCancel(CancelsAll):
    """Every job of a pipeline is to stop."""

    kind = "pipeline"

    @documented("pipelines_cancel", "Cancel every job of a pipeline", tag="jobs", body=shapes.CancelRequest,
                answer=shapes.SetShape)  # fmt: skip
    def post(self, request: Request, pipeline_id: str) -> Response:
        """The pipeline, of which every job that has not ended will stop; ``force`` leaves them no grace."""
        return self.post_all(request, pipeline_id)


class SweepCancel(CancelsAll):
    """Every job of a sweep is to stop."""

    kind = "sweep"

    @documented("sweeps_cancel", "Cancel every job of a sweep", tag="jobs", body=shapes.CancelRequest,
                answer=shapes.SetShape)  # fmt: skip
    def post(self, request: Request, sweep_id: str) -> Response:
        """The sweep, of which every job that has not ended will stop; ``force`` leaves them no grace."""
        return self.post_all(request, sweep_id)
