"""What a user does to a job: submit, have it refused, cancel, hold, release, retry, replace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.models import Artifact, Attempt, IdempotencyKey, Job, Level, Project
from scheduling.models.jobs import ENDED
from scheduling.store import journal
from scheduling.store.commit import after as chains
from scheduling.store.commit import replacing, resuming
from scheduling.store.commit.attempts import End, ask_to_stop, end
from scheduling.store.commit.parts import release_unclaimed
from scheduling.store.commit.transitions import lock_job, step
from scheduling.store.load_policy import policy_of

RAW_LIMIT = 64 * 1024
CANCEL_GRACE_S = 30.0
HELD = "it does not start until it is released"
RELEASED = ("released: it waits for GPUs again", "released: it waits for other jobs again")  # True: for others first
KILLED = "its process is killed at once, and nothing more is saved"


@dataclass(frozen=True, slots=True)
class Created:
    """The job a submission made, or the one its idempotency key had made before (``fresh`` is False)."""

    job_id: UUID
    fresh: bool
    same_body: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key: at most one job per user and key."""

    value: str
    body_sha256: str


def create(
    fields: dict[str, Any],
    *,
    user_id: int,
    key: Key | None,
    now: datetime,
    actor: str,
    replaces: replacing.Replaces | None = None,
    after: chains.After | None = None,
) -> Created | None:
    """A QUEUED job with its event, and its key row, in one transaction; or the job that the key made before.

    ``fields`` are columns of :class:`Job`, with ``project``, ``queue`` and ``level`` by name. The job that it
    ``replaces`` is cancelled, and where that was held this one is too; what waited for it waits for this one. It starts
    ``after`` the jobs there. When one of all these has started or ended meanwhile, nothing is written: None.
    """
    if key is not None and (earlier := made_by(user_id, key)) is not None:
        return earlier
    try:
        with transaction.atomic():
            locked = chains.lock(after, () if replaces is None else (replaces.job_id,))
            original = None if replaces is None or locked is None else replacing.locked(replaces)
            if locked is None or (replaces is not None and original is None) or _in_a_circle(after, original):
                return None if key is None else made_by(user_id, key)  # gone for another request with this key?
            stands = chains.stands(after, locked)
            job = _stored({**fields, **stands}, user_id=user_id, key=key, now=now)
            chains.tie(job, after)
            replaced = None
            if original is not None and replaces is not None:
                replaced = replacing.give_way(original, replaces, job, now, actor=actor)
            journal.write([_submitted(job, replaced, actor=actor)], now)
            if replaced is not None and replaced.held:
                replacing.keep_held(job, now, actor=actor)
            return Created(job.pk, fresh=True)
    except IntegrityError:
        # Two requests with one key: the other was first.
        if key is not None and (earlier := made_by(user_id, key)) is not None:
            return earlier
        raise


def _in_a_circle(after: chains.After | None, original: Job | None) -> bool:
    """Whether the new job is to wait for one that waits for the job whose place it takes."""
    return after is not None and original is not None and chains.waits_for(after.jobs.values(), original.pk)


def _stored(fields: dict[str, Any], *, user_id: int, key: Key | None, now: datetime) -> Job:
    project = Project.objects.get(name=fields.pop("project"))
    level = Level.objects.select_related("queue").get(queue__name=fields.pop("queue"), name=fields.pop("level"))
    job = Job.objects.create(
        state=JobState.QUEUED, project=project, user_id=user_id, queue=level.queue, level=level, submitted_at=now,
        **fields,
    )  # fmt: skip
    if key is not None:
        IdempotencyKey.objects.create(
            user_id=user_id, key=key.value, body_sha256=key.body_sha256, job=job, created_at=now
        )
    return job


def _submitted(job: Job, replaced: replacing.Told | None, *, actor: str) -> journal.Note:
    """The first line of the job's timeline."""
    told = replaced or replacing.Told("", {})
    where = f"submitted to {job.queue.name} at {job.level.name}" if job.queue and job.level else "submitted"
    return journal.Note(
        "submitted", "job", str(job.pk), actor=actor, version=1, project=job.project.name if job.project else "",
        message=f"{where}{_again(job)}{told.words}{_waits(job)}",
        data={"to": "QUEUED", "gpus": job.gpu_count, "purpose": job.purpose, **told.data},
    )  # fmt: skip


def _again(job: Job) -> str:
    if job.retry_of_id is None:
        return ""
    begins = f"at step {job.resume_step}, where that was saved" if job.resume_id else "from the beginning"
    return f"; it does job {job.retry_of_id} again {begins}"


def _waits(job: Job) -> str:
    return f"; it waits for {job.awaits} other job{'s' * (job.awaits != 1)}" if job.awaits else ""


def _is_of_limited_set(job: Job) -> bool:
    """Whether only so many jobs of its set may run at a time; the scheduler's pass says when it is its turn."""
    return job.member_of is not None and job.member_of.max_running is not None


def in_its_set(job: Job) -> dict[str, Any]:
    """The columns of a retry of the job, which stands for it in its pipeline or sweep."""
    return {
        "member_of_id": job.member_of_id, "key": job.key, "place_in_set": job.place_in_set,
        "kept_back": _is_of_limited_set(job),
    }  # fmt: skip


def beginning(job: Job) -> dict[str, Any]:
    """The columns with which a new job goes on where this one was saved last; none where there is nothing sound."""
    sound = Artifact.objects.filter(published=True, corrupt=False, deleted_at__isnull=True)
    if job.resume_id is None or not sound.filter(pk=job.resume_id).exists():
        return {}
    return resuming.of(job).columns()


@transaction.atomic
def retried(job_id: UUID) -> tuple[Job, UUID | None] | None:
    """The job, locked so that it is retried once at a time, and its newest retry that has not ended; None for none."""
    job = lock_job(job_id)
    if job is None:
        return None
    going = job.retried_as.exclude(state__in=ENDED).order_by("-submitted_at", "id").values_list("pk", flat=True)
    return job, going.first()


def made_by(user_id: int, key: Key) -> Created | None:
    """The job that the key has made, if it has."""
    row = IdempotencyKey.objects.filter(user_id=user_id, key=key.value).first()
    return None if row is None else Created(row.job_id, fresh=False, same_body=row.body_sha256 == key.body_sha256)


@transaction.atomic
def reject(
    *,
    name: str,
    kind: str,
    raw: str,
    spec: dict[str, Any],
    errors: list[dict[str, Any]],
    project: str | None,
    user_id: int,
    now: datetime,
    actor: str,
) -> UUID:
    """A REJECTED job for the audit (D28): the body up to 64 KB, every reason; unknown references null."""  # fmt: skip
    home = Project.objects.filter(name=project, members=user_id).first() if project else None
    job = Job.objects.create(
        state=JobState.REJECTED, name=name[:100] or "unnamed", kind=kind[:31], raw=raw[:RAW_LIMIT], errors=errors,
        spec={k: v for k, v in spec.items() if k != "params"},
        params=spec["params"] if isinstance(spec.get("params"), dict) else {},
        project=home, user_id=user_id, submitted_at=now, ended_at=now, max_duration_s=0, outcome="REJECTED",
        error="; ".join(str(e.get("message", "")) for e in errors)[:4000],
    )  # fmt: skip
    journal.write(
        [
            journal.Note(
                "rejected", "job", str(job.pk), actor=actor, version=1, project=home.name if home else "",
                message=f"refused for {len(errors)} reason{'s' if len(errors) != 1 else ''}",
                data={"to": "REJECTED", "codes": [e.get("code") for e in errors]},
            )
        ],
        now,
    )  # fmt: skip
    return job.pk


@transaction.atomic
def cancel(job_id: UUID, *, actor: str, now: datetime, force: bool) -> tuple[JobState | None, bool]:
    """The job's state after the cancel, and whether the cancel was lawful (asking twice is).

    A waiting job is CANCELLED at once, also one granted but not yet claimed; a running one is CANCELLING and its
    nodes are told, with the queue's grace or none.
    """
    job = lock_job(job_id)
    if job is None:
        return None, False
    if job.is_terminal:
        return JobState(job.state), job.state == JobState.CANCELLED
    attempt = Attempt.objects.filter(job=job, ended_at__isnull=True).first()
    claimed = attempt is not None and attempt.nodes.filter(claimed_at__isnull=False).exists()
    grace = min(CANCEL_GRACE_S * settings.TIME_SCALE, job.queue.grace_s if job.queue else 0.0)
    if (
        attempt is not None and attempt.action == "stop" and attempt.stop_by is not None
    ):  # it has no more time than that
        grace = max(0.0, min(grace, (attempt.stop_by - now).total_seconds()))
    if job.state != JobState.CANCELLING:
        step(job, JobEvent.CANCEL, now, actor=actor, message=_cancelled(actor, claimed, force=force, grace_s=grace),
             data={"force": force}, fields={"outcome": "CANCELLED"} if attempt is None else None)  # fmt: skip
    elif attempt is not None and force and attempt.action != "kill":
        _tell_of_force(job, attempt, now, actor=actor)
    if attempt is not None:
        if not claimed:
            end(attempt.pk, attempt.epoch, End("CANCELLED", why="cancel"), now=now, actor=actor, policy=policy_of())
        else:
            ask_to_stop(attempt, "cancel", now, grace_s=grace, force=force or attempt.action == "kill")
            release_unclaimed(job, attempt, now=now, actor=actor, policy=policy_of())
    job.refresh_from_db()
    return JobState(job.state), True


def _cancelled(actor: str, claimed: bool, *, force: bool, grace_s: float) -> str:
    """What the timeline says of a cancel: who asked, and what becomes of what runs."""
    who = f"cancelled{' by force' if force else ''} by {actor.removeprefix('user ')}"
    if not claimed:
        return f"{who}; it was not running"
    return f"{who}: {KILLED}" if force else f"{who}: it was asked to stop and has {round(grace_s, 1):g} s for it"


def _tell_of_force(job: Job, attempt: Attempt, now: datetime, *, actor: str) -> None:
    Job.objects.filter(pk=job.pk).update(version=F("version") + 1)
    job.refresh_from_db(fields=["version"])
    note = journal.Note(
        "kill_requested", "job", str(job.pk), actor=actor, version=job.version, attempt=attempt.pk, epoch=attempt.epoch,
        project=job.project.name if job.project else "",
        message=f"by force, {actor.removeprefix('user ')} asked: {KILLED}", data={"force": True},
    )  # fmt: skip
    journal.write([note], now)


@transaction.atomic
def hold(job_id: UUID, *, actor: str, now: datetime, release: bool = False) -> tuple[JobState | None, bool]:
    """The waiting job is HELD (or QUEUED again); asking for what already is so is lawful."""
    job = lock_job(job_id)
    if job is None:
        return None, False
    wanted = JobState.QUEUED if release else JobState.HELD
    if job.state == wanted:
        return wanted, True
    event, message = (JobEvent.RELEASE, RELEASED[bool(job.awaits)]) if release else (JobEvent.HOLD, HELD)
    fields = {"kept_back": True} if release and _is_of_limited_set(job) else None
    moved = step(job, event, now, actor=actor, message=message, fields=fields)
    return JobState(job.state), moved is not None
