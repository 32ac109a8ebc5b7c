"""What lies where an operator points: one file, a directory, or a snapshot in Hugging Face's cache? Nothing is read of
the files themselves."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.protocol import UnsafePath, check_path, clashes

TOLD = 5
# Directories, by their path from the top, that no model or data set needs: tools keep their own things there.
NOT_TAKEN = (".git", ".cache/huggingface")
_REPOSITORY = re.compile(r"(models|datasets|spaces)--([^/]+)")


class NotImportable(Exception):
    """What is there can't become an artifact; the message says why, of each file, and what to do."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file: its ``path`` in the artifact, the regular file ``at`` that has its bytes, as it was when it was seen.

    ``blob`` is the name under which Hugging Face's cache keeps it, which is a hash of its bytes; "" elsewhere.
    """

    path: str
    at: Path
    size: int
    changed_ns: int
    blob: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What would become an artifact: how it would be called, of what ``kind``, with what on record (``meta``), from
    which files, and which directories are ``left_out`` of it."""

    name: str
    kind: str
    meta: Mapping[str, Any]
    items: tuple[Item, ...]
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(item.size for item in self.items)


@dataclass(slots=True)
class _Found:
    items: list[Item] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def look(place: Path) -> Source:
    """What is at ``place``. NotImportable names every file that can't be taken."""
    try:
        real = place.resolve(strict=True)
    except (OSError, RuntimeError) as absent:
        raise NotImportable(f"there is nothing at {place}: name a directory or a file") from absent
    if real.is_file():
        return _file(real)
    if not real.is_dir():
        raise NotImportable(f"{place} is neither a directory nor a file")
    snapshot = _snapshot(real)
    if snapshot is None:
        return _directory(real)
    return _of_hugging_face(snapshot)


def _file(real: Path) -> Source:
    found = _Found()
    _take(found, real.name, real)
    return _source(found, real.name, "model", {"imported_from": "a file"}, real)


def _directory(top: Path) -> Source:
    found = _Found()
    for path, at in _files(top, found):
        target = at if not at.is_symlink() else _inside(at, path, top, found, "the directory")
        if target is not None:
            _take(found, path, target)
    return _source(found, top.name, "model", {"imported_from": "a directory"}, top)


def _snapshot(real: Path) -> Path | None:
    """The snapshot of Hugging Face's cache that is meant: this one, or that of the repository's directory."""
    if real.parent.name == "snapshots" and _REPOSITORY.fullmatch(real.parent.parent.name):
        return real
    if not _REPOSITORY.fullmatch(real.name) or not (real / "snapshots").is_dir():
        return None
    there = sorted(each for each in (real / "snapshots").iterdir() if each.is_dir())
    main = real / "refs" / "main"
    wanted = real / "snapshots" / main.read_text().strip() if main.is_file() else None
    if wanted is not None and wanted in there:
        return wanted
    if len(there) == 1:
        return there[0]
    if not there:
        raise NotImportable(f"{real} has no snapshot: download one")
    names = ", ".join(each.name for each in there[:TOLD])
    raise NotImportable(f"{real} has {len(there)} snapshots ({names}): name the directory of one, snapshots/REVISION")


def _of_hugging_face(snapshot: Path) -> Source:
    """The snapshot's files, most of which are links into its repository's ``blobs``."""
    repository = snapshot.parent.parent
    matched = _REPOSITORY.fullmatch(repository.name)
    assert matched is not None  # noqa: S101  _snapshot has seen to it
    sort, name = matched[1], matched[2].replace("--", "/")
    blobs, found = repository / "blobs", _Found()
    for path, at in _files(snapshot, found):
        if not at.is_symlink():
            _take(found, path, at)
            continue
        target = _inside(at, path, blobs, found, "the snapshot's own cache")
        if target is not None:
            _take(found, path, target, blob=target.name)
    unfinished = sorted(each.name for each in blobs.glob("*.incomplete"))
    if unfinished:
        found.wrong.append(
            f"a download into it was not finished (blobs/{unfinished[0]}): finish it, or remove that file if it is of "
            "another revision"
        )
    meta = {"imported_from": "a Hugging Face snapshot", "repository": name, "revision": snapshot.name}
    return _source(found, name.rsplit("/", 1)[-1], "dataset" if sort == "datasets" else "model", meta, snapshot)


def _files(top: Path, found: _Found) -> Iterator[tuple[str, Path]]:
    """(path from the top, file or link to one) of everything below; what is neither is told in ``found``."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError as refused:
            found.wrong.append(f"{_named(folder.relative_to(top))} can't be read ({refused.strerror})")
            continue
        for entry in entries:
            at = Path(entry.path)
            path = at.relative_to(top).as_posix()
            if entry.is_dir(follow_symlinks=False):
                if path in NOT_TAKEN:
                    found.left_out.append(path)
                else:
                    waiting.append(at)
            elif entry.is_symlink() and at.is_dir():
                found.wrong.append(f"{_named(path)} is a link to a directory: put the directory itself there")
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                yield path, at
            else:
                found.wrong.append(f"{_named(path)} is neither a file nor a directory")


def _inside(link: Path, path: str, room: Path, found: _Found, called: str) -> Path | None:
    """The file that the link means, if that lies in ``room``."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        found.wrong.append(f"{_named(path)} is a link to nothing ({link.readlink()}): it may not be all there")
        return None
    if not target.is_relative_to(room):
        found.wrong.append(f"{_named(path)} is a link to {target}, outside {called}: put the file itself there")
        return None
    return target


def _take(found: _Found, path: str, at: Path, *, blob: str = "") -> None:
    try:
        check_path(path)
        seen = at.stat()
    except UnsafePath as unsafe:
        found.wrong.append(f"{unsafe}: rename it")
        return
    except OSError as refused:
        found.wrong.append(f"{_named(path)} can't be read ({refused.strerror})")
        return
    if not stat.S_ISREG(seen.st_mode):
        found.wrong.append(f"{_named(path)} is not a regular file")
    elif not os.access(at, os.R_OK):
        found.wrong.append(f"{_named(path)} can't be read (Permission denied)")
    else:
        found.items.append(Item(path, at, seen.st_size, seen.st_mtime_ns, blob))


def _source(found: _Found, name: str, kind: str, meta: Mapping[str, Any], place: Path) -> Source:
    found.wrong += clashes(item.path for item in found.items)
    if not found.items and not found.wrong:
        found.wrong.append(f"{place} has no files")
    if found.wrong:
        more = f"; and {len(found.wrong) - TOLD} more" if len(found.wrong) > TOLD else ""
        raise NotImportable("; ".join(found.wrong[:TOLD]) + more)
    items = tuple(sorted(found.items, key=lambda item: item.path))
    return Source(name, kind, meta, items, tuple(sorted(found.left_out)))


def _named(path: object) -> str:
    return repr(str(path)[:200])
