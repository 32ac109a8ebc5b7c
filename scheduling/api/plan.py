"""What would happen? One job more, and the whole queue under a change; and what is expected of a job that waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle, UserRateThrottle

from scheduling.api.body import json_object, unusable
from scheduling.api.door import Door, OperatorDoor
from scheduling.api.problems import Problem
from scheduling.api.shapes import jobs as job_shapes
from scheduling.api.shapes import plan as shapes
from scheduling.api.shapes.answers import documented
from scheduling.core.fields import shown
from scheduling.core.lifecycle import JobState
from scheduling.services import outlook, replay, whatif
from scheduling.services.whatif import Change, Planned
from scheduling.store.queries import after, credentials
from scheduling.store.queries.access import Actor
from workers.merge_table import Row

TOKEN = "plan_token"  # noqa: S105  the name of a field


class PlanThrottle(UserRateThrottle):
    """A form that plans while it is filled needs more than one that submits."""

    scope = "plan"
    rate = "240/min"


class JobPlan(Door):
    """What would happen to a job that is not submitted."""

    scopes = {"POST": "jobs:submit"}

    def get_throttles(self) -> list[BaseThrottle]:
        """Each plan makes the scheduler think."""
        return [PlanThrottle()]

    @documented(
        "jobs_plan", "What would happen if this were submitted; nothing is stored", tag="jobs",
        body=job_shapes.JobRequest, answer=shapes.PlanShape,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """The plan; 422 with every fault at once when the body is no job."""
        body, _ = json_object(request)
        body.pop(TOKEN, None)
        found = whatif.plan(body, self.actor, self.now)
        if not isinstance(found, Planned):
            raise Problem(422, "invalid_job", "this is no job that can be planned, see errors", errors=found.errors)
        shown = {name: getattr(found, name) for name in ("verdict", "as_of", "gpus", "victims", "gpu_hours", "share")}
        return Response(
            {
                **shown,
                "start": None if found.start is None else asdict(found.start),
                "reasons": found.reasons,
                "alternatives": _changes(found.alternatives),
                "replaces": _in_place_of(found),
                "same": found.same,
                "tensors": [_tensor(row) for row in found.rows],
                TOKEN: found.token or None,
            }
        )


def _tensor(row: Row) -> dict[str, Any]:
    read = [{"model": model, "tensor": tensor} for model, tensor in row.origins]
    return {"tensor": row.tensor, "from": read, "values": row.values, "note": row.note}


def _in_place_of(found: Planned) -> dict[str, Any] | None:
    instead = found.in_place_of
    if instead is None:
        return None
    return {
        "job": instead.job, "name": instead.name, "keeps_place": not instead.new_place,
        "new_place_because": instead.new_place or None, "begins_anew_because": instead.begins_anew or None,
        "held": instead.held,
    }  # fmt: skip


def hold_to_plan(body: dict[str, Any], actor: Actor, now: datetime, *, key: str | None) -> None:
    """``plan_token`` is out of the body; 422 for one that is no text, 409 ``plan_changed`` unless its plan would still
    come true.

    A body that the idempotency key has already made a job of is past planning.
    """
    token = body.pop(TOKEN, None)
    if token is None or (key and credentials.made_by(actor.user_id, key) is not None):
        return
    if not isinstance(token, str):
        message = f"{TOKEN} must be the text that a plan gave, not {shown(token)}; plan again, or leave it out"
        raise Problem(422, "not_text", message, field=TOKEN)
    broken = whatif.broken_promise(token, body, actor, now)
    if broken is not None:
        raise Problem(409, "plan_changed", broken, field=TOKEN)


def foretold(job: dict[str, Any], actor: Actor, now: datetime) -> dict[str, Any]:
    """The job with what is expected of it and why, if it waits, and the one instant that all of that is of."""
    if job["state"] != JobState.QUEUED or after.is_said(job["reasons"]):
        return not_foretold(job)
    with outlook.present.look(now, must_know=job["id"]) as seen:
        found, as_of = seen.foretell(job["id"], kind=job["kind"]), seen.as_of
    if found is None:
        return not_foretold(job)
    start = None if found.start is None else asdict(found.start)
    helps = _changes(whatif.changes(found.alternatives, as_of, asked=found.asked))
    why = whatif.told_now(actor, found.reasons, job)
    return {**job, "as_of": as_of, "reasons": why, "estimated_start": start, "alternatives": helps}


def not_foretold(job: Mapping[str, Any]) -> dict[str, Any]:
    """The same members without asking: for lists, and for jobs that don't wait."""
    return {**job, "as_of": None, "estimated_start": None, "alternatives": []}


def _changes(found: Iterable[Change]) -> list[dict[str, Any]]:
    return [{"change": each.change, "starts_at": each.starts_at, "fields": each.fields} for each in found]


class Replay(OperatorDoor):
    """What a change of the policy or the pool would do to everything that waits."""

    scopes = {"POST": "pool:operate"}

    @documented(
        "plan_replay", "The present queue played to its end, as things are and with a change", tag="pool",
        body=shapes.ReplayRequest, answer=shapes.ReplayShape,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """The difference; 422 for a change that can't be made, 409 while another replay runs, 503 if it takes long."""
        self.let_operate("a replay")
        body, _ = json_object(request)
        found = replay.replay(body, self.actor, self.now, unusable(body))
        if isinstance(found, replay.Unplayable):
            raise Problem(422, found.errors[0]["code"], found.errors[0]["message"], errors=found.errors)
        if isinstance(found, replay.Busy):
            raise Problem(409, "replay_running", "another replay runs here; try again when it is done")
        if isinstance(found, replay.TooLong):
            raise Problem(503, "replay_too_long", found.message, limit=found.limit_s)
        return Response(found)
