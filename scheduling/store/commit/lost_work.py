"""What of an attempt was in vain for no fault of its job's: it is written down by cause and given back (D6)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from scheduling.core.gpu_time import gpu_time_in_words
from scheduling.core.words import agree, duration_in_words, gpus_in_words
from scheduling.models import Attempt, Job, LostWork
from scheduling.store.clock import to_ms

if TYPE_CHECKING:
    from scheduling.store.commit.attempts import End

Stretch = tuple[datetime, datetime]


class Lost(NamedTuple):
    """What of an attempt was in vain: going on from a checkpoint once more, and what has to be done again."""

    resume: Stretch | None = None
    redo: Stretch | None = None

    @property
    def stretches(self) -> list[Stretch]:
        """Both, as far as there are such."""
        return [each for each in self if each is not None]

    def in_words(self, gpus: int, *, ran: bool) -> str:
        """How much that is, as the end of a sentence; "" for nothing. What never ``ran`` has lost only time."""
        resume, redo = map(_seconds, self)
        whole = int(resume + redo)
        if not whole:
            return ""
        of_it = whole - int(redo)
        resuming = f", {duration_in_words(of_it)} of it of resuming," if int(redo) else " of resuming"
        amount = f"{duration_in_words(whole)}{resuming if of_it else ''} on {gpus_in_words(gpus)}"
        amount += f" ({gpu_time_in_words(whole * gpus)})"
        are = agree(whole, "is", "are")
        return f"; {amount} {are} lost and given back" if ran else f"; it never ran: {amount} {are} given back"


def _seconds(stretch: Stretch | None) -> float:
    return 0.0 if stretch is None else (stretch[1] - stretch[0]).total_seconds()


def note(job: Job, attempt: Attempt, how: End, gpus: int, now: datetime) -> Lost:
    """The stretches of the attempt that were in vain, written down; none where the job has itself to blame.

    Resuming took until the attempt had got beyond its checkpoint. Of one that never said how far it was nothing is
    known but that fetching took until it started.

    To be called before the job learns of the checkpoint that the attempt ends with.
    """
    cause, since = _cause(attempt, how), _redo_since(job, attempt, how)
    redo = (since, now) if cause and since is not None and since < now else None
    resume, blame = None, cause
    resumed_at = attempt.resumed_at or attempt.started_at
    if attempt.resume_id and resumed_at and (redo is None or redo[0] > attempt.granted_at):
        before = LostWork.objects.filter(attempt__job=job, attempt__number=attempt.number - 1).first()
        if before is not None:
            # Asked to stop while it was still resuming: that time is given back once.
            until = resumed_at if redo is None else min(resumed_at, redo[0])
            resume, blame = (attempt.granted_at, until), cause or before.cause
    lost = Lost(resume, redo)
    if not cause and not lost.stretches:
        return lost
    LostWork.objects.create(
        attempt=attempt, cause=blame, at=now, redo_since=redo[0] if redo else None,
        resume_until=resume[1] if resume else None,
        gpu_ms=gpus * sum(to_ms(end) - to_ms(start) for start, end in lost.stretches),
    )  # fmt: skip
    return lost


def of(lost: LostWork) -> list[Stretch]:
    """The stretches that were written down."""
    attempt = lost.attempt
    found = [] if lost.resume_until is None else [(attempt.granted_at, lost.resume_until)]
    return found if lost.redo_since is None else [*found, (lost.redo_since, lost.at)]


def _cause(attempt: Attempt, how: End) -> str:
    """preempt, health, drain or lost; "" when the end was no loss, or the job's own doing."""
    if how.outcome == "LOST":
        return "health" if how.avoid_gpus else "lost"
    why = how.why or attempt.why
    return why if how.outcome == "PREEMPTED" and why in LostWork.CAUSES else ""


def _redo_since(job: Job, attempt: Attempt, how: End) -> datetime | None:
    """Since when what it did has to be done again: its newest checkpoint, or all of it."""
    if how.checkpoint is not None:
        return attempt.asked_at  # it saved because it was asked to: what went into saving is lost
    saved = job.resume_saved_at if job.resume_id is not None else None
    return attempt.granted_at if saved is None else max(saved, attempt.granted_at)
