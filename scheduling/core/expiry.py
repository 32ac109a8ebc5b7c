"""Will it start in time? What is said of a job whose ``start_by`` comes before its expected start, and what helps."""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.alternatives import Alternative
from scheduling.core.estimate import Estimate, latest, soonest_to_come
from scheduling.core.plan import Reason
from scheduling.core.played import Foresight
from scheduling.core.snapshot import WaitingJob
from scheduling.core.words import instant_in_words


def expiry(job: WaitingJob, found: Estimate | None) -> Reason | None:
    """The reason to fear for the job's ``start_by``: EXPIRES, or MAY_EXPIRE when only the late end of the estimate
    lies after it; None for a job that is in time, or has no such limit.

    ``found``: its estimate, None when the pool as it is has no place for it.
    """
    if job.start_by_ms is None:
        return None
    limit = instant_in_words(job.start_by_ms)
    if found is None:
        message = f"It leaves the queue on {limit}, and there is no start in sight for it."
        return Reason("EXPIRES", message, (("start_by_ms", job.start_by_ms),))
    low, high = max(found.low, job.due_ms), max(found.high, job.due_ms)
    # A job that could start at the very instant leaves: what has passed is looked at first.
    if high < job.start_by_ms:
        return None
    first, last = max(found.told_low, job.due_ms), max(latest(found.high), job.due_ms)
    numbers = (("start_by_ms", job.start_by_ms), ("expected_from_ms", first))
    if low >= job.start_by_ms:
        expected = f"on {instant_in_words(first)} at the soonest"
        message = f"It leaves the queue on {limit}, before it is expected to start: {expected}."
        return Reason("EXPIRES", message, numbers)
    expected = f"is expected between {instant_in_words(first)} and {instant_in_words(last)}"
    if found.leaves:
        expected = "as the queue stands it does not start by then"
    return Reason(
        "MAY_EXPIRE", f"It may leave the queue before it starts: it has until {limit}, and {expected}.", numbers
    )


def in_time(job: WaitingJob, found: Estimate | None, foresight: Foresight, *, now_ms: int) -> Alternative | None:
    """A later ``start_by``, or none, with which a job that would leave before it starts would stay long enough; None
    for a job that is in time. ``found``: its estimate.

    It is tried where the queue is short enough to be played; a longer one is told by its work, whatever the limit.
    """
    if found is None or expiry(job, found) is None:
        return None
    enough = latest(max(found.high, job.due_ms) + 1)
    start = foresight.start_of(replace(job, start_by_ms=enough))
    if start is not None and start >= enough:  # it waits for more than was reckoned
        start = foresight.start_of(replace(job, start_by_ms=None))
        enough = 0 if start is None else latest(start + 1)
        if enough and foresight.start_of(replace(job, start_by_ms=enough)) != start:
            enough = 0
    words = f"a latest start of {instant_in_words(enough)} or later" if enough else "without a latest start"
    first = max(found.at if start is None else start, job.due_ms)
    told = max(soonest_to_come(first, now_ms), job.due_ms)
    return Alternative("start_by_at_least_ms", enough, words, job.request, job.remaining_s, told, expected=True)
