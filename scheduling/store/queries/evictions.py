"""What is to be told of jobs that may evict nobody for a while (D10)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.core.lifecycle import JobState
from scheduling.core.words import instant_in_words
from scheduling.models import Job
from scheduling.store.clock import now, to_ms
from scheduling.store.fixed import Fixed

EVICTS_NOBODY = "EVICTS_NOBODY"
WAITING = (JobState.QUEUED, JobState.HELD)

_KEPT_FROM = Fixed(
    lambda now: (
        Job.objects.filter(no_evict_until__gt=now, state__in=WAITING).order_by("no_evict_until", "pk").values_list("pk")
    )
)


def loops(now: datetime) -> list[str]:
    """The ids of the jobs that wait and are kept from evicting others at present."""
    return [str(UUID(str(job))) for (job,) in _KEPT_FROM(now)]


def evicts_nobody(job: Job, at: datetime | None = None) -> dict[str, Any] | None:
    """A reason like the others of a job that waits: code EVICTS_NOBODY, and until when (``until_ms``); None where the
    job keeps its rights. ``at``: as of then; now, if None."""
    until = job.no_evict_until
    if until is None or job.state not in WAITING or until <= (at or now()):
        return None
    return {
        "code": EVICTS_NOBODY,
        "message": f"It may evict nobody until {instant_in_words(to_ms(until))}: it has evicted the same job from the "
        "same GPUs twice within an hour, and a third time would be a loop.",
        "numbers": {"until_ms": to_ms(until)},
    }
