"""The store is gone through: what is nobody's for a day is removed, and everything else stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.conf import settings

from scheduling.services import artifact_files as bytes_on_disk
from scheduling.store import blobs, retention
from scheduling.store.commit import deleting

ACTOR = "retention"


class ForeignStore(Exception):
    """The artifact store is another database's: what that one needs can't be known here."""


@dataclass(frozen=True, slots=True)
class Some:
    """So many things of so many bytes in all."""

    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What going through the store did, or with ``dry_run`` would do.

    ``expired``: artifacts whose time was over and which count as deleted now. ``removed``: blobs that nobody needs for
    longer than ``grace_s``. ``waiting``: blobs that nobody needs, for less. ``kept``: the others. ``busy``: somebody
    was storing, so no blob was removed; it is tried again the next time.
    """

    dry_run: bool
    grace_s: int
    expired: Some
    removed: Some
    waiting: Some
    kept: Some
    busy: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


def keep() -> retention.Keep:
    """For how long what is kept, as the settings say."""
    return retention.Keep(
        after_success=timedelta(hours=settings.CHECKPOINT_HOURS_AFTER_SUCCESS),
        after_failure=timedelta(hours=settings.CHECKPOINT_HOURS_AFTER_FAILURE),
        unpublished=timedelta(hours=settings.UNPUBLISHED_HOURS),
    )


def collect(now: datetime, *, dry_run: bool = False) -> Report:
    """Artifacts whose time is over count as deleted; blobs that nobody needs for longer than the grace are removed.

    Two passes at least see a blob unneeded, a grace apart, before it goes. Nothing is removed while an upload is being
    committed or an artifact restored: those rely on blobs that they have seen. ForeignStore when the store belongs
    to another database.
    """
    refuse_foreign()
    grace = timedelta(hours=settings.COLLECTION_GRACE_HOURS)
    expired = retention.over(keep(), now)
    if dry_run:
        count, size = deleting.would_delete(expired)
        return _gone_through(now, grace, Some(count, size), dry_run=True)
    count, size = deleting.delete_many(expired, now=now, actor=ACTOR)
    with bytes_on_disk.collecting() as alone:
        if not alone:
            nothing = Some()
            return Report(False, int(grace.total_seconds()), Some(count, size), nothing, nothing, nothing, busy=True)
        return _gone_through(now, grace, Some(count, size), dry_run=False)


def refuse_foreign() -> None:
    """Store and database know each other by a name that both keep from the first time on. ForeignStore when they
    don't, or when nothing is in the store of what the database has stored."""
    theirs, ours, words = bytes_on_disk.store_name(), blobs.store_name(), bytes_on_disk.words()
    if theirs is None and ours and blobs.has_artifacts() and not bytes_on_disk.blobs():
        raise ForeignStore(
            f"the {words.place} has nothing of what this database has stored: {words.question} If it is lost for good, "
            f"write {ours} into {words.name_kept_in}"
        )
    if theirs is None and (ours or blobs.has_artifacts() or not bytes_on_disk.blobs()):
        ours = ours or str(uuid4())
        bytes_on_disk.name_store(ours)
        blobs.name_store(ours)
    elif theirs is None or theirs != ours:
        raise ForeignStore(
            f"the {words.place} belongs to another database: nothing was deleted or removed. "
            f"Give each database {words.one_each}"
        )


def _gone_through(now: datetime, grace: timedelta, expired: Some, *, dry_run: bool) -> Report:
    stored = bytes_on_disk.blobs()  # before what is needed is read: what comes after this is not in it
    needed, since = blobs.needed(), blobs.unused_since()
    unused = {sha: size for sha, size in stored.items() if sha not in needed}
    ripe = {sha: size for sha, size in unused.items() if since.get(sha, now) <= now - grace}
    if not dry_run:
        blobs.note_unused(unused, now)
        bytes_on_disk.remove_blobs(ripe)
        blobs.gone(ripe, now)
    waiting = {sha: size for sha, size in unused.items() if sha not in ripe}
    kept = {sha: size for sha, size in stored.items() if sha in needed}
    return Report(dry_run, int(grace.total_seconds()), expired, _some(ripe), _some(waiting), _some(kept))


def _some(sizes: Mapping[str, int]) -> Some:
    return Some(len(sizes), sum(sizes.values()))
