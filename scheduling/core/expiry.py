"""Will it start in time? What is said of a job whose ``start_by`` comes before its expected start."""

from __future__ import annotations

from scheduling.core.estimate import Estimate, latest
from scheduling.core.plan import Reason
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
    first, last, enough = max(found.told_low, job.due_ms), max(latest(found.high), job.due_ms), latest(high + 1)
    numbers = (("start_by_ms", job.start_by_ms), ("start_by_at_least_ms", enough), ("expected_from_ms", first))
    helps = f"With a latest start of {instant_in_words(enough)} or later it would be in time."
    if low >= job.start_by_ms:
        expected = f"on {instant_in_words(first)} at the soonest"
        message = f"It leaves the queue on {limit}, before it is expected to start: {expected}."
        return Reason("EXPIRES", f"{message} {helps}", numbers)
    message = (
        f"It may leave the queue before it starts: it has until {limit}, and is expected between "
        f"{instant_in_words(first)} and {instant_in_words(last)}."
    )
    return Reason("MAY_EXPIRE", f"{message} {helps}", numbers)
