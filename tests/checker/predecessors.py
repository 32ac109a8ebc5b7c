"""What waits for other jobs: it is placed after all of them, ends with the first that fails, and has their outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from tests.checker.evidence import ENDED, Event, Evidence, Row, Violation

WAITING = ("QUEUED", "HELD")
OUTPUT = re.compile(r"@([0-9a-fA-F-]{32,36})(?:/.*)?", re.DOTALL)
NO_OUTPUTS = ("argv", "shell", "env")  # words of a command line name none


def a_job_comes_after_those_that_it_waits_for(e: Evidence) -> Iterator[Violation]:
    """No grant before the end of every predecessor, and none but in success unless any end will do; nobody waits for
    what has ended; whoever was granted GPUs has each output that it names."""
    for job, rows in _predecessors(e).items():
        about = e.jobs[job]
        ends = {row["before"]: _end(e, row["before"]) for row in rows}
        for run in e.runs_of.get(job, ())[:1]:
            for before, end in ends.items():
                if end is None or end.seq > run.granted.seq or not _will_do(end, about):
                    fact = f"{before}: {end or 'has not ended'} {'' if end is None else end.data['to']}"
                    yield Violation(
                        "a job was granted GPUs before its time", str(run.granted), fact, job, at=run.granted.at
                    )
            yield from _without_inputs(e, about, rows, run.granted)
        if about["state"] in WAITING:
            yield from _waits_rightly(about, ends)
        elif e.steps[job][-1].data.get("cause") == "after" and all(
            end is not None and _will_do(end, about) for end in ends.values()
        ) and about["state"] == "CANCELLED":  # fmt: skip
            yield Violation("a job ended with others that ended well", str(e.steps[job][-1]), f"{_told(ends)}", job)


def _predecessors(e: Evidence) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in e.table("predecessor"):
        found.setdefault(row["job"], []).append(row)
    return found


def _end(e: Evidence, job: str) -> Event | None:
    """The event with which the job ended."""
    return next((step for step in e.steps.get(job, ()) if step.data["to"] in ENDED), None)


def _will_do(end: Event, job: Row) -> bool:
    return bool(job["after_any"]) or end.data["to"] == "SUCCEEDED"


def _waits_rightly(job: Row, ends: dict[str, Event | None]) -> Iterator[Violation]:
    bad = {before: end for before, end in ends.items() if end is not None and not _will_do(end, job)}
    if bad:
        yield Violation("a job waits for one that has failed", f"it is {job['state']}", _told(bad), job["id"])
    there = sum(end is None for end in ends.values())
    if job["awaits"] != there:
        fact = f"{there} of its predecessors have yet to end: {_told(ends)}"
        yield Violation("a job counts its predecessors wrongly", f"it awaits {job['awaits']}", fact, job["id"])


def _told(ends: Mapping[str, Event | None]) -> str:
    return ", ".join(f"{before} {'runs on' if end is None else end.data['to']}" for before, end in ends.items())


def _without_inputs(e: Evidence, job: Row, rows: list[Row], granted: Event) -> Iterator[Violation]:
    before = {row["named"]: row["before"] for row in rows}
    has = {each["artifact"] for each in job["spec"].get("inputs", ())}
    for named in sorted(set(_named(job["params"]))):
        of = before.get(named)
        made = {row["artifact"] for row in e.table("output") if row["job"] == of}
        if not made & has:
            yield Violation(
                "a job was granted GPUs without an input", str(granted), f"it reads an output of {named}: of those of "
                f"{of} ({', '.join(sorted(made)) or 'none'}) it has none", job["id"], at=granted.at,
            )  # fmt: skip


def _named(value: Any) -> Iterator[str]:
    """The jobs whose outputs the parameters name."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name not in NO_OUTPUTS:
                yield from _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)
    elif isinstance(value, str) and (found := OUTPUT.fullmatch(value)) is not None:
        yield str(UUID(found[1]))
