"""What is to be told of jobs that may evict nobody for a while, and what leads there (D10)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from scheduling.core.lifecycle import JobState
from scheduling.core.words import instant_in_words
from scheduling.models import Attempt, Job, PreemptionRule
from scheduling.store.clock import now, to_ms
from scheduling.store.fixed import Fixed
from scheduling.store.queries.after import CODE as AFTER
from scheduling.store.queries.sets import CODE as SWEEP_LIMIT

EVICTS_NOBODY = "EVICTS_NOBODY"
WAITING = (JobState.QUEUED, JobState.HELD)
_OUT_OF_QUEUE = ("HELD", AFTER, SWEEP_LIMIT)
# The same job evicting the same one from the same GPUs so often within so long is a loop, not a need.
LOOP_TIMES = 3
LOOP_WITHIN = timedelta(hours=1)
_TWICE = (
    "twice within an hour the same job left the same GPUs for it or for what it replaced, and a third time would be a "
    "loop"
)

_KEPT_FROM = Fixed(
    lambda now: (
        Job.objects.filter(
            no_evict_until__gt=now, state__in=WAITING, level__in=PreemptionRule.objects.values("preemptor")
        )
        .order_by("no_evict_until", "pk")
        .values_list("pk")
    )
)


def loops(now: datetime) -> list[str]:
    """The ids of the jobs that wait and are kept from a right to evict others at present."""
    return [str(UUID(str(job))) for (job,) in _KEPT_FROM(now)]


def evicts_nobody(job: Job, at: datetime | None = None) -> dict[str, Any] | None:
    """A reason like the others of a job that waits: code EVICTS_NOBODY, and until when (``until_ms``); None where the
    job keeps its rights, or has none. ``at``: as of then; now, if None."""
    if job.state not in WAITING or not is_kept(job, at or now()):
        return None
    if not PreemptionRule.objects.filter(preemptor=job.level_id).exists():
        return None
    return _until(job)


def is_kept(job: Job, at: datetime) -> bool:
    """Whether the job, and what replaces it, is kept from evicting others then, be its level one that may or not."""
    return job.no_evict_until is not None and job.no_evict_until > at


def in_order(reasons: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reasons, the one that comes before the others first: that the job may evict nobody, since for that it waits
    for what is told after it; but what keeps it out of the queue comes before."""
    return sorted(reasons, key=lambda each: 0 if each["code"] in _OUT_OF_QUEUE else 2 - (each["code"] == EVICTS_NOBODY))


def inherited(original: Job, at: datetime) -> dict[str, Any]:
    """The same reason of what would replace the job: it would be kept as that is, or as soon as it looked for
    victims."""
    if is_kept(original, at):
        return _until(original)
    return _reason("It would evict nobody for an hour", at + LOOP_WITHIN)


def _until(job: Job) -> dict[str, Any]:
    until: datetime = job.no_evict_until  # type: ignore[assignment]
    return _reason(f"It may evict nobody until {instant_in_words(to_ms(until))}", until)


def _reason(words: str, until: datetime) -> dict[str, Any]:
    return {"code": EVICTS_NOBODY, "message": f"{words}: {_TWICE}.", "numbers": {"until_ms": to_ms(until)}}


def would_be_a_loop(wants: Job, victim: UUID, now: datetime) -> bool:
    """Whether the job, or what it has replaced, has evicted the running ``victim`` from the GPUs that it has now so
    often that once more is a loop. What left although it might have run on counts; what ran on does not.
    """
    before = Attempt.objects.filter(
        job_id=victim, evicted_for_id__in=_with_replaced(wants), asked_at__gt=now - LOOP_WITHIN,
        ended_at__isnull=False, why="preempt",
    ).prefetch_related("allocations__gpu")  # fmt: skip
    were = [{a.gpu_id for a in each.allocations.all()} for each in before]
    if len(were) + 1 < LOOP_TIMES:
        return False
    running = Attempt.objects.filter(job_id=victim, ended_at__isnull=True)
    held = set(running.values_list("allocations__gpu_id", flat=True))
    return were.count(held) + 1 >= LOOP_TIMES


def _with_replaced(wants: Job) -> list[UUID]:
    """The job and those that it replaced, one after the other."""
    chain = [wants]
    while (before := chain[-1].replaces) is not None:
        chain.append(before)
    return [job.pk for job in chain]
