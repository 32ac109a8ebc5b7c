"""What of a finished attempt is uploaded, and under which names: its announced outputs, or its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workers.agent import messages as m
from workers.agent.client import Api
from workers.agent.statedir import write_json
from workers.agent.transfer import (
    EXPERIMENT_FILE,
    FRAMEWORK_DIR,
    WRAPPED,
    Patience,
    TransferFailed,
    has_both_parts,
    publish,
    walk,
)
from workers.protocol import UnsafePath, check_path

# A framework's own sign that a directory is half-written.
INCOMPLETE_MARK = "checkpoint-is-incomplete.txt"


def publish_attempt(api: Api, command: m.Publish, directory: Path, patience: Patience) -> m.Published:
    """Everything that ``command`` asks for is committed on the server. Raises what the transfer raises."""
    artifacts = tuple(
        _output(api, command, event, output=directory / "work" / "output", patience=patience)
        for event in command.outputs
    )
    checkpoint = _checkpoint(api, command, directory, patience) if command.checkpoint else None
    return m.Published(command.ref, artifacts, checkpoint)


def _output(api: Api, command: m.Publish, event: dict[str, Any], *, output: Path, patience: Patience) -> str:
    name, relative = event["name"], event["path"]
    try:
        root = output / check_path(relative.rstrip("/"))
    except UnsafePath as problem:
        raise TransferFailed(f"artifact {name!r:.80}: path {problem}; it is relative to EMEP_OUTPUT_DIR") from problem
    if not root.exists():
        raise TransferFailed(f"artifact {name!r:.80}: there is no {relative!r:.200} in EMEP_OUTPUT_DIR")
    base = root.parent if root.is_file() else root
    files = {path: base / path for path in walk(root)}
    if not files:
        raise TransferFailed(f"artifact {name!r:.80}: {relative!r:.200} holds no file")
    meta = event.get("meta")
    return publish(
        api, command.ref, name=name, kind=str(event.get("kind") or "output"),
        meta=meta if isinstance(meta, dict) else {}, files=files, patience=patience,
    )  # fmt: skip


def _checkpoint(api: Api, command: m.Publish, directory: Path, patience: Patience) -> str | None:
    """The checkpoint's two parts (D8): what the job saved as ``framework/``, and what the experiment was.

    A job that writes both parts itself is taken as it is. None when it saved nothing.
    """
    root = directory / "work" / "checkpoint"
    names = [name for name in walk(root) if command.clean or _complete(root, name)]
    if not names:
        return None
    files = {name: root / name for name in names}
    if not has_both_parts(names):
        files = {FRAMEWORK_DIR + name: path for name, path in files.items()}
        files[EXPERIMENT_FILE] = directory / EXPERIMENT_FILE
        write_json(directory / EXPERIMENT_FILE, experiment(command))
    meta = {"step": command.step, "clean": command.clean}
    return publish(
        api, command.ref, name="checkpoint", kind="checkpoint", meta=meta, files=files, patience=patience
    )  # fmt: skip


def experiment(command: m.Publish) -> dict[str, Any]:
    """What was being computed, so that a checkpoint says by itself what it belongs to. No job id, no time (D35)."""
    launch = command.launch
    inputs = [{"as": item["as"], "artifact": item["artifact"]} for item in launch["inputs"]]
    return {
        "layout": WRAPPED,
        "kind": launch["kind"],
        "params": launch["params"],
        "inputs": inputs,
        "step": command.step,
    }


def _complete(root: Path, name: str) -> bool:
    """After a disorderly end: not a temporary file, nor in a directory marked as half-written."""
    if name.endswith(".tmp"):
        return False
    folder = (root / name).parent
    while folder != root.parent:
        if (folder / INCOMPLETE_MARK).exists():
            return False
        folder = folder.parent
    return True
