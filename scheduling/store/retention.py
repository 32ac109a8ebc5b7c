"""Whose time is over? Checkpoints that no attempt will begin with, and outputs of attempts that came to nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import F, Max, Q

from scheduling.core.lifecycle import JobState
from scheduling.core.words import duration_in_words
from scheduling.models import Artifact, Upload
from scheduling.models.jobs import ENDED

# So many checkpoints of a job that has not ended are kept: the newest, and one to fall back to.
LAST = 2


@dataclass(frozen=True, slots=True)
class Keep:
    """For how long what is kept for a while: ``after_success`` and ``after_failure`` checkpoints of ended jobs,
    ``unpublished`` outputs of attempts that did not succeed."""

    after_success: timedelta
    after_failure: timedelta
    unpublished: timedelta


class _Saved(NamedTuple):
    artifact: UUID
    job: UUID
    state: str
    ended_at: datetime | None
    committed_at: datetime | None


def over(keep: Keep, now: datetime) -> dict[UUID, str]:
    """``{artifact: why}`` of what need not be kept any longer. Bytes that several jobs saved are kept as long as the
    longest of them asks for; what a user has uploaded stays."""
    return {**_checkpoints(keep, now), **_unpublished(keep, now)}


def _checkpoints(keep: Keep, now: datetime) -> dict[UUID, str]:
    of_job: dict[UUID, list[_Saved]] = defaultdict(list)
    uploads = Upload.objects.filter(artifact__kind="checkpoint", artifact__deleted_at__isnull=True)
    uploaded = set(uploads.filter(attempt__isnull=True).values_list("artifact_id", flat=True))
    rows = uploads.filter(attempt__isnull=False).order_by(F("committed_at").asc(nulls_first=True), "created_at")
    columns = ("artifact_id", "attempt__job_id", "attempt__job__state", "attempt__job__ended_at", "committed_at")
    for row in rows.values_list(*columns).iterator(chunk_size=2000):
        saved = _Saved(*row)
        of_job[saved.job].append(saved)
    found: dict[UUID, str] = {}
    kept: set[UUID] = set(uploaded)
    for saves in of_job.values():
        for artifact, why in _of_a_job(saves, keep, now):
            if why:
                found[artifact] = why
            else:
                kept.add(artifact)
    return {artifact: why for artifact, why in found.items() if artifact not in kept}


def _of_a_job(saves: list[_Saved], keep: Keep, now: datetime) -> Iterator[tuple[UUID, str]]:
    """Each of its checkpoints with why it need not be kept; "" while it must be."""
    order = list({each.artifact: None for each in reversed(saves)})  # the newest first; saved again is as new as that
    state, ended = saves[-1].state, saves[-1].ended_at
    if state not in ENDED or ended is None:
        for place, artifact in enumerate(order):
            yield artifact, "" if place < LAST else f"of a job that goes on the last {LAST} checkpoints are kept"
        return
    succeeded = state == JobState.SUCCEEDED
    span = keep.after_success if succeeded else keep.after_failure
    words = "succeeded" if succeeded else "ended without success"
    why = f"its job {words} more than {_in_words(span)} ago" if ended <= now - span else ""
    for artifact in order:
        yield artifact, why


def _unpublished(keep: Keep, now: datetime) -> dict[UUID, str]:
    """What attempts stored before they failed: no job has it as its output."""
    rows = Artifact.objects.filter(published=False, deleted_at__isnull=True).exclude(outputs__isnull=False)
    uploads = Upload.objects.filter(artifact__in=rows).values("artifact_id")
    last = uploads.annotate(ended=Max("attempt__ended_at")).order_by()
    going = set(
        Upload.objects.filter(Q(attempt__ended_at__isnull=True), artifact__in=rows).values_list(
            "artifact_id", flat=True
        )
    )
    why = f"its attempt ended more than {_in_words(keep.unpublished)} ago without success"
    return {
        row["artifact_id"]: why
        for row in last
        if row["artifact_id"] not in going and row["ended"] is not None and row["ended"] <= now - keep.unpublished
    }


def _in_words(span: timedelta) -> str:
    return duration_in_words(int(span.total_seconds()))
