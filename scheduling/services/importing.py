"""Files that lie on the server become an artifact: streamed, hashed, all or nothing; cut off, it goes on."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from django.conf import settings

from scheduling.services import artifact_files as bytes_on_disk
from scheduling.services import artifacts
from scheduling.services.artifacts import Owner, Refusal
from scheduling.services.import_sources import Item, Source
from scheduling.store import artifact_rows as rows
from scheduling.store import transfers
from scheduling.store.queries import access
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries.access import Actor
from workers.protocol import FileEntry, manifest_digest

WHAT = "importing"
# An upload that is a day old counts as given up; one of an import that is still at work says so at least this often.
STILL_AT_WORK = timedelta(hours=1)
_SHA256, _GIT = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the artifact is to be: its project, name and kind, and whether the store may take the files themselves as
    its own by hard links (``link``) instead of copies."""

    project: str
    name: str
    kind: str
    link: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """So far an import is."""

    files: int
    of_files: int
    bytes: int
    of_bytes: int

    def in_words(self) -> str:
        """``importing: 1 of 3 files, 0.5 of 20.5 MB``."""
        return transfers.in_words({"what": WHAT, "files": self.files, "of_files": self.of_files,
                                   "bytes": self.bytes, "of_bytes": self.of_bytes})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Imported:
    """The artifact in the shape of the REST contract; ``fresh``: it was not there before, as the same bytes in the
    same project are the same artifact; ``went_on`` with so many bytes of an import that was cut off before."""

    artifact: dict[str, Any]
    fresh: bool
    went_on: int


Told = Callable[[Progress], None]


def owner(username: str) -> Actor | str:
    """Whose the artifact will be: the person of that name, for "" the first admin; or, in words, why it is nobody's."""
    user_id = access.user_id_of(username) if username else access.first_admin()
    actor = access.actor_by_id(user_id) if user_id is not None else None
    if actor is not None:
        return actor
    if username:
        return f"there is no active user {username!r}: name one with --user"
    return "there is no active admin whose it would be: name somebody with --user"


def run(source: Source, wanted: Wanted, actor: Actor, clock: Callable[[], datetime], told: Told) -> Imported | Refusal:
    """The files are an artifact of the project. What is refused leaves nothing; what is killed is not there, and the
    same import started again goes on where it was."""
    refused = _cant_begin(source, wanted, actor)
    if refused is not None:
        return refused
    upload = _upload(source, wanted, actor, clock())
    if isinstance(upload, Refusal):
        return upload
    with bytes_on_disk.alone_with(upload) as alone:
        if not alone or not rows.is_open(upload):
            return Refusal(409, "under_way", "the same is being imported just now: wait for that, or end it")
        here = bytes_on_disk.part_sizes(upload)
        if not wanted.link and (full := _no_room(source.size - sum(here.values()))) is not None:
            return _given_up(upload, full)
        work = _Work(upload, source, wanted, clock, told)
        done = work.committed(Owner(actor=actor))
        if isinstance(done, Refusal):
            return _given_up(upload, done)
    row = queries.one(actor, done["artifact"])
    if row is None:
        raise AssertionError("an artifact just imported can't be seen by its owner")
    return Imported(queries.as_dict(row), work.fresh, sum(here.values()))


def _cant_begin(source: Source, wanted: Wanted, actor: Actor) -> Refusal | None:
    """Why this process must not store these for the actor; None when it may."""
    if not queries.is_project(wanted.project):
        return Refusal(422, "unknown_project", f"there is no project {wanted.project!r}: name one that is there")
    if not actor.sees(wanted.project):
        words = f"{actor.username} is not in project {wanted.project}: name somebody who is with --user"
        return Refusal(403, "not_a_member", words)
    folder = bytes_on_disk.made()
    if os.geteuid() == 0 and (theirs := _owner(folder)) != 0:
        words = f"{folder} belongs to user {theirs}, whose server could not write beside what root stores"
        return Refusal(403, "wrong_user", f"{words}: run this as that user")
    if wanted.link and not bytes_on_disk.is_local():
        words = f"bytes are kept in the {bytes_on_disk.words().place}, which takes no links"
        return Refusal(422, "cant_link", f"{words}: leave --link out to copy them")
    me = os.geteuid()
    if wanted.link and me != 0:
        other = next((item for item in source.items if _owner(item.at) != me), None)
        if other is not None:
            return Refusal(403, "not_yours", f"{other.path!r} belongs to somebody else: leave --link out to copy it")
    return None


def _owner(path: Path) -> int:
    return path.stat().st_uid


def _upload(source: Source, wanted: Wanted, actor: Actor, now: datetime) -> UUID | Refusal:
    """The upload of just this that was begun and cut off, else a new one."""
    files = [{"path": item.path, "size": item.size, "sha256": ""} for item in source.items]
    about: dict[str, Any] = {"name": wanted.name.strip(), "kind": wanted.kind, "meta": dict(source.meta)}
    begun = rows.begun_by_user(actor.user_id, wanted.project, files=files, **about)
    if begun is not None:
        rows.still_coming(begun, now)
        return begun
    opened = artifacts.begin(Owner(actor=actor), {**about, "project": wanted.project, "files": files}, now)
    return opened if isinstance(opened, Refusal) else UUID(opened["upload"])


def _no_room(more: int) -> Refusal | None:
    free = bytes_on_disk.room()
    if more <= free:
        return None
    words = f"{more} bytes are to be copied and {max(free, 0)} have room in {settings.ARTIFACT_DIR}"
    return Refusal(507, "no_space", f"{words}: free some{_or_link()}")


def _or_link() -> str:
    return ", or take the files themselves by --link" if bytes_on_disk.is_local() else ""


def _given_up(upload: UUID, why: Refusal) -> Refusal:
    rows.give_up(upload)
    bytes_on_disk.forget(upload)
    return why


class _Work:
    """The files of one import on their way."""

    def __init__(self, upload: UUID, source: Source, wanted: Wanted, clock: Callable[[], datetime], told: Told) -> None:
        self._upload, self._source, self._wanted, self._told = upload, source, wanted, told
        self._clock, self._said_at = clock, clock()
        self._files = self._bytes = 0
        self.fresh = True

    def committed(self, owner: Owner) -> dict[str, Any] | Refusal:
        """The artifact of all the files; a file of which another state had been stored before is stored anew, once."""
        digests: dict[str, str] = {}
        for number in range(len(self._source.items)):
            found = self._stored(number)
            if isinstance(found, Refusal):
                return found
            digests[self._source.items[number].path] = found
        numbers = {item.path: number for number, item in enumerate(self._source.items)}
        again: set[str] = set()
        while True:
            files: list[FileEntry] = [
                {"path": item.path, "size": item.size, "sha256": digests[item.path]} for item in self._source.items
            ]
            self.fresh = not queries.is_there(self._wanted.project, manifest_digest(files))
            done = artifacts.commit(owner, str(self._upload), {"sha256": digests}, self._clock())
            if not isinstance(done, Refusal) or done.code != "sha256_mismatch" or done.field in again:
                return done
            again.add(done.field)
            self._files -= 1
            self._bytes -= self._source.items[numbers[done.field]].size
            found = self._stored(numbers[done.field])
            if isinstance(found, Refusal):
                return found
            digests[done.field] = found

    def _stored(self, number: int) -> str | Refusal:
        """The sha256 of the file, whose bytes are all with the upload."""
        item = self._source.items[number]
        try:
            found, git = self._linked(number, item) if self._wanted.link else self._copied(number, item)
        except bytes_on_disk.NoSpace as full:
            return Refusal(507, "no_space", f"{full}: free some space{_or_link()}")
        except (ValueError, _Changed):
            words = f"{item.path!r} changed while it was read: begin again when nothing writes to it any more"
            return Refusal(409, "changed", words, item.path)
        except OSError as refused:
            if self._wanted.link and refused.errno in (errno.EXDEV, errno.EPERM, errno.EMLINK):
                words = f"{item.path!r} can't be linked into {settings.ARTIFACT_DIR} ({refused.strerror})"
                return Refusal(422, "cant_link", f"{words}: leave --link out to copy it", item.path)
            words = f"{item.path!r} could not be taken ({refused.strerror}: {refused.filename})"
            return Refusal(422, "cant_read", words, item.path)
        if (_SHA256.fullmatch(item.blob) and item.blob != found) or (git and item.blob != git):
            words = f"{item.path!r} is damaged: the cache keeps it as {item.blob}, which its bytes are not"
            return Refusal(422, "damaged_cache", f"{words}: download it again", item.path)
        self._files += 1
        self._tell(0)
        return found

    def _copied(self, number: int, item: Item) -> tuple[str, str]:
        here = bytes_on_disk.part_size(self._upload, number)
        with item.at.open("rb") as file:
            read = _Reader(file, item)
            for piece in read.pieces(here):
                self._tell(len(piece))
            if here < item.size or not item.size:
                pieces = self._telling(read.pieces(item.size + 1 - here))
                bytes_on_disk.append(self._upload, number, here, pieces, item.size)
            read.check_unchanged()
        return read.digests()

    def _linked(self, number: int, item: Item) -> tuple[str, str]:
        with bytes_on_disk.linked(self._upload, number, item.at).open("rb") as file:
            read = _Reader(file, item)
            for piece in read.pieces(item.size + 1):
                self._tell(len(piece))
            read.check_unchanged()
        return read.digests()

    def _telling(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self._tell(len(piece))

    def _tell(self, more: int) -> None:
        self._bytes += more
        now = self._clock()
        if now - self._said_at >= STILL_AT_WORK:
            self._said_at = now
            rows.still_coming(self._upload, now)
        self._told(Progress(self._files, len(self._source.items), self._bytes, self._source.size))


class _Changed(Exception):
    """The file is not what it was when it was seen."""


class _Reader:
    """A file that is read to its end once, and hashed meanwhile."""

    def __init__(self, file: BinaryIO, item: Item) -> None:
        self._file, self._item = file, item
        self._sha256 = hashlib.sha256()
        self._git = hashlib.sha1(b"blob %d\0" % item.size, usedforsecurity=False) if _GIT.fullmatch(item.blob) else None
        self._read = 0

    def pieces(self, most: int) -> Iterator[bytes]:
        """The next ``most`` bytes, or as many as there are."""
        while most and (piece := self._file.read(min(bytes_on_disk.CHUNK, most))):
            self._sha256.update(piece)
            if self._git is not None:
                self._git.update(piece)
            self._read += len(piece)
            most -= len(piece)
            yield piece

    def check_unchanged(self) -> None:
        """Raises :class:`_Changed` unless just what was seen of it has been read."""
        now = os.fstat(self._file.fileno())
        if (self._read, now.st_size, now.st_mtime_ns) != (self._item.size, self._item.size, self._item.changed_ns):
            raise _Changed

    def digests(self) -> tuple[str, str]:
        """Its sha256, and git's name for a blob of it where that is asked for."""
        return self._sha256.hexdigest(), self._git.hexdigest() if self._git is not None else ""
