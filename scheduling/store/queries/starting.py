"""Which nodes of a granted attempt have yet to take it, prepare its start, or wait for the others?"""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.core.lifecycle import JobState
from scheduling.models import Attempt, AttemptNode, Job

STAGES = ("unclaimed", "preparing", "ready", "started")


def starting(job: Job, last: Attempt | None) -> Mapping[str, list[str]] | None:
    """The names of the nodes by what each has said, by rank; None unless the job is granted and does not run yet.

    ``last`` is its newest attempt with its parts. Only of several one is ``ready``, or ``started`` before the job.
    """
    if last is None or job.state != JobState.DISPATCHING:
        return None
    found: dict[str, list[str]] = {stage: [] for stage in STAGES}
    for part in last.nodes.all():
        found[_stage(part)].append(part.node.name)
    return found


def _stage(part: AttemptNode) -> str:
    if part.started_at is not None:
        return "started"
    if part.ready_at is not None:
        return "ready"
    return "unclaimed" if part.claimed_at is None else "preparing"
