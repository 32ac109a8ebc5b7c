"""Many small files in one message: a line of JSON that names them, then their bytes one after the other.

Agent and server read and write it; standard library only. A request for each of thousands of files costs far more than
their bytes do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from workers.protocol import FileEntry, UnsafePath, check_path

# A file up to this size travels with others; a larger one has a request of its own, and goes on where it was cut.
SMALL_BYTES = 256 * 1024
# One bundle: so many bytes of files, so many files, and so long a line before them.
MAX_BYTES = 4 * 2**20
MAX_FILES = 500
MAX_HEAD = 2**20

T = TypeVar("T")


class BadBundle(ValueError):
    """A message that is no bundle, or is beyond the limits of one."""


def grouped(files: Iterable[T], size_of: Any) -> Iterator[list[T]]:
    """The files in their order, in groups that each make one bundle; ``size_of(file)`` in bytes."""
    group: list[T] = []
    room = MAX_BYTES
    for file in files:
        size = int(size_of(file))
        if group and (size > room or len(group) == MAX_FILES):
            yield group
            group, room = [], MAX_BYTES
        group.append(file)
        room -= size
    if group:
        yield group


def head(files: Sequence[FileEntry]) -> bytes:
    """The line that begins a bundle of these files."""
    rows = [{"path": f["path"], "size": f["size"], "sha256": f["sha256"]} for f in files]
    return json.dumps(rows, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def read_head(line: bytes) -> list[FileEntry]:
    """The files that a bundle's first line names. :class:`BadBundle` says what is wrong with it."""
    try:
        rows = json.loads(line)
    except (ValueError, RecursionError) as wrong:
        raise BadBundle("a bundle begins with a line of JSON: [{path, size, sha256}, ...]") from wrong
    if not isinstance(rows, list) or not rows:
        raise BadBundle("a bundle names at least one file")
    if len(rows) > MAX_FILES:
        raise BadBundle(f"{len(rows)} files in one bundle; the limit is {MAX_FILES}: send the rest in another")
    files = [_entry(row) for row in rows]
    total = sum(f["size"] for f in files)
    if total > MAX_BYTES:
        raise BadBundle(f"{total} bytes of files in one bundle; the limit is {MAX_BYTES}: send the rest in another")
    if len({f["path"] for f in files}) != len(files):
        raise BadBundle("a bundle names each file once")
    return files


def _entry(row: Any) -> FileEntry:
    if not isinstance(row, dict):
        raise BadBundle("each file of a bundle is {path, size, sha256}")
    size, sha256 = row.get("size"), row.get("sha256")
    try:
        path = check_path(row.get("path", ""))
    except UnsafePath as unsafe:
        raise BadBundle(str(unsafe)) from unsafe
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise BadBundle(f"size of {path!r} must be a whole number of bytes")
    if not isinstance(sha256, str) or len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise BadBundle(f"sha256 of {path!r} must be 64 hex digits")
    return {"path": path, "size": size, "sha256": sha256}


def arrived(content: bytes) -> tuple[list[FileEntry], list[bytes]]:
    """The files that the bundle names, and the bytes of the first of them: of all that have come as a whole.

    A bundle that was cut off has fewer bytes than files; bytes beyond the last file are :class:`BadBundle`.
    """
    end = content.find(b"\n", 0, MAX_HEAD + 1)
    if end < 0:
        raise BadBundle(f"the line that begins a bundle is not at its end after {MAX_HEAD} bytes")
    files = read_head(content[:end])
    at = end + 1
    pieces: list[bytes] = []
    for file in files:
        if at + file["size"] > len(content):
            return files, pieces
        pieces.append(content[at : at + file["size"]])
        at += file["size"]
    if at < len(content):
        raise BadBundle(f"{len(content) - at} bytes follow after the last file of the bundle")
    return files, pieces


def sha256_of(piece: bytes) -> str:
    """The sha256 of the bytes in hex."""
    return hashlib.sha256(piece).hexdigest()
