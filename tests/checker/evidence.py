"""What the checker judges by: the product's events and final rows, and what the job processes wrote themselves.

Instants are seconds of the epoch. The two logs meet on the wall clock, so a history belongs to one machine whose clock
did not jump; job processes among themselves are compared on the boot-time clock.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

QUEUED, DISPATCHING, RUNNING = "QUEUED", "DISPATCHING", "RUNNING"
ENDED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "REJECTED")
# The lines of job processes; others are of clients and of agents.
OF_A_PROCESS = ("start", "step", "saved", "resumed", "collision", "end", "died")


@dataclass(frozen=True)
class Violation:
    """What was broken, by which two facts that can't both be lawful, and about what."""

    what: str
    first: str
    second: str
    job: str = ""
    attempt: str = ""
    gpu: str = ""
    at: float | None = None


@dataclass(frozen=True)
class House:
    """What held for the whole history. ``settled``: faults are over, so what had to happen in the end has happened."""

    scale: float = 1.0
    exported_at: float = 0.0
    log_limit: int = 4 * 1024 * 1024
    half_life_s: float = 7 * 86400.0
    settled: bool = False

    # The waits of the design, as the whole set is scaled; how far clocks and writers may lag behind what they saw.
    heartbeat_s = property(lambda self: 10 * self.scale)
    fence_s = property(lambda self: 45 * self.scale)
    kill_s = property(lambda self: 10 * self.scale)
    lease_s = property(lambda self: 60 * self.scale)
    claim_s = property(lambda self: 60 * self.scale)
    cancel_s = property(lambda self: 40 * self.scale)
    grace_s = property(lambda self: 120 * self.scale)
    heal_s = property(lambda self: 120 * self.scale)
    cycle_s = 2.0
    cycles = 3
    slack_s = 0.5


@dataclass(frozen=True)
class Event:
    """One row of the event table."""

    seq: int
    at: float
    type: str
    object: str
    object_id: str
    actor: str = ""
    attempt: str = ""
    epoch: int = 0
    node: str = ""
    message: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"event {self.seq} ({self.type} at {self.at:.3f})"


@dataclass(frozen=True)
class Run:
    """One attempt as the events tell it."""

    granted: Event
    ended: Event | None

    job = property(lambda self: self.granted.object_id)
    attempt = property(lambda self: self.granted.attempt)
    epoch = property(lambda self: self.granted.epoch)
    gpus = property(lambda self: tuple(self.granted.data["gpus"]))
    number = property(lambda self: self.granted.data["number"])
    outcome = property(lambda self: self.ended.data["outcome"] if self.ended else "")
    cause = property(lambda self: self.ended.data.get("cause", "") if self.ended else "")


@dataclass(frozen=True)
class Process:
    """One job process as it told of itself. ``until`` is when it certainly still lived, on the boot-time clock."""

    job: str
    epoch: int
    pid: int
    gpus: tuple[str, ...]
    start: float
    until: float
    # what to add to a boot-time instant to have it on the wall clock
    offset: float
    steps: tuple[tuple[str, int | None], ...] = ()

    @property
    def name(self) -> str:
        """Who it is, in words."""
        return f"process {self.pid} of job {self.job} at epoch {self.epoch}"

    begins = property(lambda self: self.start + self.offset)
    alive = property(lambda self: self.until + self.offset)


@dataclass(frozen=True)
class Evidence:
    """Everything there is to judge by; what is derived from it is worked out once."""

    house: House
    events: Sequence[Event]
    rows: Mapping[str, Sequence[Row]]
    truth: Sequence[Row] = ()
    artifacts: Path | None = None

    def table(self, name: str) -> Sequence[Row]:
        """The final rows of that name; none for a table that was not exported."""
        return self.rows.get(name, ())

    @cached_property
    def runs(self) -> dict[str, Run]:
        """Every granted attempt by its id, in the order of their grants."""
        ended: dict[str, Event] = {}
        for event in self.events:
            if event.type == "attempt_ended":
                ended.setdefault(event.attempt, event)
        return {e.attempt: Run(e, ended.get(e.attempt)) for e in self.events if e.type == "granted"}

    @cached_property
    def runs_of(self) -> dict[str, list[Run]]:
        """The attempts of each job, in the order of their grants."""
        found: dict[str, list[Run]] = defaultdict(list)
        for run in self.runs.values():
            found[run.job].append(run)
        return dict(found)

    @cached_property
    def run_of(self) -> dict[tuple[str, int], Run]:
        """The attempt of a job at an epoch."""
        return {(run.job, run.epoch): run for run in self.runs.values()}

    @cached_property
    def jobs(self) -> dict[str, Row]:
        """The final row of each job."""
        return {row["id"]: row for row in self.table("job")}

    @cached_property
    def attempts(self) -> dict[str, Row]:
        """The final row of each attempt."""
        return {row["id"]: row for row in self.table("attempt")}

    @cached_property
    def gpus(self) -> dict[str, Row]:
        """The final row of each GPU."""
        return {row["uuid"]: row for row in self.table("gpu")}

    @cached_property
    def allocations(self) -> dict[str, list[Row]]:
        """The allocation rows of each attempt."""
        return _by(self.table("allocation"), "attempt")

    @cached_property
    def parts(self) -> dict[str, list[Row]]:
        """What each node had of each attempt."""
        return _by(self.table("part"), "attempt")

    @cached_property
    def steps(self) -> dict[str, list[Event]]:
        """The events of each job that changed its state."""
        found: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.object == "job" and "to" in event.data:
                found[event.object_id].append(event)
        return dict(found)

    @cached_property
    def processes(self) -> list[Process]:
        """Every job process that said it began, by its beginning."""
        logs = _by([r for r in self.truth if r["event"] in OF_A_PROCESS], "job", "epoch", "pid")
        found = [_process(rows) for rows in logs.values() if any(r["event"] == "start" for r in rows)]
        return sorted(found, key=lambda p: p.start)

    @cached_property
    def processes_of(self) -> dict[tuple[str, int], list[Process]]:
        """The processes of each job at each epoch."""
        found: dict[tuple[str, int], list[Process]] = defaultdict(list)
        for process in self.processes:
            found[process.job, process.epoch].append(process)
        return dict(found)

    def told(self, event: str) -> Iterator[Row]:
        """The truth's lines of that kind."""
        return (row for row in self.truth if row["event"] == event)

    def node_of(self, process: Process) -> str:
        """The node on which it lived, "" for one without GPUs."""
        return next((str(self.gpus[gpu]["node"]) for gpu in process.gpus if gpu in self.gpus), "")


def _by(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        key = tuple(row[n] for n in names)
        found[key if len(names) > 1 else key[0]].append(row)
    return dict(found)


def _process(rows: Sequence[Row]) -> Process:
    """The process of these lines: one that was killed lived until shortly before it was seen dead, at least."""
    begun = next(r for r in rows if r["event"] == "start")
    own = max(r["at"] for r in rows if r["event"] != "died")
    died = [r["at"] for r in rows if r["event"] == "died"]
    said_so = any(r["event"] == "end" for r in rows)
    until = own if said_so or not died else max(own, died[0] - House.slack_s)
    steps = tuple((r["event"], r.get("step")) for r in rows if r["event"] in ("step", "saved", "resumed"))
    offset = begun["wall"] - begun["at"]
    return Process(begun["job"], begun["epoch"], begun["pid"], tuple(begun["gpus"]), begun["at"], until, offset, steps)


def read(events: Iterable[str], truth: Sequence[Row] = (), *, artifacts: Path | None = None) -> Evidence:
    """The evidence in the lines that :mod:`tests.checker.export` wrote and in what :func:`told` read *before* them.

    ValueError names a line that is none of these.
    """
    house, found, rows = House(), [], defaultdict(list)
    for number, line in enumerate(events, 1):
        try:
            row = json.loads(line)
            table = row.pop("table")
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            raise ValueError(f"line {number} is no exported row: {wrong!r}") from wrong
        if table == "house":
            house = House(**row)
        elif table == "event":
            found.append(Event(**row))
        else:
            rows[table].append(row)
    return Evidence(house, tuple(sorted(found, key=lambda e: e.seq)), dict(rows), truth, artifacts)


def told(directory: Path | None) -> tuple[Row, ...]:
    """Every whole line of the logs in the directory; a line that a killed process began is left out."""
    found = []
    for path in sorted(directory.glob("*.jsonl")) if directory is not None else ():
        for line in path.read_text("utf-8").split("\n"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return tuple(found)
