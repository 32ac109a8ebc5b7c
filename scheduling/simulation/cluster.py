"""Which GPUs does a simulated cluster have? A short text like ``8x56,2x64``, or a CSV file of nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from scheduling.core.fields import shown
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.units import parse_memory
from scheduling.core.words import agree, nodes_in_words
from scheduling.simulation.table import MAX_TOLD, Row, TableError, faults_of, in_lines, refuse, rows_of

UNLIMITED_MIB = 1 << 40
MAX_GPUS_PER_NODE = 1024
MAX_NODES = 100_000
MAX_MEM_GB = 1_000_000
MAX_GPUS = 200_000  # in all: more are no cluster, and would take minutes to set up
COLUMNS = ("node", "gpus", "gpu_type", "gpu_mem_gb", "rack", "nvlink_group", "cpus", "mem_gb")
UNUSED = ("cpus", "mem_gb")
ANY_MODEL = "any"  # a GPU of no stated type
# Numbers of any size and sign are read, so that those out of range are told as such.
_PART = re.compile(r"([+-]?[0-9]{1,1000})x([+-]?[0-9]{1,1000})(?::([^\s,:|]{1,64}))?", re.ASCII)
HOW = "write GPUSxNODES like 8x72, several by comma like 8x56,2x64, a type after a colon like 8x10:A100"


class ClusterError(ValueError):
    """The cluster can't be made of what was given; the message says what to write instead."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The pool, and what of the text or file that it is made of changes nothing in a simulation, in sentences."""

    pool: Pool
    idle: tuple[str, ...] = ()


def cluster(nodes: str) -> Cluster:
    """The pool of ``nodes``: a SPEC (:func:`pool_of_spec`) or the path of a CSV file (:func:`cluster_of_file`)."""
    parts = [_PART.fullmatch(part.strip()) for part in nodes.split(",")]
    if parts[0] is not None or (any(parts) and not _is_file(nodes)):
        return Cluster(pool_of_spec(nodes))
    if not _is_file(nodes):
        raise ClusterError(
            f"--nodes: {shown(nodes)} is neither a file nor a cluster: {HOW}; or name a CSV file of nodes"
        )
    return cluster_of_file(Path(nodes))


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # a name too long, or in a directory that may not be read
        return False


def pool_of_spec(spec: str) -> Pool:
    """The cluster of a text: memory without limit, one rack, and one NVLink group for each node. ClusterError names all
    parts that can't be used, a line for each number out of range, up to ``MAX_TOLD`` lines."""
    parts = [part.strip() for part in spec.split(",")]
    matches = [_PART.fullmatch(part) for part in parts]
    sizes = [(int(match[1]), int(match[2]), match[3] or ANY_MODEL) for match in matches if match]
    wrong = [*_unreadable(part for part, match in zip(parts, matches, strict=True) if match is None)]
    read = [part for part, match in zip(parts, matches, strict=True) if match]
    for part, (size, count, _) in zip(read, sizes, strict=True):
        wrong += _out_of_range(part, size, count)
    within = sum(size * count for size, count, _ in sizes if not [*_out_of_range("", size, count)])
    if within > MAX_GPUS:
        wrong.append(f"--nodes: {shown(spec)} has more than {MAX_GPUS} GPUs in all: ask for fewer nodes")
    if wrong:
        raise ClusterError(in_lines(wrong))
    nodes: list[Node] = []
    gpus: list[Gpu] = []
    for place, (size, count, model) in enumerate(sizes):
        for number in range(count):
            name = f"n{place}-{number:0{len(str(count - 1))}d}"
            nodes.append(Node(name, "rack"))
            gpus.extend(_gpus(name, size, model=model, memory_mib=UNLIMITED_MIB, group=f"{name}-nvlink"))
    return Pool(tuple(nodes), tuple(gpus))


def _unreadable(parts: Iterable[str]) -> Iterator[str]:
    """That these parts of a text can't be read, if there are any."""
    told = [shown(part) for part in dict.fromkeys(parts)]
    if told:
        more = f" and {len(told) - MAX_TOLD} more" if len(told) > MAX_TOLD else ""
        yield f"--nodes: {', '.join(told[:MAX_TOLD])}{more} can't be read: {HOW}"


def _out_of_range(part: str, size: int, count: int) -> Iterator[str]:
    """That there are no nodes of so many GPUs, or not so many nodes."""
    for number, most, what in ((size, MAX_GPUS_PER_NODE, "GPUs on each node"), (count, MAX_NODES, "nodes")):
        if not 1 <= number <= most:
            yield f"--nodes: {shown(part)} asks for {shown(number)} {what}; ask for 1 to {most}"


def pool_of_file(path: Path) -> Pool:
    """The pool of :func:`cluster_of_file`."""
    return cluster_of_file(path).pool


def cluster_of_file(path: Path) -> Cluster:
    """The cluster of a CSV(.gz) file with the columns ``COLUMNS``, of which node and gpus must be there.

    No ``gpu_mem_gb``: memory without limit; no ``rack``: the rack "". Nodes of 0 GPUs are left out.
    """
    silent, bare, in_all = list(UNUSED), 0, 0
    nodes: list[Node] = []
    gpus: list[Gpu] = []
    seen: dict[str, int] = {}
    wrong: list[str] = []
    for row in rows_of(path, COLUMNS, required=("node", "gpus"), wrong=wrong):
        faults = [*faults_of(row, CELLS), *_again(row, seen)]
        if faults or row.unknown:
            wrong += faults
            continue
        name, size = _name(row), _size(row)
        silent = [column for column in silent if not row.text(column)]
        bare += size == 0
        before, in_all = in_all, in_all + size
        if before <= MAX_GPUS < in_all:
            wrong.append(str(row.wrong("gpus", f"makes more than {MAX_GPUS} GPUs in all; leave nodes out")))
        if 0 < size <= MAX_GPUS - before:
            nodes.append(Node(name, row.text("rack")))
            gpus.extend(_gpus_of_row(name, size, row))
    refuse(wrong)
    if not gpus:
        raise TableError(f"{path.name} has no node with GPUs; put at least one in the column gpus")
    idle = [f"the column {column} of the nodes is not used: only GPUs are counted" for column in UNUSED
            if column not in silent]  # fmt: skip
    if bare:
        idle.append(f"{nodes_in_words(bare)} {agree(bare, 'has', 'have')} 0 gpus: no job can run there")
    return Cluster(Pool(tuple(nodes), tuple(gpus)), tuple(idle))


def says_types(pool: Pool) -> bool:
    """Whether any GPU has a stated type: only then can a wish for a type be held against the cluster."""
    return any(gpu.model != ANY_MODEL for gpu in pool.gpus)


def _again(row: Row, seen: dict[str, int]) -> list[str]:
    """That a node of this name was there before; it is known from now on."""
    name = row.text("node")
    first = seen.setdefault(name, row.line)
    if not name or first == row.line:
        return []
    return [str(row.wrong("node", f"names {name!r} again (first on line {first}); give every node its own name"))]


def _name(row: Row) -> str:
    if not row.text("node"):
        raise row.wrong("node", "is empty; give every node a name")
    return row.text("node")


def _size(row: Row) -> int:
    size = row.whole("gpus", least=0, most=MAX_GPUS_PER_NODE)
    if size is None:
        raise row.wrong("gpus", f"is empty; write a whole number from 0 to {MAX_GPUS_PER_NODE}")
    return size


def _memory_mib(row: Row) -> int:
    memory_gb = row.number("gpu_mem_gb", most=MAX_MEM_GB)
    if memory_gb is not None and memory_gb <= 0:
        what = f"is {row.text('gpu_mem_gb')!r}; write more than 0, or leave it empty for no limit"
        raise row.wrong("gpu_mem_gb", what)
    return UNLIMITED_MIB if memory_gb is None else parse_memory(memory_gb)


CELLS: tuple[Callable[[Row], object], ...] = (
    _name, _size, _memory_mib, *(partial(Row.number, column=column, least=0) for column in UNUSED),
)  # fmt: skip


def _gpus_of_row(name: str, size: int, row: Row) -> Iterator[Gpu]:
    group = row.text("nvlink_group") or None
    return _gpus(name, size, model=row.text("gpu_type") or ANY_MODEL, memory_mib=_memory_mib(row), group=group)


def _gpus(name: str, size: int, *, model: str, memory_mib: int, group: str | None) -> Iterator[Gpu]:
    first = Gpu(f"{name}/0", name, 0, model, memory_mib, group)
    width = len(str(size - 1))
    for index in range(size):
        yield replace(first, uuid=f"{name}/{index:0{width}d}", index=index)
