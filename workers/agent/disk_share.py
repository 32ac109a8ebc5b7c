"""Does what an attempt is brought fit into its node's share of the disk for one job, and who has filled that share?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.agent.disk import BLOCK, allocated
from workers.agent.messages import OverQuota
from workers.protocol import Launch


@dataclass(frozen=True, slots=True)
class Brought:
    """Bytes that lie on the node before the program starts; inputs with the same content lie there once."""

    inputs: int
    checkpoint: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.inputs + self.checkpoint


def brought(launch: Launch) -> Brought:
    """What the launch document's own sizes come to, before a byte of it is fetched."""
    # The node keeps one file of each content, and every input that has it is a link to it.
    inputs = {file["sha256"]: file for item in launch["inputs"] for file in item["files"]}
    resume = launch["resume"]
    return Brought(_blocks(inputs.values()), _blocks(resume["files"]) if resume is not None else 0)


def too_much(launch: Launch, limit: int) -> str:
    """Why the attempt can't have what it is to be brought on a node that grants ``limit`` bytes; "" when it can."""
    parts = brought(launch)
    if parts.total <= limit:
        return ""
    what = f"its inputs alone take {parts.inputs} bytes of disk"
    if parts.checkpoint:
        what = (
            f"its inputs ({parts.inputs} bytes) and the checkpoint that it goes on from ({parts.checkpoint} bytes) "
            f"alone take {parts.total} bytes of disk"
        )
    return (
        f"{what}, this node's limit for one job is {limit} (job_disk_bytes): let the job run where more is granted "
        "(affinity), or ask an operator to raise it"
    )


def over_words(over: OverQuota) -> str:
    """What a program is told that was ended for filling its share: only what it wrote is held against it."""
    beside = f", its inputs {over.inputs}" if over.inputs else ""
    return (
        f"it wrote {over.used - over.inputs} bytes of disk{beside}, the node's limit for one job is {over.limit} "
        "(job_disk_bytes): write less, keep fewer checkpoints, or ask an operator to raise it"
    )


def taken(directory: Path, launch: Launch | None) -> tuple[int, int]:
    """The bytes of disk that the attempt in ``directory`` takes, and how many of them are its inputs as they came.

    What its program puts beside its inputs is the program's.
    """
    counted: set[tuple[int, int]] = set()
    inputs = allocated(directory / "work" / "input", counted)
    own = [directory / name for name in ("stdout", "events.jsonl")]
    with contextlib.suppress(OSError):
        own += [path for path in (directory / "work").iterdir() if path.name != "input"]
    used = inputs + sum(allocated(path, counted) for path in own)
    return used, min(inputs, brought(launch).inputs if launch is not None else 0)


def _blocks(files: Iterable[Mapping[str, Any]]) -> int:
    """What files of these sizes take of a disk, in whole blocks."""
    return sum(-(-int(file["size"]) // BLOCK) * BLOCK for file in files)
