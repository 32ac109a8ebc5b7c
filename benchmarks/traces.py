"""What the reference simulator replays: jobs and nodes of a trace file, or nodes of a text like ``8x56,2x64``."""

from __future__ import annotations

import csv
import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

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


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a gzip CSV file with a header."""
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def read_jobs(path: Path, *, classes: str = "hash", limit: int | None = None) -> list[TraceJob]:
    """The jobs of ``path`` by submission, the first ``limit`` of them; rows without GPUs or run time are left out.

    ``classes``: "hash" overlays levels, "none" makes all of them Normal.
    """
    jobs = [_job(row, classes) for row in rows(path) if int(row["gpus"]) > 0 and float(row["duration_s"] or 0) > 0]
    jobs.sort(key=lambda job: job.submit_s)
    return jobs[:limit]


def _job(row: dict[str, str], classes: str) -> TraceJob:
    gpus, per_node = int(row["gpus"]), row["gpus_per_node"]
    each = int(per_node) if per_node else min(gpus, NODE_GPUS)
    nodes = int(row["nodes"]) if per_node else gpus // each
    rank = level_rank(row["job_id"]) if classes == "hash" else LEVELS.index("Normal")
    submit_s, duration_s = int(float(row["submit_s"])), max(1, round(float(row["duration_s"])))
    return TraceJob(row["job_id"], submit_s, duration_s, gpus, nodes, each, gpus - nodes * each, row["project"], rank)


def parse_nodes(spec: str) -> list[int]:
    """The GPUs of each node of a text such as ``8x56,2x64``: 56 nodes of 8, then 64 of 2."""
    sizes: list[int] = []
    for part in spec.split(","):
        gpus, _, count = part.partition("x")
        sizes += [int(gpus)] * int(count)
    return sizes
