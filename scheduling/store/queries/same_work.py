"""Was the same made before, or is it being made? Then nobody need wait for it again."""

from __future__ import annotations

from typing import Any

from scheduling.core.lifecycle import JobState
from scheduling.models import JobOutput
from scheduling.models.jobs import ENDED
from scheduling.store.queries.access import Actor
from scheduling.store.queries.jobs import visible


def same_as(actor: Actor, work_key: str, *, but: str = "") -> dict[str, Any] | None:
    """The newest job that came to the same result, with its artifacts that are there and sound, else the first that is
    to; ``{job, name, state, ended_at, artifacts: [{id, name, kind}]}``. None for none that the actor may know of.

    ``but`` is the id of the job that asks.
    """
    if not work_key:
        return None
    rows = visible(actor).filter(work_key=work_key)
    rows = rows.exclude(pk=but) if but else rows
    made = JobOutput.objects.filter(
        given_up_at__isnull=True, artifact__deleted_at__isnull=True, artifact__corrupt=False
    )
    done = rows.filter(state=JobState.SUCCEEDED, outputs__in=made).order_by("-ended_at", "pk").first()
    found = done or rows.exclude(state__in=ENDED).order_by("submitted_at", "pk").first()
    if found is None:
        return None
    outputs = made.filter(job=found).select_related("artifact").order_by("name") if done else []
    return {
        "job": str(found.pk), "name": found.name, "state": found.state, "ended_at": found.ended_at,
        "artifacts": [{"id": str(o.artifact_id), "name": o.name, "kind": o.artifact.kind} for o in outputs],
    }  # fmt: skip
