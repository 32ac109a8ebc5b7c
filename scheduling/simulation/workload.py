"""Which jobs does a trace file hold? Its rows as frozen values, in the columns that public cluster logs were put in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scheduling.simulation.table import Row, TableError, read_table

COLUMNS = (
    "job_id", "submit_s", "duration_s", "gpus", "nodes", "gpus_per_node", "shape", "gpu_type", "gpu_mem_gb",
    "gpu_milli", "cpus", "mem_gb", "user", "project", "class", "status", "req_walltime_s",
)  # fmt: skip
REQUIRED = ("job_id", "submit_s", "duration_s", "gpus")
SHAPES = ("requested", "derived", "any")
FULL_NODE = 8  # derived jobs are packed on nodes of so many GPUs
MAX_GPUS = 1_000_000
ONE_PROJECT = "default"  # whose jobs are whose project or user nobody knows


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace: ``nodes`` nodes of ``gpus_per_node`` GPUs, and one more of ``remainder`` unless that is 0.

    ``span``: its GPUs may sit anywhere. ``gpu_types``: those it accepts, none for any. ``walltime_s``: the run time
    its user asked for, None when nobody knows. ``line``: where it stands in the file.
    """

    id: str
    line: int
    submit_ms: int
    duration_ms: int
    nodes: int
    gpus_per_node: int
    remainder: int = 0
    span: bool = False
    gpu_types: tuple[str, ...] = ()
    gpu_mem_gb: float = 0.0
    user: str = ONE_PROJECT
    project: str = ONE_PROJECT
    walltime_s: float | None = None

    @property
    def gpus(self) -> int:
        """All its GPUs."""
        return self.nodes * self.gpus_per_node + self.remainder


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs by (submission, id), and how many rows were left out for want of GPUs or run time."""

    name: str
    jobs: tuple[TraceJob, ...]
    left_out: int = 0


def read_trace(path: Path) -> Trace:
    """The jobs of a CSV(.gz) file with the columns ``COLUMNS``, of which ``REQUIRED`` must be there.

    Rows whose ``gpus`` or ``duration_s`` is empty, 0 or less are left out. An empty project or user is one project or
    one user. TableError names the line, the column and what to do.
    """
    jobs: list[TraceJob] = []
    lines: dict[str, int] = {}
    left_out = 0
    for row in read_table(path, COLUMNS, required=REQUIRED):
        job = _job(row)
        if job is None:
            left_out += 1
            continue
        if job.id in lines:
            raise row.wrong("job_id", f"is {job.id!r} again (first on line {lines[job.id]}); give each job its own id")
        lines[job.id] = row.line
        jobs.append(job)
    if not jobs:
        raise TableError(f"{path.name} has no job with gpus and duration_s above 0; nothing could be simulated")
    jobs.sort(key=lambda job: (job.submit_ms, job.id))
    return Trace(path.name, tuple(jobs), left_out)


def _job(row: Row) -> TraceJob | None:
    gpus, duration_s = row.whole("gpus", most=MAX_GPUS), row.number("duration_s")
    if gpus is None or duration_s is None or gpus <= 0 or duration_s <= 0:
        return None
    job_id, submit_s = row.text("job_id"), row.number("submit_s")
    if not job_id:
        raise row.wrong("job_id", "is empty; give each job an id")
    if submit_s is None or submit_s < 0:
        raise row.wrong("submit_s", "must say when the job came: seconds from the start, 0 or more")
    nodes, each, rest, span = _layout(row, gpus)
    memory, walltime = row.number("gpu_mem_gb"), row.number("req_walltime_s")
    if walltime is not None and walltime <= 0:
        raise row.wrong("req_walltime_s", f"is {row.text('req_walltime_s')!r}; write more than 0, or leave it empty")
    return TraceJob(
        id=job_id,
        line=row.line,
        submit_ms=round(submit_s * 1000),
        duration_ms=max(1, round(duration_s * 1000)),
        nodes=nodes,
        gpus_per_node=each,
        remainder=rest,
        span=span,
        gpu_types=tuple(name for name in row.text("gpu_type").split("|") if name),
        gpu_mem_gb=max(0.0, memory or 0.0),
        user=row.text("user") or ONE_PROJECT,
        project=row.text("project") or ONE_PROJECT,
        walltime_s=walltime,
    )


def _layout(row: Row, gpus: int) -> tuple[int, int, int, bool]:
    """(nodes, GPUs on each, GPUs on one node more, whether they may sit anywhere)."""
    shape = row.text("shape") or "derived"
    if shape not in SHAPES:
        raise row.wrong("shape", f"is {shape!r}; write one of {', '.join(SHAPES)}, or leave it empty for derived")
    if shape == "any":
        return 1, gpus, 0, True
    nodes, each = row.whole("nodes"), row.whole("gpus_per_node")
    if each is None:
        if shape == "requested":
            raise row.wrong("gpus_per_node", "is empty; a requested shape needs nodes and gpus_per_node")
        full = gpus // FULL_NODE
        return (full, FULL_NODE, gpus % FULL_NODE, False) if full else (1, gpus, 0, False)
    if each < 1 or (nodes or 0) * each != gpus:
        raise row.wrong("gpus_per_node", f"times nodes is {(nodes or 0) * each}, but gpus is {gpus}; make them agree")
    return nodes or 1, each, 0, False
