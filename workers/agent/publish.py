"""What of an attempt is uploaded, and under which names: announced outputs, a checkpoint at the end or on the way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workers.agent import messages as m
from workers.agent.checkpoint_files import chosen, declared_files, held_still
from workers.agent.client import Api
from workers.agent.meter import Meter
from workers.agent.sending import publish
from workers.agent.statedir import Ref, write_json
from workers.agent.transfer import EXPERIMENT_FILE, FRAMEWORK_DIR, WRAPPED, Patience, TransferFailed, has_both_parts
from workers.agent.tree import files_below
from workers.protocol import UnsafePath, check_path
from workers.said_back import MAX_SHOWN, shown

# As many faults as a final report has room for.
MAX_TOLD = 5


def publish_attempt(
    api: Api, command: m.Publish, directory: Path, patience: Patience, meter: Meter | None = None, *,
    saved: dict[str, Path],
) -> m.Published:  # fmt: skip
    """Everything that ``command`` asks for is committed on the server; ``saved`` are its :func:`checkpoint_files`.
    Raises what the transfer raises.

    Nothing is sent where an output can't be: all that are at fault are told together, since the job ran for them.
    """
    found = _all_found(command.outputs, directory / "work" / "output")
    artifacts = tuple(_output(api, command, event, files, patience, meter) for event, files in found)
    about, clean = directory / EXPERIMENT_FILE, command.clean
    checkpoint = (
        _send_checkpoint(api, command, saved, about, clean=clean, patience=patience, meter=meter) if saved else None
    )
    return m.Published(command.ref, artifacts, checkpoint)


def _all_found(outputs: Sequence[dict[str, Any]], directory: Path) -> list[tuple[dict[str, Any], dict[str, Path]]]:
    """Each announced output with its files. Raises TransferFailed that tells of every one that can't be taken."""
    found, faults = [], []
    for event in outputs:
        try:
            found.append((event, _files_of(event, directory)))
        except TransferFailed as problem:
            faults.append(problem)
    if len(faults) > 1:
        told = "; ".join(str(each) for each in faults[:MAX_TOLD])
        more = f"; and {len(faults) - MAX_TOLD} more" if len(faults) > MAX_TOLD else ""
        raise TransferFailed(f"{len(faults)} of {len(outputs)} artifacts can't be taken: {told}{more}")
    if faults:
        raise faults[0]
    return found


def _files_of(event: dict[str, Any], output: Path) -> dict[str, Path]:
    """The files of an announced output: their names in the artifact, and where they lie."""
    name, relative = event["name"], event["path"]
    try:
        place = relative if relative == "." else check_path(relative.rstrip("/"))
    except UnsafePath as problem:
        raise TransferFailed(f"artifact {_named(name)}: {problem}; it is relative to EMEP_OUTPUT_DIR") from problem
    try:
        json.dumps(event, ensure_ascii=False).encode()
    except UnicodeEncodeError as problem:
        raise TransferFailed(f"artifact {_named(name)}: its name, kind and meta must be UTF-8 text") from problem
    try:
        files = {path: output / real for path, real in files_below(output, place).items()}
    except TransferFailed as problem:
        raise TransferFailed(f"artifact {shown(name)} in EMEP_OUTPUT_DIR: {problem}") from problem
    if not files:
        raise TransferFailed(f"artifact {shown(name)}: {shown(relative, 200)} holds no file")
    return files


def _output(
    api: Api, command: m.Publish, event: dict[str, Any], files: dict[str, Path], patience: Patience,
    meter: Meter | None,
) -> str:  # fmt: skip
    meta = event.get("meta")
    return publish(
        api, command.ref, name=event["name"], kind=str(event.get("kind") or "output"),
        meta=meta if isinstance(meta, dict) else {}, files=files, patience=patience, meter=meter,
    )  # fmt: skip


def _named(name: str) -> str:
    """The name as any reader can hold it, which may be no UTF-8."""
    return ascii(name) if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]!a}..."


def publish_snapshot(
    api: Api, command: m.Snapshot, directory: Path, patience: Patience, meter: Meter | None = None
) -> m.Snapshotted:  # fmt: skip
    """What the running job has declared complete is committed on the server. Raises what the transfer raises."""
    root = directory / "work" / "checkpoint"
    still = directory / "snapshot"
    try:
        files = held_still(root, declared_files(root, command.declared), still)
        if not files:
            raise TransferFailed(
                f"{shown(command.declared, 200)} in EMEP_CHECKPOINT_DIR holds no file: announce it when it does"
            )
        about = directory / "snapshot.json"
        artifact = _send_checkpoint(api, command, files, about, clean=True, patience=patience, meter=meter)
    finally:
        shutil.rmtree(still, ignore_errors=True)
    return m.Snapshotted(command.ref, artifact, command.step or 0)


def checkpoint_files(command: m.Publish, directory: Path) -> dict[str, Path]:
    """What the ended job has left that it may be resumed from: name -> where it lies; empty when that is nothing.

    Raises :class:`TransferFailed` where it can't be told.
    """
    root = directory / "work" / "checkpoint"
    if not command.checkpoint:
        return {}
    found = chosen(root, kind=command.launch["kind"], clean=command.clean, declared=command.declared)
    return {name: root / real for name, real in found.items()}


def _send_checkpoint(
    api: Api, command: m.Publish | m.Snapshot, files: dict[str, Path], about: Path, *, clean: bool, patience: Patience,
    meter: Meter | None,
) -> str:  # fmt: skip
    """A checkpoint's two parts (D8): what the job saved as ``framework/``, and what the experiment was.

    A job that writes both parts itself is taken as it is.
    """
    if not has_both_parts(files):
        files = {FRAMEWORK_DIR + name: path for name, path in files.items()}
        files[EXPERIMENT_FILE] = about
        write_json(about, experiment(command))
    meta = {"step": command.step, "clean": clean}
    return publish(
        api, command.ref, name="checkpoint", kind="checkpoint", meta=meta, files=files, patience=patience, meter=meter
    )  # fmt: skip


def experiment(command: m.Publish | m.Snapshot) -> dict[str, Any]:
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


def failed(what: str, ref: Ref, problem: TransferFailed) -> m.Event:
    """That a transfer of the attempt came to nothing: ``prepare``, ``snapshot`` or ``publish``."""
    if what == "prepare":
        return m.PrepareFailed(ref, str(problem), retryable=problem.retryable or problem.stale)
    if what == "snapshot":
        return m.Snapshotted(ref, None, 0, str(problem), problem.stale, problem.gone, problem.retryable)
    return m.PublishFailed(ref, str(problem), stale=problem.stale)
