"""What was stored: whole before it was visible, resumed from where it says, and no more than may be kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.checker.evidence import Event, Evidence, Row, Run, Violation

LAST_LINE = 200


def what_is_visible_is_whole(e: Evidence) -> Iterator[Violation]:
    """Every artifact's bytes are there and are what its manifest says; one that is marked corrupt is told already, and
    one that was deleted may have lost them."""
    if e.artifacts is None:
        return
    seen: dict[str, str] = {}
    for artifact in e.table("artifact"):
        for entry in () if artifact["corrupt"] or artifact.get("deleted_at") else artifact["files"]:
            sha = entry["sha256"]
            wrong = seen[sha] if sha in seen else seen.setdefault(sha, _wrong(e.artifacts, entry))
            if wrong:
                yield Violation(
                    "an artifact is visible and not whole",
                    f"{artifact['kind']} {artifact['id']} lists {entry['path']} of {entry['size']} bytes",
                    wrong,
                    artifact["job"] or "",
                )


def _wrong(root: Path, entry: Row) -> str:
    """What is wrong with the stored bytes of the file; empty when nothing is."""
    path = root / "objects" / entry["sha256"][:2] / entry["sha256"][2:]
    if not path.exists():
        return "its bytes are not in the store"
    content = path.read_bytes()
    if len(content) != entry["size"] or hashlib.sha256(content).hexdigest() != entry["sha256"]:
        return f"the store has {len(content)} bytes of another digest"
    return ""


def a_job_resumes_where_it_was_saved(e: Evidence) -> Iterator[Violation]:
    """A checkpoint is committed before it is used or told of, and the process says the same.

    Steps never go back, unless the newest checkpoint was given up: damaged, or begun with twice and not got beyond.
    """
    committed: dict[str, Event] = {}
    authors: set[str] = set()
    for event in e.events:
        if event.type == "artifact_committed":
            committed.setdefault(event.object_id, event)
            authors.add(event.attempt)
        elif event.type == "checkpoint_committed" and event.attempt not in authors:
            yield Violation(
                "a checkpoint was told of that nobody committed",
                str(event),
                "no bytes were committed before",
                event.object_id,
                event.attempt,
                at=event.at,
            )
    for job, runs in e.runs_of.items():
        step = 0
        for place, run in enumerate(runs):
            row = e.attempts.get(run.attempt)
            if row is None:
                continue
            about = {"job": job, "attempt": run.attempt, "at": run.granted.at}
            source = committed.get(row["resume"] or "")
            if row["resume"] and (source is None or source.seq > run.granted.seq):
                yield Violation(
                    "an attempt resumes from what was not committed",
                    str(run.granted),
                    f"checkpoint {row['resume']}: {source or 'never committed'}",
                    **about,
                )
            if row["resume_step"] < step and _may_go_back(e, runs[:place], run, row):
                step = 0
            if row["resume_step"] < step:
                yield Violation(
                    "the saved step went back",
                    f"an attempt before resumed at step {step}",
                    f"{run.granted} resumes at step {row['resume_step']}",
                    **about,
                )
            step = max(step, row["resume_step"])
            yield from _as_the_process_says(e, run, row)


def _may_go_back(e: Evidence, before: Sequence[Run], run: Run, row: Row) -> bool:
    """Whether it was told since the run before that the job begins with just this, and why, and that is so."""
    told = [
        event.data
        for event in e.events
        if event.type == "checkpoint_given_up"
        and event.object_id == run.job
        and before[-1].granted.seq < event.seq < run.granted.seq
    ]
    says_this = bool(told) and (told[-1]["instead"], told[-1]["instead_step"]) == (row["resume"], row["resume_step"])
    return says_this and all(_is_given_up(e, before, each) for each in told)


def _is_given_up(e: Evidence, before: Sequence[Run], told: Row) -> bool:
    if told["why"] in ("corrupt", "deleted"):
        mark = {"corrupt": "corrupt", "deleted": "deleted_at"}[told["why"]]
        return any(artifact.get(mark) for artifact in e.table("artifact") if artifact["id"] == told["artifact"])
    rows = [(run.attempt, e.attempts.get(run.attempt, {})) for run in before]
    begun = [name for name, row in rows if row.get("resume") == told["artifact"] and row.get("started_at")][-2:]
    return len(begun) == 2 and not any(_got_on(e, attempt, told["step"]) for attempt in begun)


def _got_on(e: Evidence, attempt: str, step: int) -> bool:
    by_it = [event for event in e.events if event.attempt == attempt]
    return any(
        event.type == "checkpoint_committed" or (event.type == "progress" and event.data["step"] > step)
        for event in by_it
    )


def _as_the_process_says(e: Evidence, run: Run, row: Row) -> Iterator[Violation]:
    for process in e.processes_of.get((run.job, run.epoch), ()):
        resumed = [step for event, step in process.steps if event == "resumed"]
        if bool(resumed) != bool(row["resume"]) or any(s not in (None, row["resume_step"]) for s in resumed):
            yield Violation(
                "a process resumed otherwise than its attempt says",
                f"{process.name}: resumed {resumed}",
                f"its attempt: {row['resume'] or 'no checkpoint'} at step {row['resume_step']}",
                run.job,
                run.attempt,
                at=process.begins,
            )


def logs_are_bounded(e: Evidence) -> Iterator[Violation]:
    """No attempt has more log stored, or counted, than is kept of one, but for the line that says so."""
    limit = e.house.log_limit
    sizes = {row["attempt"]: row["size"] for row in e.table("log")}
    for attempt, row in e.attempts.items():
        size = max(sizes.get(attempt, 0) - LAST_LINE, row["log_bytes"])
        if size > limit:
            yield Violation(
                "more log is kept than may be", f"{size} bytes", f"the limit is {limit}", row["job"], attempt
            )
