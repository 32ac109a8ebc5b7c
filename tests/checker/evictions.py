"""Evictions: allowed by the table, useful, and the freed GPUs go to the job that they were freed for.

The event ``nominated`` of the job that is to get the GPUs follows those of its victims in one transaction, and says
how many they are; that is how the checker knows who left for whom.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.checker.evidence import QUEUED, Event, Evidence, Violation


@dataclass(frozen=True)
class Eviction:
    """One decision: who is to get which GPUs until when, and the events of those who were asked to leave."""

    nominated: Event
    victims: tuple[Event, ...]

    gpus = property(lambda self: frozenset(self.nominated.data["gpus"]))
    deadline = property(lambda self: datetime.fromisoformat(self.nominated.data["deadline"]).timestamp())


def evictions(e: Evidence) -> Iterator[Eviction]:
    """Every decision to evict, in the order of the log."""
    asked: list[Event] = []
    for event in e.events:
        if event.type == "preempting" and event.data.get("cause") == "preempt":
            asked.append(event)
        elif event.type == "nominated":
            count = event.data["victims"]
            yield Eviction(event, tuple(v for v in asked[len(asked) - count :] if v.at == event.at))
            asked.clear()


def only_the_rule_table_evicts(e: Evidence) -> Iterator[Violation]:
    """Every victim may be evicted, and by a job of that queue and level, as the table of rules stands."""
    rules = {(r["queue"], r["level"], r["victim_queue"], r["victim_level"]) for r in e.table("rule")}
    for eviction in evictions(e):
        wants = e.jobs.get(eviction.nominated.object_id)
        for victim in eviction.victims:
            row = e.jobs.get(victim.object_id)
            if row is None or wants is None:
                continue
            first = f"job {wants['id']} is {wants['level']} of {wants['queue']}"
            second = f"job {row['id']} is {row['level']} of {row['queue']}, preemptible: {row['preemptible']}"
            allowed = (wants["queue"], wants["level"], row["queue"], row["level"]) in rules
            if not allowed or not row["preemptible"]:
                yield Violation(
                    "an eviction that no rule allows", first, second, row["id"], victim.attempt, at=victim.at
                )


def no_eviction_is_in_vain(e: Evidence) -> Iterator[Violation]:
    """The nominated GPUs are all that the job needs, free or its victims'; no victim leaves who has none of them."""
    for eviction in evictions(e):
        told, wants = eviction.nominated, e.jobs.get(eviction.nominated.object_id)
        about: dict[str, Any] = {"job": told.object_id, "at": told.at}
        if len(eviction.victims) != told.data["victims"]:
            facts = f"{told} speaks of {told.data['victims']}", f"{len(eviction.victims)} were asked with it"
            yield Violation("victims that nobody asked", *facts, **about)
        if wants is not None and len(eviction.gpus) < wants["gpu_count"]:
            facts = f"{told} has {len(eviction.gpus)} GPUs", f"the job needs {wants['gpu_count']}"
            yield Violation("an eviction that frees too little", *facts, **about)
        held = {gpu: run for run in e.runs.values() for gpu in run.gpus
                if run.granted.seq < told.seq and (run.ended is None or run.ended.seq > told.seq)}  # fmt: skip
        leaving = {victim.attempt for victim in eviction.victims}
        for gpu in sorted(eviction.gpus & held.keys()):
            if held[gpu].attempt not in leaving:
                facts = str(told), f"attempt {held[gpu].attempt} has it and was not asked"
                yield Violation("a GPU was promised that nobody leaves", *facts, gpu=gpu, **about)
        for victim in eviction.victims:
            if not eviction.gpus & set(e.runs[victim.attempt].gpus):
                facts = str(victim), f"{told} has none of its GPUs"
                yield Violation("a job was evicted for nothing", *facts, **about)


def freed_gpus_go_to_whom_they_were_freed_for(e: Evidence) -> Iterator[Violation]:
    """Until it starts, waits no more, or its nomination ends, nobody else gets what is kept."""
    for eviction in evictions(e):
        told, ends = eviction.nominated, eviction.deadline
        for step in e.steps.get(told.object_id, ()):
            if step.seq > told.seq and step.data["to"] != QUEUED:
                ends = min(ends, step.at)
                break
        for again in evictions(e):
            if again.nominated.object_id == told.object_id and again.nominated.seq > told.seq:
                ends = min(ends, again.nominated.at)
        for event in e.events:
            ended = event.type in ("not_saved", "nomination_ended")
            if ended and event.object_id == told.object_id and event.seq > told.seq:
                ends = min(ends, event.at)
        for run in e.runs.values():
            for gpu in sorted(eviction.gpus & set(run.gpus)):
                if run.granted.seq > told.seq and run.job != told.object_id and run.granted.at < ends:
                    yield Violation(
                        "a GPU that was kept for another job was given away",
                        f"{told} keeps it until {ends:.3f}",
                        str(run.granted),
                        run.job,
                        run.attempt,
                        gpu,
                        run.granted.at,
                    )
