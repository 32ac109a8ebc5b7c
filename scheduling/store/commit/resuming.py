"""Which checkpoint does a job's next attempt begin with? The newest that is sound, and from which it gets on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from scheduling.models import Artifact, Attempt, Job, Upload
from scheduling.store import artifact_rows, journal
from scheduling.store.clock import past_in_words

# So many attempts in a row that began with a checkpoint and did not get beyond it: then it is not begun with again.
RESTARTS = 2


class Beginning(NamedTuple):
    """The checkpoint that an attempt begins with, its step, and when its job saved it; None, 0 and None for the very
    beginning."""

    artifact: UUID | None
    step: int
    saved_at: datetime | None

    def columns(self) -> dict[str, Any]:
        """The columns of its job."""
        return {"resume_id": self.artifact, "resume_step": self.step, "resume_saved_at": self.saved_at}


def of(job: Job) -> Beginning:
    """What the job's next attempt begins with as its row says."""
    return Beginning(job.resume_id, job.resume_step, job.resume_saved_at)


def saved(attempt: Attempt, artifact: UUID, step: int) -> Beginning:
    """The checkpoint that the attempt has committed, as of ``step``.

    One that it declared nothing of is of unknown step (0), but not of one before where the attempt began.
    """
    at = artifact_rows.saved_at(attempt.job_id, artifact)
    return Beginning(artifact, max(step, attempt.resume_step), at)


def is_new(attempt: UUID, artifact: UUID, step: int) -> bool:
    """Whether what the attempt has left at its end is more than its job had before: not what it was begun with or had
    saved on the way and left lying there, which was saved then and nothing since."""
    had = Job.objects.filter(attempts=attempt).values_list("resume_id", "resume_step").get()
    return artifact != had[0] or step > had[1]


def chosen(job: Job, newest: Beginning, now: datetime, *, actor: str) -> Beginning:
    """What the job's next attempt begins with, which is told on its timeline when it is not the newest checkpoint.

    A checkpoint is given up when its bytes were found damaged, or when two attempts in a row began with it and ended
    without progress; then the one before it is taken, at last the very beginning. The given up ones stay stored.
    """
    if newest.artifact is None:
        return newest
    why = _why_not(job, newest.artifact)
    if not why:
        return newest
    sound = (each for each in _before(job, newest) if each.artifact and not _why_not(job, each.artifact))
    found = next(sound, Beginning(None, 0, None))
    words = {
        "deleted": f"the checkpoint at step {newest.step} was deleted",
        "corrupt": f"the checkpoint at step {newest.step} is damaged",
        "no_progress": f"{RESTARTS} attempts in a row began with the checkpoint at step {newest.step} and did not get "
        "beyond it",
    }
    goes_on = (
        f"it resumes from the one before, at step {found.step}" if found.artifact else "it starts from the beginning"
    )
    data = {"artifact": str(newest.artifact), "step": newest.step, "why": why,
            "instead": str(found.artifact) if found.artifact else None, "instead_step": found.step}  # fmt: skip
    journal.write(
        [
            journal.Note(
                "checkpoint_given_up", "job", str(job.pk), actor=actor, version=job.version, epoch=job.epoch,
                project=job.project.name if job.project else "", message=f"{words[why]}: {goes_on}", data=data,
            )
        ],
        now,
    )  # fmt: skip
    return found


def in_words(begins: Beginning, newest: Beginning) -> str:
    """Where the next attempt begins, whose job's newest checkpoint that other one is."""
    if begins.artifact is None:
        return "starts again from the beginning: there is no checkpoint" + " to go on from" * bool(newest.artifact)
    earlier = "earlier " * (begins.artifact != newest.artifact)
    at_step = f" at step {begins.step}" * bool(begins.step)  # 0: the job never said where it was
    saved_at = f" of {past_in_words(begins.saved_at)}" if begins.saved_at else ""
    return f"will resume from the {earlier}checkpoint{at_step}{saved_at}"


def leave_damaged(jobs: Iterable[Job], now: datetime, *, actor: str) -> None:
    """Those of the locked jobs that were to begin with a checkpoint found damaged since begin with an earlier one."""
    resuming = [job for job in jobs if job.resume_id is not None]
    if not resuming:
        return
    known = Artifact.objects.filter(pk__in=[job.resume_id for job in resuming], corrupt=True)
    damaged = set(known.values_list("pk", flat=True))
    for job in resuming:
        if job.resume_id in damaged:
            begins = chosen(job, of(job), now, actor=actor)
            job.resume_id, job.resume_step, job.resume_saved_at = begins
            Job.objects.filter(pk=job.pk).update(**begins.columns())


def _why_not(job: Job, artifact: UUID) -> str:
    """Why the checkpoint is not begun with: corrupt, deleted or no_progress; "" when it may be."""
    if not Artifact.objects.filter(pk=artifact, corrupt=False).exists():
        return "corrupt"
    if Artifact.objects.filter(pk=artifact, deleted_at__isnull=False).exists():
        return "deleted"
    begun = Attempt.objects.filter(job=job, resume_id=artifact, started_at__isnull=False, ended_at__isnull=False)
    last = list(begun.prefetch_related("nodes").order_by("-number")[:RESTARTS])
    stuck = len(last) == RESTARTS and all(_came_to_nothing(job, attempt) for attempt in last)
    return "no_progress" if stuck else ""


def _came_to_nothing(job: Job, attempt: Attempt) -> bool:
    """Whether the attempt got no further than its checkpoint, as far as can be known.

    What saved at its end could at least read it. A job that never says how far it is does not show that it got
    nowhere by being stopped, only by failing.
    """
    saved = any("checkpoint" in part.end for part in attempt.nodes.all())
    shows = attempt.outcome == "FAILED" or job.progress_total > 0
    return attempt.resumed_at is None and not saved and shows


def _before(job: Job, newest: Beginning) -> Iterator[Beginning]:
    """The job's checkpoints that it saved before this one, the newest first."""
    sent = Upload.objects.filter(attempt__job=job, kind="checkpoint", artifact__published=True)
    found: dict[UUID, Beginning] = {}
    for artifact, meta, at in sent.order_by("committed_at", "pk").values_list("artifact_id", "meta", "committed_at"):
        step = meta.get("step")
        found.pop(artifact, None)  # saved again: it is as new as that
        found[artifact] = Beginning(artifact, step if isinstance(step, int) else 0, at)
    begun = dict(Attempt.objects.filter(job=job, resume_id__in=found).values_list("resume_id", "resume_step"))
    order = list(found)
    before = order[: order.index(newest.artifact)] if newest.artifact in found else order
    for artifact in reversed(before):
        yield found[artifact]._replace(step=begun.get(artifact, found[artifact].step))
