"""Are stored bytes still what they were? Read again at a rate, within a period; damaged ones are told, and kept."""

from __future__ import annotations

import errno
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from scheduling.services import artifact_files as bytes_on_disk
from scheduling.services import collection
from scheduling.store import checks
from scheduling.store.checks import Due
from scheduling.store.checks import Overdue as Overdue  # the command tells of it

MB = 1_000_000
# The chore begins files for so long at a time. One that it has begun it reads to its end, in at most so long.
WORKS_S = 20.0
LONGEST_S = 600.0
# A file as large as this is known to be sound once it was read; smaller ones with all the others of their artifact.
LARGE = 1000 * MB
# What could not be read to its end (its process was ended) is left alone so long: others are due too.
AGAIN = timedelta(days=1)
BATCH = 100

Clock = Callable[[], datetime]


class Pace:
    """Reading no faster than ``rate`` bytes a second; None: as fast as the store gives."""

    def __init__(
        self,
        rate: float | None,
        seconds: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._seconds, self._wait = seconds, wait
        self._begun, self._earned = seconds(), 0.0

    def took(self, count: int, *, most_s: float) -> None:
        """Another ``count`` bytes were read, for which there are ``most_s`` seconds; returns when to go on. What was
        not read in a pause can't be caught up with."""
        if self.rate is not None:
            self._earned = max(self._earned, self.spent_s()) + min(count / self.rate, most_s)
            if (ahead := self._earned - self.spent_s()) > 0:
                self._wait(ahead)

    def spent_s(self) -> float:
        """Seconds since it began."""
        return self._seconds() - self._begun


@dataclass(slots=True)
class Report:
    """What reading the store came to: ``checked`` artifacts of which all bytes have been read, ``corrupt`` of them
    damaged; ``read`` blobs of ``bytes`` bytes for that; ``left``: files that were begun within a day and not read to
    their end; ``busy``: somebody else is at it, so nothing was read."""

    checked: int = 0
    corrupt: int = 0
    read: int = 0
    bytes: int = 0
    left: int = 0
    busy: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


class _Stopped(Exception):
    """The process is to end, or the time is over."""


def before(now: datetime) -> datetime | None:
    """What was checked last before this is due; None where nothing is read by itself."""
    return now - timedelta(days=settings.VERIFY_DAYS) if settings.VERIFY_DAYS else None


def overdue(since: datetime) -> Overdue:
    """How much was checked last before then."""
    return checks.overdue(since)


def some(now: datetime, pace: Pace | None = None, stopping: Callable[[], bool] = lambda: False) -> Report:
    """For a while what is due is read, at the rate of the settings; ``stopping``: the process is to end.

    What has been read of an artifact counts the next time. ForeignStore when the directory is another's, or away.
    """
    since = before(now)
    if since is None:
        return Report()
    pace = pace or Pace(settings.VERIFY_MB_S * MB)
    work = _Reading(since, lambda: now + timedelta(seconds=pace.spent_s()), pace)
    work.chore, work.stopping = True, stopping
    return work.done(_due(since))


def all_due(since: datetime, now: Clock, pace: Pace, told: Callable[[Report], None] = lambda _: None) -> Report:
    """All that was checked last before then is read, however long it takes."""
    work = _Reading(since, now, pace)
    work.told = told
    return work.done(_due(since))


def these(artifacts: Iterable[UUID], now: Clock, pace: Pace, told: Callable[[Report], None] = lambda _: None) -> Report:
    """The artifacts are read to their last byte, whenever they were checked last."""
    work = _Reading(now(), now, pace)
    work.told = told
    return work.done(iter(checks.of(artifacts)))


def unknown(artifacts: Iterable[UUID]) -> list[UUID]:
    """Those that are no artifacts, or deleted ones, whose bytes may be gone."""
    asked = list(dict.fromkeys(artifacts))
    return [each for each in asked if each not in checks.there(asked)]


def damaged(artifact: UUID, now: datetime) -> None:
    """All bytes of the artifact are read now; if they are not what they were, that is known."""
    work = _Reading(now, lambda: now, Pace(None))
    for each in checks.of([artifact]):
        work.read(each)


def _due(since: datetime) -> Iterator[Due]:
    seen: set[UUID] = set()
    while batch := [each for each in checks.due(since, len(seen) + BATCH) if each.artifact not in seen]:
        seen |= {each.artifact for each in batch}
        yield from batch


class _Reading:
    """One run over some artifacts: every blob that was read last before ``since`` is read, once."""

    def __init__(self, since: datetime, now: Clock, pace: Pace) -> None:
        self._since, self._now, self._pace = since, now, pace
        self._sound: set[str] = set()
        self._left: set[str] = set()
        self.report = Report()
        self.told: Callable[[Report], None] = lambda _: None
        self.chore = False
        self.stopping: Callable[[], bool] = lambda: False

    def done(self, wanted: Iterator[Due]) -> Report:
        """The report of having read them, one after the other; nothing when somebody else does."""
        collection.refuse_foreign()
        with bytes_on_disk.verifying() as alone:
            if not alone:
                self.report.busy = True
                return self.report
            if self.chore:
                self._left = checks.unfinished(self._now() - AGAIN)
            try:
                for each in wanted:
                    self.read(each)
            except _Stopped:
                pass
        return self.report

    def read(self, due: Due) -> None:
        """All its bytes have been read, but for files that are left alone."""
        sizes = {f["sha256"]: f["size"] for f in due.files}
        known = checks.read_since(sizes, self._since) | (self._sound & sizes.keys())
        was_unsound, fresh, passed_over = checks.unsound(sizes), set[str](), 0
        try:
            for sha256, size in sizes.items():
                if sha256 in known:
                    continue
                if sha256 in self._left:
                    passed_over += 1
                    continue
                is_sound = self._is_sound(sha256, size)
                self.report.read += 1
                self.report.bytes += size
                if not is_sound or sha256 in was_unsound:
                    checks.turned(sha256, sound=is_sound, now=self._now())
                elif size >= LARGE:
                    checks.sound([sha256], self._now())
                else:
                    fresh.add(sha256)
                self.told(self.report)
        except _Stopped:
            checks.sound(fresh, self._now())
            raise
        self._sound |= fresh
        self.report.left += passed_over
        if passed_over:
            checks.sound(fresh, self._now())
            return
        self.report.corrupt += checks.checked(due.artifact, self._now())
        self.report.checked += 1

    def _is_sound(self, sha256: str, size: int) -> bool:
        """Whether the blob is there and its bytes are what its name says."""
        if self.chore and (self.stopping() or self._pace.spent_s() >= WORKS_S):
            raise _Stopped
        if bytes_on_disk.blob_size(sha256) != size:
            collection.refuse_foreign()  # a directory that is not mounted any more has lost nothing
            return False
        if self.chore and size >= LARGE:
            checks.begun(sha256, self._now())
        found = hashlib.sha256()
        try:
            with bytes_on_disk.open_blob(sha256) as file:
                while piece := file.read(bytes_on_disk.CHUNK):
                    found.update(piece)
                    if self.stopping():
                        checks.begun(sha256, None)
                        raise _Stopped
                    self._pace.took(len(piece), most_s=LONGEST_S * len(piece) / size)
        except OSError as refused:
            if refused.errno != errno.EIO:
                raise
            return False
        return found.hexdigest() == sha256
