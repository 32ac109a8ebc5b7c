"""What a job process is given: its document, its directories, and the ways to speak. Standard library only.

The variables are those of the job contract (``EMEP_*``); a missing one is a bug of whoever started the process.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workers.emep_job import MAX_EVENT_LINE, EventLog, StopRequest, checkpoint_exit_code, encode

DONE = 0
BUG = 1
REFUSED = 2


@dataclass(frozen=True, slots=True)
class JobInput:
    """An input artifact: its name in the job, its id, the directory it lies in, what people call it, and the digest of
    its files ("" where nobody said)."""

    name: str
    artifact: str
    directory: Path
    title: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class JobContext:
    """One attempt as its process sees it. Durations in seconds; ``disk_bytes`` is what it may take of the node's disk
    with its inputs, None where nobody said."""

    kind: str
    params: Mapping[str, Any]
    inputs: tuple[JobInput, ...]
    output_dir: Path
    checkpoint_dir: Path
    scratch_dir: Path
    resuming: bool
    gpu_count: int
    checkpoint_exit_code: int
    environ: Mapping[str, str]
    events: EventLog
    stop: StopRequest
    disk_bytes: int | None = None
    started_at: float = field(default_factory=time.monotonic)

    @property
    def inputs_by_name(self) -> dict[str, JobInput]:
        """The inputs by their names in the job."""
        return {each.name: each for each in self.inputs}

    def input(self, name: str) -> JobInput | None:
        """The input of this name; None if the job has none."""
        return self.inputs_by_name.get(name)

    def log(self, text: str) -> None:
        """One line for people, at once."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def announce(self, name: str, kind: str, meta: Mapping[str, Any]) -> None:
        """What lies in the output directory under ``name`` is an artifact of this kind. A recipe too long for an event
        is told by its sha256: it is that of the job's parameters."""
        event = {"name": name, "path": name, "kind": kind, "meta": dict(meta)}
        if len(encode({"type": "artifact", **event})) > MAX_EVENT_LINE:
            text = json.dumps(meta["recipe"], sort_keys=True, separators=(",", ":")).encode()
            event["meta"] = {**meta, "recipe": {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}}
        self.events.emit("artifact", **event)

    def elapsed(self) -> float:
        """Seconds since this attempt's process began its work."""
        return time.monotonic() - self.started_at


def read_context(environ: Mapping[str, str], stop: StopRequest) -> JobContext:
    """The context that the environment describes; its output, checkpoint and scratch directories exist."""
    document = json.loads(Path(environ["EMEP_JOB_FILE"]).read_text("utf-8"))
    input_dir = Path(environ["EMEP_INPUT_DIR"])
    directories = [Path(environ[f"EMEP_{n}_DIR"]) for n in ("OUTPUT", "CHECKPOINT", "SCRATCH")]
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    return JobContext(
        kind=document["kind"],
        params=document["params"],
        inputs=tuple(
            JobInput(
                i["as"], i["artifact"], input_dir / i["as"], str(i.get("name") or i["as"]), str(i.get("digest") or "")
            )
            for i in document["inputs"]
        ),
        output_dir=directories[0],
        checkpoint_dir=directories[1],
        scratch_dir=directories[2],
        resuming=environ.get("EMEP_RESUME") == "1",
        gpu_count=int(environ.get("EMEP_GPU_COUNT") or 0),
        checkpoint_exit_code=checkpoint_exit_code(environ),
        environ=environ,
        events=EventLog(Path(environ["EMEP_EVENTS"]) if environ.get("EMEP_EVENTS") else None),
        stop=stop,
        disk_bytes=int(environ["EMEP_DISK_BYTES"]) if environ.get("EMEP_DISK_BYTES") else None,
    )
