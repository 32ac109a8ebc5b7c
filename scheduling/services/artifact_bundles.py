"""Many small files in one request, in and out: each by its own sha256, in the same uploads and blobs as others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.services import artifact_files as bytes_on_disk
from scheduling.services.artifacts import Owner, Refusal, open_upload
from workers.bundles import MAX_BYTES, MAX_FILES, BadBundle, arrived, head, sha256_of
from workers.protocol import FileEntry


def receive(owner: Owner, upload_id: str, content: bytes) -> dict[str, Any] | Refusal:
    """The whole files of the bundle are here, each hashed and compared: ``{received: how many}``.

    A refused bundle leaves nothing, but what of it had room on a full disk; one that comes twice has one effect.
    """
    upload = open_upload(owner, upload_id)
    if isinstance(upload, Refusal):
        return upload
    try:
        files, pieces = arrived(content)
    except BadBundle as wrong:
        return Refusal(422, "bad_bundle", str(wrong), "body")
    if len(pieces) < len(files):
        missing = files[len(pieces)]["path"]
        return Refusal(422, "bad_bundle", f"the bytes of {missing!r} are not all there: send the bundle again", "body")
    announced = {f["path"]: (n, f) for n, f in enumerate(upload.files)}
    for file, piece in zip(files, pieces, strict=True):
        if file["path"] not in announced:
            return Refusal(404, "no_such_file", f"{file['path'][:100]!r} was not announced")
        unlike = _unlike(file, announced[file["path"]][1], sha256_of(piece))
        if unlike is not None:
            return unlike
    try:
        bytes_on_disk.keep_whole(
            upload.pk, {announced[f["path"]][0]: piece for f, piece in zip(files, pieces, strict=True)}
        )
    except bytes_on_disk.NoSpace as full:
        return Refusal(507, "no_space", f"{full}; free space or ask an admin, then send the bundle again")
    return {"received": len(files)}


def _unlike(file: FileEntry, announced: FileEntry, found: str) -> Refusal | None:
    """What tells the file, or its bytes' sha256 ``found``, from the one that was announced; None for nothing."""
    path = file["path"]
    if file["size"] != announced["size"]:
        message = f"{path!r} has {file['size']} bytes, it was announced with {announced['size']}"
        return Refusal(422, "bad_size", message, path)
    wanted = announced["sha256"] or file["sha256"]
    if found != wanted or file["sha256"] != wanted:
        told = found if found != wanted else file["sha256"]
        message = f"{path!r} has sha256 {told}, not {wanted}: nothing of the bundle was kept, send it again"
        return Refusal(422, "sha256_mismatch", message, path, {"sha256": found})
    return None


def send(files: Sequence[Mapping[str, Any]], paths: Any) -> bytes | Refusal:
    """The bundle of those files of an artifact, in the order of ``paths``, which a node has asked for."""
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        return Refusal(422, "required", "paths must list at least one file of the artifact", "paths")
    if len(paths) > MAX_FILES:
        message = f"{len(paths)} files in one bundle; the limit is {MAX_FILES}: ask for the rest in another"
        return Refusal(422, "too_many_files", message, "paths")
    known: dict[str, Any] = {f["path"]: f for f in files}
    absent = next((path for path in paths if path not in known), None)
    if absent is not None:
        return Refusal(404, "no_such_file", f"the artifact has no file {absent[:100]!r}", "paths")
    wanted = [known[path] for path in dict.fromkeys(paths)]
    total = sum(f["size"] for f in wanted)
    if total > MAX_BYTES:
        message = f"{total} bytes of files in one bundle; the limit is {MAX_BYTES}: ask for the rest in another"
        return Refusal(413, "too_large", message, "paths")
    pieces = []
    for file in wanted:
        try:
            with bytes_on_disk.open_blob(file["sha256"]) as blob:
                pieces.append(blob.read())
        except FileNotFoundError:
            message = f"the stored bytes of {file['path']!r} are missing; tell an admin"
            return Refusal(500, "bytes_missing", message, file["path"])
        if len(pieces[-1]) != file["size"]:
            message = f"the stored bytes of {file['path']!r} are damaged; tell an admin"
            return Refusal(500, "bytes_missing", message, file["path"])
    return head(wanted) + b"".join(pieces)
