"""Which bytes does anybody need, and since when does nobody need the others? The rows behind the collection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from scheduling.models import Artifact, ProjectBlob, SchedulerState, UnusedBlob, Upload
from scheduling.store import checks, journal
from scheduling.store.commit.deleting import needed_by_jobs


def needed() -> set[str]:
    """The sha256 of every blob of an artifact that is not deleted, or that a job needs nevertheless, and of every file
    that an open upload has announced."""
    rows = Artifact.objects.filter(Q(deleted_at__isnull=True) | Q(pk__in=needed_by_jobs()))
    found = {f["sha256"] for files in rows.values_list("files", flat=True).iterator(chunk_size=500) for f in files}
    coming = Upload.objects.filter(artifact__isnull=True).values_list("files", flat=True)
    return found | {f["sha256"] for files in coming.iterator(chunk_size=500) for f in files if f["sha256"]}


def store_name() -> str:
    """By what name this database knows its artifact directory; "" before it was given one."""
    return SchedulerState.objects.values_list("store_name", flat=True).first() or ""


def name_store(name: str) -> None:
    """The database knows its artifact directory by that name from now on."""
    SchedulerState.objects.update(store_name=name)


def has_artifacts() -> bool:
    """Whether anything was ever committed by this database."""
    return Artifact.objects.exists()


def unused_since() -> dict[str, datetime]:
    """Since when each blob is known to be needed by nobody."""
    return dict(UnusedBlob.objects.values_list("sha256", "since"))


@transaction.atomic
def note_unused(unused: Mapping[str, int], now: datetime) -> None:
    """Just these blobs, with their sizes in bytes, are known to be needed by nobody: the new ones since now."""
    known = unused_since()
    _drop(UnusedBlob, known.keys() - unused.keys())
    new = [UnusedBlob(sha256=sha, size=unused[sha], since=now) for sha in sorted(unused.keys() - known.keys())]
    UnusedBlob.objects.bulk_create(new, batch_size=500)


@transaction.atomic
def gone(removed: Mapping[str, int], now: datetime) -> None:
    """These blobs, with their sizes in bytes, are not stored any more."""
    if not removed:
        return
    _drop(UnusedBlob, removed.keys())
    _drop(ProjectBlob, removed.keys())
    checks.forget(removed.keys())
    freed = sum(removed.values())
    note = journal.Note("store_collected", "artifact", "store", data={"blobs": len(removed), "bytes": freed},
                        message=f"{len(removed)} blobs that nobody needed are gone: {freed} bytes")  # fmt: skip
    journal.write([note], now)


def _drop(model: type[UnusedBlob] | type[ProjectBlob], digests: Collection[str]) -> None:
    names = sorted(digests)
    for first in range(0, len(names), 500):
        model.objects.filter(sha256__in=names[first : first + 500]).delete()
