"""What is said of a job that is short of nothing? It starts soon, its time will come, or its victims save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.leaving import held_for, unsaved
from scheduling.core.passed_over import why_these
from scheduling.core.plan import Reason
from scheduling.core.shortfalls import Numbers
from scheduling.core.snapshot import WaitingJob
from scheduling.core.words import agree, gpus_in_words, instant_in_words

if TYPE_CHECKING:
    from scheduling.core.held import Nominee
    from scheduling.core.scheduler import Scheduler


def starting_soon(taken_back: int = 0) -> Reason:
    """The reason of a job that nothing hinders: the next pass of the scheduler starts it."""
    if not taken_back:
        return Reason("STARTING", "Starting soon: the next pass of the scheduler looks at it.")
    become = agree(taken_back, "becomes", "become")
    message = f"Starting soon: {gpus_in_words(taken_back)} just taken back {become} free with the next pass."
    return Reason("STARTING", message, (("taken_back", taken_back),))


def asleep(job: WaitingJob) -> Reason:
    """The reason of a job whose time has not come: its owner's ``not_before``, or the pause after a failure (D13)."""
    if job.not_before_ms > job.eligible_at_ms:
        message = f"Its owner wants it to start on {instant_in_words(job.not_before_ms)} at the earliest."
        return Reason("NOT_BEFORE", message, (("until_ms", job.not_before_ms),))
    until = instant_in_words(job.eligible_at_ms)
    message = f"Waits until {until} after an infrastructure failure; then it is placed like any other."
    return Reason("BACKOFF", message, (("until_ms", job.eligible_at_ms),))


def nominated(nominee: Nominee, scheduler: Scheduler, now_ms: int) -> Reason:
    """The reason of a job that waits for its victims to save, and why it is these."""
    victims = held_for(scheduler, nominee)
    numbers: Numbers = (
        ("victims", len(victims)),
        ("gpus", len(nominee.gpus)),
        ("deadline_ms", nominee.deadline_ms),
        *(("victim", held.id) for held in victims[:1]),
    )
    kept = f"{gpus_in_words(len(nominee.gpus))} {agree(len(nominee.gpus), 'is', 'are')} kept for it"
    count = len(victims)
    message = f"{kept}; {count} running {agree(count, 'job was', 'jobs were')} asked to save and leave first."
    unsure, until_ms = unsaved(scheduler, nominee)
    if unsure:
        which = "It runs" if count == 1 else f"{unsure} of them {agree(unsure, 'runs', 'run')}"
        message += f" {which} on if not saved by {instant_in_words(until_ms)}; then this job waits anew."
        numbers = (*numbers, ("if_saved", unsure))
    why, told = why_these(scheduler, nominee.queued, victims, now_ms)
    return Reason("PREEMPTING", message + why, (*numbers, *told))
