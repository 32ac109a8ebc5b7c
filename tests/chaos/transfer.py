"""Bytes between a node and the store, through the real services: what an attempt reads and what it commits."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduling.services import artifact_files, artifacts
from scheduling.services.artifacts import Owner
from scheduling.store.queries import artifacts as queries
from tests.chaos.network import Declined
from tests.chaos.program import content
from workers.agent.statedir import Ref
from workers.protocol import Launch

if TYPE_CHECKING:
    from tests.chaos.house import House


def fetched(house: House, node: str, ref: Ref, launch: Launch) -> tuple[int, str] | None:
    """The checkpoint that the attempt resumes from, read back from the store."""
    resume = launch["resume"]
    if resume is None:
        return None

    def read() -> tuple[int, str]:
        found = queries.readable_by(UUID(ref.attempt), ref.epoch, node, resume["artifact"])
        if found is None:
            raise Declined(409, "stale_epoch", "the attempt is not live at this epoch on this node")
        entry = next(f for f in found.files if f["path"].startswith("framework/"))
        saved = json.loads(artifact_files.blob(entry["sha256"]).read_bytes())
        return saved["step"], saved["state"]

    found: tuple[int, str] = house.server.serve(read)
    return found


def sent(
    house: House, node: str, ref: Ref, *, output: bytes | None = None, saved: tuple[int, str] | None = None
) -> str:
    """The result or the checkpoint is committed as an artifact of the attempt; its id."""
    owner = Owner(node=node, attempt=ref.attempt, epoch=ref.epoch)
    if saved is not None:
        files = {"framework/state.json": content(*saved), "experiment.json": b"{}"}
        about: dict[str, Any] = {"name": "checkpoint", "kind": "checkpoint", "meta": {"step": saved[0], "clean": True}}
    else:
        files, about = {"result": output or b""}, {"name": "result", "kind": "output"}
    hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    entries = [{"path": p, "size": len(d), "sha256": hashes[p]} for p, d in files.items()]

    def begin() -> Any:
        return artifacts.begin(owner, {**about, "files": entries}, house.clock.wall)

    opened = house.server.serve(begin)

    def put(path: str) -> Any:
        return artifacts.put(owner, opened["upload"], path, 0, iter([files[path]]))

    for path, data in files.items():
        if opened["have"].get(path) != len(data):
            house.server.serve(partial(put, path))

    def commit() -> Any:
        return artifacts.commit(owner, opened["upload"], {"sha256": hashes}, house.clock.wall)

    return str(house.server.serve(commit)["artifact"])
