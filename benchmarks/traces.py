"""What the reference simulator replays: jobs and nodes of a trace file, or nodes of a text like ``8x56,2x64``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from scheduling.simulation.table import Row, read_table
from scheduling.simulation.workload import COLUMNS, REQUIRED

LEVELS = ("Critical", "High", "Normal", "Low")
NODE_GPUS = 8  # what a derived job with an uneven total is packed on: full nodes of so many, and one remainder node


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace: ``nodes`` nodes of ``gpus_per_node`` GPUs and, if not 0, one more of ``remainder``.

    Times are whole seconds. ``rank`` is the place of its level in ``LEVELS``.
    """

    id: str
    submit_s: int
    duration_s: int
    gpus: int
    nodes: int
    gpus_per_node: int
    remainder: int
    project: str
    rank: int


def level_rank(job_id: str) -> int:
    """The level that the ``hash`` classes give a job, as its place in ``LEVELS``."""
    drawn = int(hashlib.sha256(job_id.encode()).hexdigest(), 16) % 100
    return next((rank for rank, below in enumerate((2, 12, 72)) if drawn < below), 3)


def read_jobs(path: Path, *, classes: str = "hash", limit: int | None = None) -> list[TraceJob]:
    """The jobs of ``path`` by submission, the first ``limit`` of them; rows without GPUs or run time are left out.

    ``classes``: "hash" overlays levels, "none" makes all of them Normal. TableError names a cell that is no number.
    """
    jobs = [job for row in read_table(path, COLUMNS, required=REQUIRED) if (job := _job(row, classes)) is not None]
    jobs.sort(key=lambda job: job.submit_s)
    return jobs[:limit]


def _job(row: Row, classes: str) -> TraceJob | None:
    gpus, duration_s = row.whole("gpus") or 0, row.number("duration_s") or 0
    if gpus <= 0 or duration_s <= 0:
        return None
    job_id, each, submit_s = row.text("job_id"), row.whole("gpus_per_node"), int(row.number("submit_s") or 0)
    nodes = row.whole("nodes") if each else None
    each = each or min(gpus, NODE_GPUS)
    nodes = nodes or gpus // each
    rank = level_rank(job_id) if classes == "hash" else LEVELS.index("Normal")
    seconds, rest = max(1, round(duration_s)), gpus - nodes * each
    return TraceJob(job_id, submit_s, seconds, gpus, nodes, each, rest, row.text("project"), rank)


def parse_nodes(spec: str) -> list[int]:
    """The GPUs of each node of a text such as ``8x56,2x64``: 56 nodes of 8, then 64 of 2."""
    sizes: list[int] = []
    for part in spec.split(","):
        gpus, _, count = part.partition("x")
        sizes += [int(gpus)] * int(count)
    return sizes
