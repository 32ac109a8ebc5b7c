"""Which jobs does a trace file hold? Its rows as frozen values, in the columns that public cluster logs were put in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scheduling.simulation.table import Row, TableError, faults_of, refuse, rows_of

COLUMNS = (
    "job_id", "submit_s", "duration_s", "gpus", "nodes", "gpus_per_node", "shape", "gpu_type", "gpu_mem_gb",
    "gpu_milli", "cpus", "mem_gb", "user", "project", "class", "status", "req_walltime_s",
)  # fmt: skip
UNUSED = ("cpus", "mem_gb", "class", "status", "req_walltime_s")  # the last one is for ``--estimates requested``
REQUIRED = ("job_id", "submit_s", "duration_s", "gpus")
SHAPES = ("requested", "derived", "any")
FULL_NODE = 8  # derived jobs are packed on nodes of so many GPUs
MAX_GPUS = 1_000_000
MAX_MEM_GB = 1_000_000
WHOLE_GPU_MILLI = 1000
NEEDS_WALLTIME = "--estimates requested needs it for every job: write seconds above 0, or use --estimates oracle"
ONE_PROJECT = "default"  # whose jobs are whose project or user nobody knows


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace: ``nodes`` nodes of ``gpus_per_node`` GPUs, and one more of ``remainder`` unless that is 0.

    ``span``: its GPUs may sit anywhere. ``gpu_types``: those it accepts, none for any. ``walltime_s``: the run time
    its user asked for, None when nobody knows; it may be 0. ``line``: where it stands in the file.
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
class LeftOut:
    """How many rows are no jobs, since their ``gpus``, or else their ``duration_s``, is empty, 0 or less."""

    no_gpus: int = 0
    no_time: int = 0

    @property
    def rows(self) -> int:
        """All of them."""
        return self.no_gpus + self.no_time


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs by (submission, id), and the rows that were left out. ``said``: the columns of ``UNUSED`` in which any
    job has something; ``parts``: jobs that asked for a part of a GPU."""

    name: str
    jobs: tuple[TraceJob, ...]
    left_out: LeftOut = LeftOut()
    said: frozenset[str] = frozenset()
    parts: int = 0


def read_trace(path: Path, *, walltimes: bool = False) -> Trace:
    """The jobs of a CSV(.gz) file with the columns ``COLUMNS``, of which ``REQUIRED`` must be there.

    Rows whose ``gpus`` or ``duration_s`` is empty, 0 or less are left out and counted, if their other cells can be
    read. An empty project or user is one project or one user. TableError names, on a line each, the line and the
    column of everything that is wrong, in the header and in cells, up to ``MAX_TOLD``, and what to do; a row in which
    something is wrong counts as a job there, unless it is sure to be left out. ``walltimes``: every job must have a
    ``req_walltime_s`` above 0.
    """
    jobs: list[TraceJob] = []
    lines: dict[str, int] = {}
    no_gpus = no_time = parts = 0
    silent = list(UNUSED)
    wrong: list[str] = []
    needed = {"req_walltime_s": NEEDS_WALLTIME} if walltimes else {}
    for row in rows_of(path, COLUMNS, required=REQUIRED, wrong=wrong, needed=needed):
        if row.unknown:
            wrong += _faults(row, lines, walltimes=walltimes)
            continue
        try:
            job = _job(row, walltimes=walltimes)
        except TableError:
            wrong += _faults(row, lines, walltimes=walltimes)
            continue
        if job is None:
            asks = (row.whole("gpus") or 0) > 0
            no_gpus, no_time = no_gpus + (not asks), no_time + asks
            continue
        if again := _again(row, lines):
            wrong += again
            continue
        jobs.append(job)
        silent = [column for column in silent if not row.text(column)]
        parts += (row.number("gpu_milli") or WHOLE_GPU_MILLI) < WHOLE_GPU_MILLI
    refuse(wrong)
    if not jobs:
        raise TableError(f"{path.name} has no job with gpus and duration_s above 0; nothing could be simulated")
    jobs.sort(key=lambda job: (job.submit_ms, job.id))
    said = frozenset(UNUSED) - frozenset(silent)
    return Trace(path.name, tuple(jobs), LeftOut(no_gpus, no_time), said, parts)


def _job(row: Row, *, walltimes: bool) -> TraceJob | None:
    gpus, duration_s = CELLS["gpus"](row), CELLS["duration_s"](row)
    memory_gb, walltime_s, types = CELLS["gpu_mem_gb"](row), CELLS["req_walltime_s"](row), _types(row)
    for column in NOT_READ:
        CELLS[column](row)
    if gpus is None or duration_s is None or gpus <= 0 or duration_s <= 0:
        return None
    job_id, submit_s = _id(row), _came(row)
    if walltimes:
        _walltime(row)
    nodes, each, rest, span = _layout(row, gpus)
    return TraceJob(
        id=job_id,
        line=row.line,
        submit_ms=round(submit_s * 1000),
        duration_ms=max(1, round(duration_s * 1000)),
        nodes=nodes,
        gpus_per_node=each,
        remainder=rest,
        span=span,
        gpu_types=types,
        gpu_mem_gb=memory_gb or 0.0,
        user=row.text("user") or ONE_PROJECT,
        project=row.text("project") or ONE_PROJECT,
        walltime_s=walltime_s,
    )


def _faults(row: Row, lines: dict[str, int], *, walltimes: bool) -> list[str]:
    """All that is wrong with the cells of the row, by themselves and together. ``lines``: of the ids before it."""
    found = faults_of(row, CELLS.values())
    if _is_left_out(row):
        return found
    found += faults_of(row, (_id, _came, *((_walltime,) if walltimes else ()), *LAYOUT))
    if not row.unknown & {"gpus", "nodes", "gpus_per_node", "shape"} and not faults_of(row, (CELLS["gpus"], *LAYOUT)):
        found += faults_of(row, (lambda sound: _layout(sound, CELLS["gpus"](sound)),))
    return [*dict.fromkeys(found), *_again(row, lines)]


def _is_left_out(row: Row) -> bool:
    """Whether it has no GPUs or no time for sure, whatever is wrong with it."""

    def lacks(column: str) -> bool:
        return column not in row.unknown and not faults_of(row, (CELLS[column],)) and (CELLS[column](row) or 0) <= 0

    return lacks("gpus") or lacks("duration_s")


def _again(row: Row, lines: dict[str, int]) -> list[str]:
    """That a job of this id was there before; it is known from now on."""
    job_id = row.text("job_id")
    first = lines.setdefault(job_id, row.line)
    if not job_id or first == row.line:
        return []
    return [str(row.wrong("job_id", f"is {job_id!r} again (first on line {first}); give each job its own id"))]


def _id(row: Row) -> str:
    if not row.text("job_id"):
        raise row.wrong("job_id", "is empty; give each job an id")
    return row.text("job_id")


def _came(row: Row) -> float:
    submit_s: float | None = CELLS["submit_s"](row)
    if submit_s is None:
        raise row.wrong("submit_s", "is empty; write when the job came: seconds from the start, 0 or more")
    return submit_s


def _walltime(row: Row) -> None:
    walltime_s = CELLS["req_walltime_s"](row)
    if not walltime_s:
        raise row.wrong("req_walltime_s", f"{'is empty' if walltime_s is None else 'is 0'}; {NEEDS_WALLTIME}")


def _types(row: Row) -> tuple[str, ...]:
    text = row.text("gpu_type")
    types = tuple(name.strip() for name in text.split("|")) if text else ()
    if not all(types):
        raise row.wrong("gpu_type", f"is {text!r}; write one type, or several like V100|T4, or leave it empty for any")
    return types


CELLS: dict[str, Callable[[Row], Any]] = {
    "submit_s": lambda row: row.number("submit_s", least=0),
    "duration_s": lambda row: row.number("duration_s"),
    "gpus": lambda row: row.whole("gpus", most=MAX_GPUS),
    "gpu_type": _types,
    "gpu_mem_gb": lambda row: row.number("gpu_mem_gb", least=0, most=MAX_MEM_GB),
    "gpu_milli": lambda row: row.number("gpu_milli", least=0, most=WHOLE_GPU_MILLI),
    "cpus": lambda row: row.number("cpus", least=0),
    "mem_gb": lambda row: row.number("mem_gb", least=0),
    "req_walltime_s": lambda row: row.number("req_walltime_s", least=0),
}
NOT_READ = ("submit_s", "gpu_milli", "cpus", "mem_gb")  # of rows left out, or of all: what can't be meant is refused


def _shape(row: Row) -> str:
    shape = row.text("shape") or "derived"
    if shape not in SHAPES:
        raise row.wrong("shape", f"is {shape!r}; write one of {', '.join(SHAPES)}, or leave it empty for derived")
    return shape


def _part(row: Row, *, column: str) -> int | None:
    """The number of nodes, or of GPUs on each; None when it is empty."""
    value = row.whole(column, least=0, most=MAX_GPUS)
    if value == 0:
        gpus = "" if "gpus" in row.unknown else f", but gpus is {row.text('gpus')}"
        raise row.wrong(column, f"is 0{gpus}; write 1 or more, or leave it empty")
    if value is not None and row.text("shape") == "any":
        raise row.wrong(column, f"is {value}, but shape is any, whose GPUs sit anywhere; leave it empty")
    return value


_nodes, _each = partial(_part, column="nodes"), partial(_part, column="gpus_per_node")
LAYOUT: tuple[Callable[[Row], object], ...] = (_shape, _nodes, _each)


def _layout(row: Row, gpus: int) -> tuple[int, int, int, bool]:
    """(nodes, GPUs on each, GPUs on one node more, whether they may sit anywhere)."""
    shape, nodes, each = _shape(row), _nodes(row), _each(row)
    if shape == "any":
        return 1, gpus, 0, True
    if each is None:
        if shape == "requested":
            raise row.wrong("gpus_per_node", "is empty; a requested shape needs nodes and gpus_per_node")
        full, rest = divmod(gpus, FULL_NODE)
        packed = full + (rest > 0)
        if nodes not in (None, packed):
            what = f"is {nodes}, but a derived shape packs {gpus} GPUs on nodes of {FULL_NODE}, which takes {packed}"
            raise row.wrong("nodes", f"{what}; write that, or gpus_per_node too, or leave both empty")
        return (full, FULL_NODE, rest, False) if full else (1, gpus, 0, False)
    if nodes is None:
        raise row.wrong("nodes", f"is empty, but gpus_per_node is {each}; give both, or neither for a derived shape")
    if nodes * each != gpus:
        product = f"{nodes} * {each} = {nodes * each}"
        raise row.wrong("gpus_per_node", f"times nodes is {product}, but gpus is {gpus}; make them agree")
    return nodes, each, 0, False
