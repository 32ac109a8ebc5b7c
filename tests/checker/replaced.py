"""Who has taken whose place: one for one, only of a job that never had GPUs, and no better a place than that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from tests.checker.evidence import Event, Evidence, Row, Violation

OWNER = ("project", "queue", "level", "user_name")
SIZE = ("gpu_count", "max_duration_s")


def since(submitted: Event) -> float:
    """When the job of this event stands in the queue since: for one that has kept another's place, since that stood."""
    told = submitted.data.get("since")
    return submitted.at if told is None else datetime.fromisoformat(told).timestamp()


def a_job_gives_way_to_one_and_before_it_ever_started(e: Evidence) -> Iterator[Violation]:
    """Whoever replaces a job says so as the cancelled one does, alone, and keeps its place only if it asks no more."""
    gone = {job: event for job, steps in e.steps.items() for event in steps if event.data.get("replaced_by")}
    takers = Counter(row["replaces"] for row in e.jobs.values() if row.get("replaces"))
    for job, steps in e.steps.items():
        row, first = e.jobs.get(job), steps[0]
        named = first.data.get("replaces")
        if row is None or not (named or row.get("replaces")):
            continue
        for fact in _wrong(e, row, first, gone.get(named or ""), takers=takers[named]):
            yield Violation("a job took a place that it may not have", str(first), fact, job, at=first.at)
    for job, event in gone.items():
        to = e.jobs.get(event.data["replaced_by"])
        if to is None or to.get("replaces") != job:
            yield Violation(
                "a job gave way to none", str(event), f"{event.data['replaced_by']} did not replace it", job
            )


def _wrong(e: Evidence, row: Row, first: Event, gave_way: Event | None, *, takers: int) -> Iterator[str]:
    named = first.data.get("replaces")
    if row["replaces"] != named:
        yield f"its row names {row['replaces']}, its event {named}"
    if takers > 1:
        yield f"{takers} jobs have replaced {named}"
    if gave_way is None or gave_way.data["replaced_by"] != row["id"] or gave_way.type != "cancelled":
        yield f"{named} was not cancelled for it"
    if named in e.runs_of:
        yield f"{named} had been granted: {e.runs_of[named][0].granted}"
    old = e.jobs.get(named or "")
    if old is None or first.data.get("since") is None:
        return
    if since(first) != old["submitted_at"]:
        yield f"it stands there since {since(first):.3f}, {named} since {old['submitted_at']:.3f}"
    if [row[n] for n in OWNER] != [old[n] for n in OWNER] or any(row[n] > old[n] for n in SIZE):
        yield f"it is another's, or asks for more than {named}: {[(n, old[n], row[n]) for n in (*OWNER, *SIZE)]}"
