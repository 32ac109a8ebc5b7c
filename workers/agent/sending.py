"""An attempt's files on their way up: small ones together, large ones in parts, the manifest last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.agent.client import Api, CallFailed
from workers.agent.meter import Meter, unheard
from workers.agent.statedir import Ref
from workers.agent.transfer import TRIES, Patience, TransferFailed, hash_file, safe
from workers.bundles import SMALL_BYTES, grouped, head
from workers.protocol import FileEntry, Transfer

PART_BYTES = 8 * 2**20


def publish(
    api: Api, ref: Ref, *, name: str, kind: str, meta: dict[str, Any], files: dict[str, Path], patience: Patience,
    meter: Meter | None = None,
) -> str:  # fmt: skip
    """Upload ``files`` (artifact path -> where it lies) as one artifact and commit it; the artifact's id.

    Goes on where an earlier try stopped, waits while the server is away. Raises :class:`TransferFailed` when it
    refuses, with ``stale`` when the attempt is no longer this node's.
    """
    hashes = _hashes(files)
    entries: list[FileEntry] = [
        {"path": safe(p), "size": files[p].stat().st_size, "sha256": hashes[p]} for p in sorted(files)
    ]
    body = {"epoch": ref.epoch, "name": name, "kind": kind, "meta": meta, "files": entries}
    sending = Sending(api, ref, body, files, patience, meter or unheard(ref))
    try:
        sending.begin()
        what = Transfer.SAVE_CHECKPOINT if kind == "checkpoint" else Transfer.SEND_RESULTS
        step = meta.get("step") if kind == "checkpoint" else None
        sending.meter.begin(what, len(entries), sum(e["size"] for e in entries), step=step or 0)
        sending.all(entries)
        done = {"epoch": ref.epoch, "sha256": hashes}
        return str(patience.again(lambda: api.commit_artifact(ref.attempt, sending.upload, done))["artifact"])
    except CallFailed as problem:
        raise TransferFailed(f"{name}: {problem.failure.message}", stale=problem.failure.stale) from problem


def _hashes(files: dict[str, Path]) -> dict[str, str]:
    """The sha256 of each; bytes that several names lead to are read once."""
    known: dict[tuple[int, int], str] = {}
    found: dict[str, str] = {}
    for path, source in files.items():
        about = source.stat()
        me = (about.st_dev, about.st_ino)
        found[path] = known[me] = known.get(me) or hash_file(source)
    return found


@dataclass(slots=True)
class Sending:
    """One upload; ``have`` is how many bytes of each file the server said to have already."""

    api: Api
    ref: Ref
    body: dict[str, Any]
    files: dict[str, Path]
    patience: Patience
    meter: Meter
    upload: str = ""
    have: dict[str, int] | None = None

    def begin(self) -> None:
        """The upload is open. Begun once more it is the same one, and what has arrived is known to be there."""
        opened = self.patience.again(lambda: self.api.create_artifact(self.ref.attempt, self.body))
        self.upload, self.have = str(opened["upload"]), opened.get("have") or {}

    def all(self, entries: list[FileEntry]) -> None:
        """All bytes are on the server."""
        there = [e for e in entries if self._here(e)]
        self.meter.add(len(there), sum(e["size"] for e in there))
        rest = [e for e in entries if not self._here(e)]
        for group in grouped([e for e in rest if e["size"] <= SMALL_BYTES], lambda e: e["size"]):
            self._bundle(group)
        for entry in rest:
            if entry["size"] > SMALL_BYTES:
                self._parts(entry)

    def _here(self, entry: FileEntry) -> bool:
        return entry["size"] == 0 or (self.have or {}).get(entry["path"], 0) >= entry["size"]

    def _bundle(self, group: list[FileEntry]) -> None:
        """The small files are on the server; of a bundle whose answer was lost only what did not come goes again."""
        tries, left = 0, group
        while left:
            self.patience.check()
            content = head(left) + b"".join(self._whole(entry) for entry in left)
            try:
                self.api.put_bundle(self.ref.attempt, self.upload, epoch=self.ref.epoch, content=content)
                break
            except CallFailed as problem:
                tries += 1
                self.patience.rest(problem, tries)
            self.begin()
            left = [entry for entry in left if not self._here(entry)]
        self.meter.add(len(group), sum(e["size"] for e in group))

    def _whole(self, entry: FileEntry) -> bytes:
        content = self.files[entry["path"]].read_bytes()
        if len(content) != entry["size"]:
            raise TransferFailed(f"{entry['path']}: it changed while it was sent", gone=True)
        return content

    def _parts(self, entry: FileEntry) -> None:
        path, size = entry["path"], entry["size"]
        at = (self.have or {}).get(path, 0)
        self.meter.add(0, at)
        corrected = 0
        with self.files[path].open("rb") as data:
            while at < size:
                data.seek(at)
                part = data.read(PART_BYTES)
                try:
                    self.patience.again(self._put(path, at, part))
                    at += len(part)
                    self.meter.add(0, len(part))
                except CallFailed as problem:
                    right = problem.failure.body.get("offset")
                    corrected += 1
                    if problem.failure.status != 409 or not isinstance(right, int) or corrected > 2 * TRIES:
                        raise
                    at = min(max(0, right), size)
        self.meter.add(1, 0)

    def _put(self, path: str, at: int, part: bytes) -> Callable[[], Any]:
        return lambda: self.api.put_part(
            self.ref.attempt, self.upload, path, epoch=self.ref.epoch, offset=at, part=part
        )
