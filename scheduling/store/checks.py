"""Which stored bytes were last read when, and were they what they should be? Damaged ones are marked, never removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from scheduling.models import Artifact, BlobCheck
from scheduling.store import journal

AT_ONCE = 500
MATCH_AGAIN = "its stored bytes match its sha256 again"


@dataclass(frozen=True, slots=True)
class Due:
    """An artifact whose bytes are to be read; ``since`` its last check (its making counts as one)."""

    artifact: UUID
    size: int
    files: list[dict[str, Any]]
    since: datetime


@dataclass(frozen=True, slots=True)
class Overdue:
    """So many artifacts of so many bytes in all were checked last before a time, the first of them at ``oldest``."""

    count: int
    bytes: int
    oldest: datetime | None


def due(before: datetime, limit: int) -> list[Due]:
    """The artifacts, none of them deleted, that were checked last before then, the longest unchecked first."""
    return _read(_overdue(before).order_by("since", "pk")[:limit])


def of(artifacts: Iterable[UUID]) -> list[Due]:
    """Those artifacts, due or not."""
    return _read(_dated(Artifact.objects.filter(pk__in=list(artifacts))).order_by("since", "pk"))


def there(artifacts: Iterable[UUID]) -> set[UUID]:
    """Those of them that are artifacts and not deleted."""
    return set(_there().filter(pk__in=list(artifacts)).values_list("pk", flat=True))


def overdue(before: datetime) -> Overdue:
    """How much was checked last before then."""
    found = _overdue(before).aggregate(bytes=Sum("size"), oldest=Min("since"))
    return Overdue(_overdue(before).count(), found["bytes"] or 0, found["oldest"])


def _overdue(before: datetime) -> QuerySet[Any]:
    return _dated(_there()).filter(since__lt=before)


def _dated(rows: QuerySet[Artifact]) -> QuerySet[Any]:
    return rows.annotate(since=Coalesce("verified_at", "created_at"))


def _read(rows: QuerySet[Any]) -> list[Due]:
    return [Due(*row) for row in rows.values_list("pk", "size", "files", "since")]


def _there() -> QuerySet[Artifact]:
    return Artifact.objects.filter(deleted_at__isnull=True)


def read_since(digests: Collection[str], before: datetime) -> set[str]:
    """Those of the blobs that were read to their end at that time or later, and were sound."""
    found: set[str] = set()
    names = sorted(digests)
    for first in range(0, len(names), AT_ONCE):
        rows = BlobCheck.objects.filter(sha256__in=names[first : first + AT_ONCE], at__gte=before, sound=True)
        found |= set(rows.values_list("sha256", flat=True))
    return found


def unsound(digests: Iterable[str]) -> set[str]:
    """Those of the blobs that were damaged or missing when they were last read."""
    return set(BlobCheck.objects.filter(sound=False).values_list("sha256", flat=True)) & set(digests)


def begun(sha256: str, now: datetime | None) -> None:
    """The blob is being read from now on; None: it is not any more, and was not read to its end."""
    BlobCheck.objects.update_or_create(sha256=sha256, defaults={"begun_at": now})


def unfinished(since: datetime) -> set[str]:
    """The blobs that began to be read after then, and were not read to their end."""
    rows = BlobCheck.objects.filter(Q(at__isnull=True) | Q(at__lt=F("begun_at")), begun_at__gte=since)
    return set(rows.values_list("sha256", flat=True))


def sound(digests: Collection[str], now: datetime) -> None:
    """The blobs were read to their end and are what they should be; they had not been found damaged."""
    rows = [BlobCheck(sha256=sha, at=now, sound=True) for sha in sorted(digests)]
    BlobCheck.objects.bulk_create(
        rows, batch_size=AT_ONCE, update_conflicts=True, unique_fields=["sha256"], update_fields=["at", "sound"]
    )


@transaction.atomic
def turned(sha256: str, *, sound: bool, now: datetime) -> None:
    """The blob is damaged or missing, or it was and is sound again: that is known of every artifact that has it."""
    BlobCheck.objects.update_or_create(sha256=sha256, defaults={"at": now, "sound": sound})
    _mark(_there().filter(files__icontains=sha256), now)


def stored_anew(digests: Iterable[str], now: datetime) -> None:
    """These blobs, which were damaged or missing, have been stored once more."""
    for sha256 in sorted(digests):
        turned(sha256, sound=True, now=now)


@transaction.atomic
def checked(artifact_id: UUID, now: datetime) -> bool:
    """All bytes of the artifact have been read; whether some are damaged or missing."""
    Artifact.objects.filter(pk=artifact_id).update(verified_at=now)
    _mark(Artifact.objects.filter(pk=artifact_id), now)
    return Artifact.objects.filter(pk=artifact_id, corrupt=True).exists()


def _mark(rows: QuerySet[Artifact], now: datetime) -> None:
    notes = []
    for row in rows.select_related("project"):
        bad = unsound([f["sha256"] for f in row.files])
        if bool(bad) == row.corrupt:
            continue
        Artifact.objects.filter(pk=row.pk).update(corrupt=bool(bad))
        names = [f["path"] for f in row.files if f["sha256"] in bad]
        words = f"the stored bytes of {_named(names)} do not match their sha256, or are missing" if bad else MATCH_AGAIN
        notes.append(
            journal.Note("artifact_corrupt" if bad else "artifact_mended", "artifact", str(row.pk), message=words,
                         project=row.project.name, data={"digest": row.digest, "files": len(bad)})
        )  # fmt: skip
    journal.write(notes, now)


def _named(paths: list[str]) -> str:
    return repr(paths[0]) if len(paths) == 1 else f"{len(paths)} files ({paths[0]!r}, ...)"


def corrupt() -> int:
    """How many artifacts that are not deleted are known to be damaged."""
    return _there().filter(corrupt=True).count()


def forget(digests: Collection[str]) -> None:
    """These blobs are not stored any more."""
    names = sorted(digests)
    for first in range(0, len(names), AT_ONCE):
        BlobCheck.objects.filter(sha256__in=names[first : first + AT_ONCE]).delete()
