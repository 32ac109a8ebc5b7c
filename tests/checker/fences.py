"""Who may write: live attempts at their epoch, one scheduler, nodes as long as their lease, all of it on record."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.checker.evidence import Event, Evidence, Violation

# What only a live attempt's node may bring about; steps of the job that follow from its end are not among them.
OF_A_LIVE_ATTEMPT = {
    "claimed",
    "running",
    "progress",
    "log",
    "checkpoint_committed",
    "checkpoint_refused",
    "artifact_committed",
    "attempt_ended",
}
# What comes with a heartbeat, and so proves that one was accepted. Bytes and claims come by other doors.
BY_HEARTBEAT = {
    "running",
    "progress",
    "log",
    "checkpoint_committed",
    "checkpoint_refused",
    "attempt_ended",
    "node_registered",
}
LEADER = re.compile(r"scheduler (\d+)")


def nothing_of_a_fenced_attempt_is_accepted(e: Evidence) -> Iterator[Violation]:
    """Whatever is written about an attempt is written at its epoch, after its grant and not after its end."""
    for event in e.events:
        if event.type not in OF_A_LIVE_ATTEMPT or not event.attempt:
            continue
        run = e.runs.get(event.attempt)
        if run is None or event.seq < run.granted.seq:
            fact = "the attempt had not been granted"
        elif event.epoch != run.epoch:
            fact = f"the attempt's epoch is {run.epoch}, not {event.epoch}"
        elif run.ended is not None and run.ended.seq < event.seq:
            fact = f"the attempt had ended: {run.ended}"
        else:
            continue
        yield Violation(
            "a fenced attempt changed something", str(event), fact, event.object_id, event.attempt, at=event.at
        )
    for output in e.table("output"):
        made = e.attempts.get(output["attempt"] or "")
        if made is not None and (made["outcome"] != "SUCCEEDED" or made["job"] != output["job"]):
            first, second = f"artifact {output['artifact']} is an output", f"its attempt ended {made['outcome']}"
            yield Violation("an output of an attempt that did not succeed", first, second, output["job"], made["id"])


def a_node_is_lost_only_after_its_lease(e: Evidence) -> Iterator[Violation]:
    """Since the last heartbeat that is known to have been accepted from a lost node, its whole lease has passed."""
    answered = list(e.told("answered"))
    for event in e.events:
        if event.type == "node_lost":
            late = [a["wall"] - (a["at"] - a["sent"]) for a in answered
                    if a["node"] == event.object_id and a["wall"] <= event.at]  # fmt: skip
            if late and event.at - max(late) < e.house.lease_s - e.house.slack_s:
                fact = f"what it sent at {max(late):.3f} had been answered"
                yield Violation("a node was given up before its lease was over", fact, str(event), at=event.at)
    heard: dict[str, Event] = {}
    for event in e.events:
        if event.type == "node_lost":
            last = heard.get(event.object_id)
            if last is not None and event.at - last.at < e.house.lease_s - e.house.slack_s:
                yield Violation("a node was given up before its lease was over", str(last), str(event), at=event.at)
        elif event.type in BY_HEARTBEAT and event.actor.startswith("node "):
            heard[event.actor.removeprefix("node ")] = event


def one_scheduler_epoch_writes(e: Evidence) -> Iterator[Violation]:
    """Once a scheduler of a later epoch has written, none of an earlier one does."""
    latest: tuple[int, Event] | None = None
    for event in e.events:
        leader = LEADER.fullmatch(event.actor)
        if leader is None:
            continue
        epoch = int(leader[1])
        if latest is not None and epoch < latest[0]:
            yield Violation(
                "a deposed scheduler wrote",
                f"epoch {latest[0]} wrote {latest[1]}",
                f"epoch {epoch} wrote {event}",
                event.object_id,
                event.attempt,
                at=event.at,
            )
        else:
            latest = (epoch, event)


def every_change_is_on_record_with_its_actor(e: Evidence) -> Iterator[Violation]:
    """Each event names who did it, and no row is there, or in a state, that no event tells of."""
    for event in e.events:
        if not event.actor:
            yield Violation("nobody did it", str(event), "it has no actor", event.object_id, event.attempt, at=event.at)
    for job, row in e.jobs.items():
        steps = e.steps.get(job, [])
        told = steps[-1].data["to"] if steps else "nothing"
        if told != row["state"]:
            yield Violation(
                "a state that no event tells of", f"the row says {row['state']}", f"the events say {told}", job
            )
    for attempt, row in e.attempts.items():
        run = e.runs.get(attempt)
        if run is None or run.epoch != row["epoch"] or (run.ended is None) != (row["ended_at"] is None):
            yield Violation(
                "an attempt that the events tell otherwise",
                f"the row: epoch {row['epoch']}, ended {row['ended_at']}",
                f"the events: {run.granted if run else 'no grant'}, {run.ended if run else ''}",
                row["job"],
                attempt,
            )
    for attempt in e.runs.keys() - e.attempts.keys():
        yield Violation(
            "an attempt that has no row", str(e.runs[attempt].granted), "there is no row", e.runs[attempt].job, attempt
        )
