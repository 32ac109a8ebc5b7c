"""Artifacts: resumable uploads by users and nodes, commits that check every byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from scheduling.core.fields import shown
from scheduling.services import artifact_files as bytes_on_disk
from scheduling.services import quota, torch_files, unsafe_files
from scheduling.services.blob_store import a_few_at_a_time
from scheduling.store import artifact_rows as rows
from scheduling.store import checks
from scheduling.store.commit.parts import live_part
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries.access import Actor
from workers.protocol import FileEntry, UnsafePath, check_path, clashes, manifest_digest

MAX_FILES = 10_000
TOLD = 5
KINDS = ("model", "checkpoint", "dataset", "eval", "output", "log")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why bytes or a manifest were refused: HTTP status, code, sentence, and facts such as the right offset."""

    status: int
    code: str
    message: str
    field: str = ""
    facts: Mapping[str, Any] | None = None


NO_UPLOAD = Refusal(404, "no_such_upload", "there is no such upload")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose upload it is: a user, or a node for one live attempt and epoch."""

    actor: Actor | None = None
    node: str = ""
    attempt: str = ""
    epoch: int = 0


def begin(owner: Owner, message: Mapping[str, Any], now: datetime) -> dict[str, Any] | Refusal:
    """An upload is open: ``{upload, have: {path: bytes}}``; a path at its full size needs no bytes (D35).

    An attempt that begins the same once more, having been cut off, goes on with what it had begun.
    """
    files, wrong = _entries(message.get("files"))
    name, kind = message.get("name"), message.get("kind", "model")
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 100 or not name.isprintable() or "/" in name:
        words = "an artifact's name is 1 to 100 printable characters without '/'"
        wrong.append(Refusal(422, "bad_name", words, "name"))
    if kind not in KINDS:
        wrong.append(Refusal(422, "unknown_kind", f"kind must be one of {', '.join(KINDS)}", "kind"))
    total = sum(f["size"] for f in files)
    if total > settings.MAX_ARTIFACT_BYTES:
        words = f"{total} bytes; the limit is {settings.MAX_ARTIFACT_BYTES}"
        wrong.append(Refusal(413, "too_large", words, "files"))
    if not isinstance(name, str) or wrong:
        return _together(wrong)
    meta = message.get("meta") if isinstance(message.get("meta"), Mapping) else {}
    if owner.actor is not None:
        if message.get("project") is None:
            return Refusal(422, "required", "project is missing: name the project the artifact belongs to", "project")
        project = message["project"]
        if not isinstance(project, str) or not owner.actor.sees(project) or not queries.is_project(project):
            return Refusal(422, "unknown_project", f"there is no project {shown(project)} among yours", "project")
        if (over := quota.over(project, total)) is not None:
            return Refusal(413, over["code"], over["message"], over["field"], {"limit": over["limit"]})
        made = rows.open_upload(project=project, user_id=owner.actor.user_id, name=name.strip(), kind=kind,
                                meta=dict(meta or {}), files=files, now=now)  # fmt: skip
    else:
        part = _fenced(owner)
        if part is None:
            return Refusal(409, "stale_epoch", "the attempt is not live at this epoch")
        about: dict[str, Any] = {"name": name.strip(), "kind": kind, "meta": dict(meta or {}), "files": files}
        made = rows.begun(part, **about) or rows.open_upload(attempt=part, now=now, **about)
    upload = queries.upload(str(made))
    sizes = {f["path"]: f["size"] for f in files}
    return {"upload": str(made), "have": {p: n for p, n in _have(upload).items() if n or not sizes[p]}}


def _have(upload: Any) -> dict[str, int]:
    """How many bytes of each of its files need not be sent any more."""
    known, parts = _known(upload, upload.files), bytes_on_disk.part_sizes(upload.pk)
    return {f["path"]: f["size"] if f["sha256"] in known else parts.get(n, 0) for n, f in enumerate(upload.files)}


def _known(upload: Any, files: Sequence[FileEntry]) -> set[str]:
    """The digests whose bytes need not be sent: on disk at their full size, not known to be damaged, and the upload's
    project has them.

    Bytes of other projects count as unknown: who can name a digest has not shown that they may read it.
    """
    mine = rows.project_has(upload.project_id, [f["sha256"] for f in files])
    mine -= checks.unsound(mine) if mine else set()
    here = bytes_on_disk.blob_sizes(mine)
    return {f["sha256"] for f in files if here.get(f["sha256"]) == f["size"]}


def _fenced(owner: Owner) -> Any:
    try:
        return live_part(UUID(owner.attempt), owner.epoch, owner.node)
    except ValueError:
        return None


def _together(found: Sequence[Refusal]) -> Refusal:
    """One refusal that tells of all of these, of ``TOLD`` in words, so that who mends them need not come back for each;
    status, code and field are the first one's."""
    words = list(dict.fromkeys(each.message for each in found))
    more = f"; and {len(words) - TOLD} more" if len(words) > TOLD else ""
    return replace(found[0], message="; ".join(words[:TOLD]) + more)


def _entries(given: Any) -> tuple[list[FileEntry], list[Refusal]]:
    """The announced files, and what is wrong with them; sizes are exact, a sha256 may follow at the commit."""
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        return [], [Refusal(422, "required", "files must list at least one {path, size, sha256}", "files")]
    if len(given) > MAX_FILES:
        words = f"it has {len(given)} files; the limit is {MAX_FILES}: pack them into fewer"
        return [], [Refusal(422, "too_many_files", words, "files")]
    read = [_entry(row) for row in given]
    files = [each for each in read if not isinstance(each, Refusal)]
    wrong = [each for each in read if isinstance(each, Refusal)]
    wrong += [Refusal(422, "duplicate_path", words, "files") for words in clashes(f["path"] for f in files)]
    return files, wrong


def _entry(row: Any) -> FileEntry | Refusal:
    """The announced file, or what is wrong with it."""
    if not isinstance(row, Mapping):
        return Refusal(422, "bad_file", "each file is {path, size, sha256}", "files")
    size, sha = row.get("size"), row.get("sha256") or ""
    try:
        path = check_path(row.get("path", ""))
    except UnsafePath as unsafe:
        return Refusal(400, "unsafe_path", str(unsafe), "files")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        return Refusal(422, "bad_size", f"size of {path!r} must be a whole number of bytes", "files")
    if sha and not _is_sha256(sha):
        return Refusal(422, "bad_sha256", f"sha256 of {path!r} must be 64 hex digits", "files")
    return {"path": path, "size": size, "sha256": sha}


def _is_sha256(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


def _mine(owner: Owner, upload_id: str) -> Any:
    """The open upload, if it is the owner's; a stale epoch owns nothing."""
    upload = queries.upload(upload_id)
    if upload is None:
        return None
    if owner.actor is not None:
        return upload if upload.user_id == owner.actor.user_id else None
    part = _fenced(owner)
    return upload if part is not None and upload.attempt_id == part.attempt_id and upload.epoch == owner.epoch else None


def _reachable(owner: Owner, upload_id: str) -> Any:
    """The owner's upload, or the Refusal that says why there is none."""
    upload = _mine(owner, upload_id)
    if upload is not None:
        return upload
    if owner.actor is None and _fenced(owner) is None:
        return Refusal(409, "stale_epoch", "the attempt is not live at this epoch")
    return NO_UPLOAD


def open_upload(owner: Owner, upload_id: str) -> Any:
    """The owner's upload as long as it takes bytes, or the Refusal that says why it takes none."""
    upload = _reachable(owner, upload_id)
    if isinstance(upload, Refusal) or upload.artifact_id is None:
        return upload
    return Refusal(409, "committed", "this upload is committed already")


def offsets(owner: Owner, upload_id: str) -> dict[str, Any] | Refusal:
    """How far each file of the upload is: ``{upload, have: {path: bytes}}``."""
    upload = _mine(owner, upload_id)
    if upload is None:
        return NO_UPLOAD
    return {"upload": str(upload.pk), "have": _have(upload)}


def abandon(actor: Actor, upload_id: str) -> Refusal | None:
    """The actor's upload is not there any more, nor its bytes; they count against no quota. Refused once committed."""
    upload = _reachable(Owner(actor=actor), upload_id)
    if isinstance(upload, Refusal):
        return upload
    if not rows.give_up(upload.pk):
        return Refusal(409, "committed", "this upload is committed already: delete the artifact instead")
    bytes_on_disk.forget(upload.pk)
    return None


def put(owner: Owner, upload_id: str, path: str, offset: int, chunks: Iterator[bytes]) -> dict[str, Any] | Refusal:
    """The file has grown; ``{offset}`` is where to go on. A wrong offset is answered with the right one."""
    upload = open_upload(owner, upload_id)
    if isinstance(upload, Refusal):
        return upload
    numbers = {f["path"]: n for n, f in enumerate(upload.files)}
    if path not in numbers:
        return Refusal(404, "no_such_file", f"{path[:100]!r} was not announced")
    number = numbers[path]
    have = bytes_on_disk.part_size(upload.pk, number)
    if offset != have:
        return Refusal(409, "wrong_offset", f"{have} bytes are here: go on from there", facts={"offset": have})
    try:
        size = bytes_on_disk.append(upload.pk, number, offset, chunks, upload.files[number]["size"])
    except ValueError as more:
        return Refusal(422, "too_long", str(more), path)
    except bytes_on_disk.NoSpace as full:
        return Refusal(507, "no_space", f"{full}; free space or ask an admin, then go on from the same offset")
    return {"offset": size}


def commit(owner: Owner, upload_id: str, message: Mapping[str, Any], now: datetime) -> dict[str, Any] | Refusal:
    """The upload is an artifact: every byte hashed and compared, blobs durable, row last. Twice gives the same."""
    upload = _reachable(owner, upload_id)
    if isinstance(upload, Refusal):
        return upload
    if upload.artifact_id is not None or bytes_on_disk.is_local():
        return _whole(owner, upload, message, now)
    # To a bucket it takes long, so it is asked for again meanwhile: once at a time is enough.
    with bytes_on_disk.alone_with(upload.pk, "commit.lock") as alone:
        if not alone:
            return Refusal(503, "under_way", "the same is being stored just now: ask again in a while")
        upload = _reachable(owner, upload_id)
        return upload if isinstance(upload, Refusal) else _whole(owner, upload, message, now)


def _whole(owner: Owner, upload: Any, message: Mapping[str, Any], now: datetime) -> dict[str, Any] | Refusal:
    """The artifact of the upload, made now or before."""
    if upload.artifact_id is not None:
        bytes_on_disk.forget(upload.pk)
        return {"artifact": str(upload.artifact_id), "digest": upload.artifact.digest}
    files = _with_digests(upload, message.get("sha256"))
    if isinstance(files, Refusal):
        return files
    with bytes_on_disk.nothing_collected():
        return _committed(owner, upload, files, now)


def _committed(owner: Owner, upload: Any, files: list[FileEntry], now: datetime) -> dict[str, Any] | Refusal:
    """The artifact of these files, whose bytes have come or are here already."""
    known, sizes = _known(upload, files), bytes_on_disk.part_sizes(upload.pk)
    tensors: dict[str, Any] = {}
    wrong: list[Refusal] = []
    for number, entry in enumerate(files):
        missing = None
        if entry["sha256"] not in known:
            missing = _received(upload.pk, number, entry, have=sizes.get(number, 0))
        if missing is not None:  # it is mended by sending this file's bytes
            return missing
        found = _tensors(upload, number, entry, known)
        if isinstance(found, Refusal):
            wrong.append(found)
        else:
            tensors |= found
    if wrong:
        return _together(wrong)
    unsafe = _unsafe_formats(upload.pk, files, known)
    received = {n: entry["sha256"] for n, entry in enumerate(files) if entry["sha256"] not in known}
    anew = checks.unsound(received.values())
    try:
        bytes_on_disk.publish(upload.pk, received, anew=anew)
    except bytes_on_disk.NoSpace as full:
        return Refusal(507, "no_space", f"{full}; free space or ask an admin, then commit again")
    done = rows.commit_upload(
        upload.pk, digest=manifest_digest(files), files=sorted(files, key=lambda f: f["path"]),
        tensors=tensors or None, unsafe=unsafe, published=owner.actor is not None, now=now,
        epoch=owner.epoch if owner.actor is None else None, node=owner.node,
        actor=owner.actor.label if owner.actor else f"node {owner.node}",
    )  # fmt: skip
    if done is None and owner.actor is not None:
        return NO_UPLOAD
    if done is None:
        return Refusal(409, "stale_epoch", "the attempt is not live at this epoch")
    bytes_on_disk.forget(upload.pk)
    checks.stored_anew(anew, now)
    return {"artifact": str(done[0]), "digest": done[1]}


def _unsafe_formats(upload: UUID, files: Sequence[FileEntry], known: set[str]) -> dict[str, str]:
    """``{path: format}`` of those of the files, which are here, that can run code when somebody loads them."""
    found: dict[str, str] = {}

    def look(number: int) -> None:
        if unsafe_format := _unsafe_format(upload, number, files[number], known):
            found[files[number]["path"]] = unsafe_format

    a_few_at_a_time(look, range(len(files)))
    return dict(sorted(found.items()))


def _unsafe_format(upload: UUID, number: int, entry: FileEntry, known: set[str]) -> str:
    """In what format the file, which is here, can run code when somebody loads it; "" when nothing speaks for it."""
    if entry["sha256"] in known:
        return unsafe_files.format_of(entry["path"], lambda: bytes_on_disk.open_blob(entry["sha256"]))
    return unsafe_files.format_of(entry["path"], lambda: bytes_on_disk.part(upload, number).open("rb"))


def _with_digests(upload: Any, claimed: Any) -> list[FileEntry] | Refusal:
    """The files of the upload, each with the digest that is claimed for it now or was when it was announced. Where one
    is wrong, bytes that have yet to come are told first: only with them the digest is known."""
    told = claimed if isinstance(claimed, Mapping) else {}
    files: list[FileEntry] = []
    wrong: list[Refusal] = []
    for entry in upload.files:
        wanted = told.get(entry["path"]) or entry["sha256"]
        if not wanted and entry["path"] not in told:
            words = f"sha256 of {entry['path']!r} is missing: give it in sha256, as 64 hex digits"
            wrong.append(Refusal(422, "required", words, entry["path"]))
        elif not _is_sha256(wanted):
            words = f"sha256 of {entry['path']!r} must be 64 hex digits"
            wrong.append(Refusal(422, "bad_sha256", words, entry["path"]))
        files.append({"path": entry["path"], "size": entry["size"], "sha256": wanted})
    if not wrong:
        return files
    known = _known(upload, [each for each in files if _is_sha256(each["sha256"])])
    sent = [_is_sha256(each["sha256"]) and each["sha256"] in known for each in files]
    here = bytes_on_disk.part_sizes(upload.pk)
    coming = [
        _incomplete(each, here.get(n, 0))
        for n, each in enumerate(files)
        if not sent[n] and here.get(n, 0) != each["size"]
    ]
    return _together([*coming, *wrong])


def _incomplete(entry: FileEntry, have: int) -> Refusal:
    message = f"{entry['path']!r} has {have} of {entry['size']} bytes: send the rest"
    return Refusal(409, "incomplete", message, entry["path"], {"offset": have})


def _received(upload: UUID, number: int, entry: FileEntry, *, have: int) -> Refusal | None:
    """None when every byte of the file is here and right, else what is wrong; ``have`` bytes of it are here."""
    path, here = entry["path"], bytes_on_disk.part(upload, number)
    if have != entry["size"]:
        return _incomplete(entry, have)
    if entry["size"] == 0:
        here.parent.mkdir(parents=True, exist_ok=True)
        here.touch()
    found = bytes_on_disk.digest(here)
    if found != entry["sha256"]:
        here.unlink()
        message = f"{path!r} has sha256 {found}, not {entry['sha256']}: it was dropped, send it again from offset 0"
        return Refusal(422, "sha256_mismatch", message, path, {"sha256": found, "offset": 0})
    return None


def _tensors(upload: Any, number: int, entry: FileEntry, known: set[str]) -> dict[str, Any] | Refusal:
    """The tensors of a model's file; nothing for any other file; a Refusal for one that is no whole safetensors, or is
    known to be no whole file of PyTorch's."""
    path, sha = entry["path"], entry["sha256"]
    if upload.kind != "model":
        return {}
    here = None if sha in known else bytes_on_disk.part(upload.pk, number)
    if torch_fault := torch_files.fault(path, lambda: here.open("rb") if here else bytes_on_disk.open_blob(sha)):
        return Refusal(422, "corrupt_model", f"{path!r} holds no whole weights: {torch_fault}", path)
    if not path.endswith(".safetensors"):
        return {}
    try:
        return bytes_on_disk.tensors_of(here) if here else bytes_on_disk.tensors_of_blob(sha)
    except bytes_on_disk.CorruptModel as corrupt:
        return Refusal(422, "corrupt_model", f"{path!r} is not a whole safetensors file: {corrupt}", path)


def committed(attempt: UUID, ids: Sequence[str]) -> list[tuple[str, UUID]]:
    """(name, artifact) of those ids that this attempt committed, once for each name under which it did; ValueError for
    any other."""
    found = rows.committed_by(attempt)
    for wanted in ids:
        if wanted not in found:
            raise ValueError(f"artifact {wanted[:60]} was not committed by this attempt")
    return [(name, UUID(wanted)) for wanted in dict.fromkeys(ids) for name in found[wanted]]


def collect_uploads(now: datetime, *, older_than_s: float) -> int:
    """Uploads that nobody finished are gone, with their bytes, and what was begun of them in the store; returns how
    many."""
    stale = rows.abandon_uploads(now, older_than_s=older_than_s)
    for upload in stale:
        bytes_on_disk.forget(upload)
    bytes_on_disk.tidy_store(older_than_s=older_than_s)
    return len(stale)
