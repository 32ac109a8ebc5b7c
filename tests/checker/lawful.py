"""Lawful histories, written down event by event as a house without faults of its own would leave them.

A test takes one that is lawful and changes the least that breaks one invariant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.checker.evidence import Event, Evidence, House

EPOCH = 1_000_000.0
LEVELS = {"Critical": 4, "High": 3, "Normal": 2, "Low": 1}


@dataclass
class Grant:
    """One attempt that the history knows of."""

    job: str
    attempt: str
    epoch: int
    gpus: tuple[str, ...]


@dataclass
class History:
    """The logs so far. Instants are seconds after the beginning; boot-time clocks began a thousand seconds later."""

    half_life_s: float = 0.0
    events: list[Event] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    truth: list[dict[str, Any]] = field(default_factory=list)
    pids: int = 100

    def event(self, at: float, kind: str, thing: str, about: str, **more: Any) -> Event:
        """The event is the newest of the log."""
        told = Event(len(self.events) + 1, EPOCH + at, kind, thing, about, **{"actor": "system", **more})
        self.events.append(told)
        return told

    def row(self, table: str, **values: Any) -> dict[str, Any]:
        """The row is in the table."""
        self.rows.setdefault(table, []).append(values)
        return values

    def find(self, table: str, key: str, value: str) -> dict[str, Any]:
        """The row of the table whose ``key`` is that."""
        return next(row for row in self.rows[table] if row[key] == value)

    def node(self, name: str, at: float = 0, *, gpus: int = 2, memory_mib: int = 80_000) -> list[str]:
        """The node has registered with GPUs of one NVLink group; their UUIDs."""
        self.event(at, "node_registered", "node", name, actor=f"node {name}", node=name,
                   data={"to": "READY", "boot_id": f"b{at:g}"})  # fmt: skip
        uuids = [f"{name}-g{i}" for i in range(gpus)]
        if not any(row["name"] == name for row in self.rows.get("node", ())):
            self.row("node", name=name, state="READY", last_heartbeat_at=EPOCH + at, leaving=False, disk_low=False)
            for uuid in uuids:
                self.row("gpu", uuid=uuid, node=name, nvlink_group=f"{name}-nv", memory_mib=memory_mib, state="HEALTHY")
                self.event(at, "gpu_state", "gpu", uuid, actor=f"node {name}", node=name, data={"to": "HEALTHY"})
        return uuids

    def job(self, name: str, at: float, *, gpus: int = 1, level: str = "Normal", **more: Any) -> str:
        """The job was submitted, and its client was told so."""
        self.event(at, "submitted", "job", name, actor="user alice", message=f"submitted to merge at {level}",
                   data={"to": "QUEUED", "gpus": gpus})  # fmt: skip
        row = {
            "id": name, "state": "QUEUED", "queue": "merge", "level": level, "level_value": LEVELS[level],
            "project": "alpha", "user_name": "alice", "gpu_count": gpus, "node_count": 1, "gpus_per_node": gpus,
            "remainder": 0, "gpu_memory_min_mib": 0, "nvlink_required": True, "nvlink_exclusive": False,
            "affinity": [], "topology": {}, "not_before": None, "max_duration_s": 3600, "submitted_at": EPOCH + at,
            "ended_at": None, "eligible_at": None, "epoch": 0, "attempt_number": 0, "preempted": False,
            "preempt_count": 0, "infra_failures": 0, "app_failures": 0, "avoid": {},
            "preemptible": True, "replaces": None, "depth": 0, "max_running": None,
            "awaits": 0, "after_any": False, "params": {}, "spec": {},
        }  # fmt: skip
        self.row("job", **{**row, **more})
        self.truth.append({"event": "acknowledged", "at": at + 1000, "wall": EPOCH + at, "job": name, "epoch": 0,
                           "pid": 1, "user": "alice", "key": f"key-{name}"})  # fmt: skip
        return name

    def wait(self, job: str, *before: str) -> None:
        """The job waits for these, which have yet to end."""
        for each in before:
            self.row("predecessor", job=job, before=each, named=each)
        row = self.find("job", "id", job)
        row.update(awaits=len(before), depth=1 + max(self.find("job", "id", each)["depth"] for each in before))

    def replace(self, old: str, new: str, at: float, **more: Any) -> str:
        """The new job was submitted in the place of the old one."""
        row = self.find("job", "id", old)
        self.step(at, "cancelled", old, "CANCELLED", actor="user alice", data={"replaced_by": new})
        since = row["submitted_at"]
        told = {"replaces": old, "since": datetime.fromtimestamp(since, UTC).isoformat()}
        self.job(new, at, **{"submitted_at": since, "replaces": old, **more})
        self.change(self.last("submitted"), data=told)
        return new

    def step(self, at: float, kind: str, job: str, to: str, **more: Any) -> None:
        """The job is in the state, by an event that says so."""
        row = self.find("job", "id", job)
        data = {"from": row["state"], "to": to, **more.pop("data", {})}
        self.event(at, kind, "job", job, data=data, **{"epoch": row["epoch"], **more})
        row["state"] = to

    def grant(self, job: str, at: float, *gpus: str) -> Grant:
        """The job's next attempt has the GPUs, and their node has claimed it."""
        row = self.find("job", "id", job)
        row["attempt_number"], row["epoch"] = row["attempt_number"] + 1, row["epoch"] + 1
        grant = Grant(job, f"{job}-{row['attempt_number']}", row["epoch"], gpus)
        resume = row.get("saved")
        self.step(at, "granted", job, "DISPATCHING", actor="scheduler 1", attempt=grant.attempt,
                  data={"gpus": list(gpus), "number": row["attempt_number"]})  # fmt: skip
        self.row("attempt", id=grant.attempt, job=job, number=row["attempt_number"], epoch=grant.epoch,
                 granted_at=EPOCH + at, started_at=None, ended_at=None, remaining_s=3600,
                 resume=resume[0] if resume else None, resume_step=resume[1] if resume else 0, outcome="",
                 log_bytes=0)  # fmt: skip
        nodes = sorted({self.find("gpu", "uuid", gpu)["node"] for gpu in gpus})
        for rank, node in enumerate(nodes):
            self.row("part", attempt=grant.attempt, node=node, rank=rank, claimed_at=EPOCH + at + 1,
                     ready_at=EPOCH + at + 1 if len(nodes) > 1 else None, started_at=None)  # fmt: skip
        self.event(at + 1, "claimed", "job", job, actor=f"node {nodes[0]}", attempt=grant.attempt, epoch=grant.epoch)
        for gpu in gpus:
            self.row("allocation", attempt=grant.attempt, gpu=gpu, granted_at=EPOCH + at, released_at=None, billing=1.0)
        return grant

    def run(self, grant: Grant, at: float, until: float | None, *, died: float | None = None) -> None:
        """Its process began at ``at`` and says that it ended at ``until``, or was seen dead at ``died``."""
        self.pids += 1
        attempt, node = self.find("attempt", "id", grant.attempt), self.find("gpu", "uuid", grant.gpus[0])["node"]
        self.say(grant, at, "start", gpus=list(grant.gpus))
        if attempt["resume"]:
            self.say(grant, at, "resumed")
        if until is not None:
            self.say(grant, until, "end")
        if died is not None:
            self.say(grant, died, "died")
        attempt["started_at"] = attempt["started_at"] or EPOCH + at
        if self.find("job", "id", grant.job)["state"] == "DISPATCHING":
            self.step(at, "running", grant.job, "RUNNING", actor=f"node {node}", attempt=grant.attempt)

    def say(self, grant: Grant, at: float, event: str, **more: Any) -> None:
        """A line of its newest process's own log."""
        self.truth.append({"event": event, "at": at + 1000, "wall": EPOCH + at, "job": grant.job, "epoch": grant.epoch,
                           "pid": self.pids, **more})  # fmt: skip

    def save(self, grant: Grant, at: float, step: int) -> str:
        """A checkpoint of the attempt is in the store, and the job's next attempt resumes from it."""
        artifact = f"ckpt-{grant.attempt}-{step}"
        node = self.find("gpu", "uuid", grant.gpus[0])["node"]
        by = {"actor": f"node {node}", "attempt": grant.attempt, "epoch": grant.epoch}
        self.event(at, "artifact_committed", "artifact", artifact, data={"kind": "checkpoint"}, **by)
        self.event(at, "checkpoint_committed", "job", grant.job, **by)
        self.find("job", "id", grant.job)["saved"] = (artifact, step)
        return artifact

    def give_up(self, job: str, at: float, to: tuple[str, int] | None, *, why: str = "no_progress") -> None:
        """The job's newest checkpoint is given up: its next attempt begins with another, or at the beginning."""
        row = self.find("job", "id", job)
        artifact, step = row["saved"]
        instead, instead_step = to or (None, 0)
        data = {"artifact": artifact, "step": step, "why": why, "instead": instead, "instead_step": instead_step}
        self.event(at, "checkpoint_given_up", "job", job, actor="scheduler 1", data=data)
        row["saved"] = to

    def finish(self, grant: Grant, at: float, outcome: str = "SUCCEEDED", *, to: str = "", **data: Any) -> None:
        """The attempt has ended, its GPUs are released and charged, and the job moves on to ``to``."""
        held = [row for row in self.rows["allocation"] if row["attempt"] == grant.attempt]
        for row in held:
            row["released_at"] = EPOCH + at
        due = sum(EPOCH + at - row["granted_at"] for row in held) * 1000
        actor = "scheduler 1" if outcome == "LOST" else f"node {self.find('gpu', 'uuid', grant.gpus[0])['node']}"
        self.event(at, "attempt_ended", "job", grant.job, actor=actor, attempt=grant.attempt, epoch=grant.epoch,
                   data={"outcome": outcome, "gpu_ms": round(due), **data})  # fmt: skip
        self.find("attempt", "id", grant.attempt).update(ended_at=EPOCH + at, outcome=outcome)
        job = self.find("job", "id", grant.job)
        self._charge(job, due, EPOCH + at)
        job["epoch"] += outcome == "LOST"
        job["infra_failures"] += outcome == "LOST"
        job["preempt_count"] += outcome == "PREEMPTED"
        job["preempted"] = outcome == "PREEMPTED"
        target = to or {"LOST": "QUEUED", "PREEMPTED": "QUEUED"}.get(outcome, outcome)
        pause = 10.0 * 2 ** (job["infra_failures"] - 1) if outcome == "LOST" else 0.0
        self.step(at, "requeued" if target == "QUEUED" else target.lower(), grant.job, target, actor=actor,
                  attempt=grant.attempt, data={"outcome": outcome, "backoff_s": pause})  # fmt: skip

    def evict(self, grant: Grant, at: float, *, wants: str, gpus: tuple[str, ...] = (), victims: int = 1) -> None:
        """The attempt's job was asked to leave its GPUs (or those named) to the job that waits for them."""
        self.step(at, "preempting", grant.job, "PREEMPTING", actor="scheduler 1", attempt=grant.attempt,
                  data={"cause": "preempt", "gpus": list(grant.gpus)})  # fmt: skip
        deadline = datetime.fromtimestamp(EPOCH + at + 150, UTC).isoformat()
        self.event(at, "nominated", "job", wants, actor="scheduler 1",
                   data={"gpus": list(gpus or grant.gpus), "deadline": deadline, "victims": victims})  # fmt: skip

    def _charge(self, job: Mapping[str, Any], due: float, at: float) -> None:
        keys = {"queue": job["queue"], "project": job["project"], "user": f"{job['project']}/{job['user_name']}"}
        for ledger, key in keys.items():
            known = [b for b in self.rows.get("balance", ()) if (b["ledger"], b["key"]) == (ledger, key)]
            balance = known[0] if known else self.row("balance", ledger=ledger, key=key, gpu_ms=0.0, settled_at=at)
            balance.update(gpu_ms=balance["gpu_ms"] + due, settled_at=at)

    def change(self, index: int, **changes: Any) -> None:
        """The event at that place of the log says something else; ``data`` is merged."""
        event = self.events[index]
        if "data" in changes:
            changes["data"] = {**event.data, **changes["data"]}
        self.events[index] = replace(event, **changes)

    def last(self, kind: str) -> int:
        """The place of the newest event of that type."""
        return max(i for i, event in enumerate(self.events) if event.type == kind)

    def evidence(self, at: float = 100.0, *, settled: bool = False, artifacts: Path | None = None) -> Evidence:
        """The history as the checker is given it, exported at ``at``."""
        house = House(exported_at=EPOCH + at, half_life_s=self.half_life_s, settled=settled, log_limit=1000)
        return Evidence(house, tuple(self.events), self.rows, tuple(self.truth), artifacts)


def two_nodes() -> tuple[History, Grant]:
    """A job on two nodes: at 40 the second is lost, by 49 the first has stopped too, and at 50 it is taken back."""
    history = History()
    gpus = [*history.node("n1", gpus=1), *history.node("n2", gpus=1)]
    grant = history.grant(history.job("a", 5, gpus=2, nvlink_required=False, node_count=2, gpus_per_node=1), 10, *gpus)
    history.run(grant, 12, 38)
    history.step(40, "preempting", "a", "PREEMPTING", actor="scheduler 1", attempt=grant.attempt,
                 data={"cause": "peer"})  # fmt: skip
    history.run(grant, 12, 49)
    history.finish(grant, 50, "LOST")
    return history, grant


def one_job(**wishes: Any) -> tuple[History, Grant]:
    """A job that ran from its grant at 10 to its success at 50 on both GPUs of the one node."""
    history = History()
    gpus = history.node("n1")
    grant = history.grant(history.job("a", 5, gpus=2, **wishes), 10, *gpus)
    history.run(grant, 12, 49)
    history.finish(grant, 50)
    return history, grant


def lost_and_found() -> tuple[History, Grant, Grant]:
    """A job whose node was lost at 90, and which resumed on another from its checkpoint and succeeded at 150."""
    history = History()
    first, second = history.node("n1"), history.node("n2")
    lost = history.grant(history.job("a", 5, gpus=2), 10, *first)
    history.run(lost, 12, None, died=70)
    history.save(lost, 20, 7)
    history.event(90, "node_lost", "node", "n1", actor="scheduler 1", data={"from": "READY", "to": "LOST"})
    history.finish(lost, 90, "LOST", why="lost", cause="node_lost")
    again = history.grant("a", 100, *second)
    history.run(again, 102, 149)
    history.finish(again, 150)
    return history, lost, again


def given_up(restarts: int = 2, *, reaches: int = 7) -> tuple[History, tuple[str, int]]:
    """A job that saved at steps 3 and 7, was preempted, and began so many times with the second checkpoint.

    Each time it got to step ``reaches`` and was preempted. Returns its first checkpoint with its step too.
    """
    history = History()
    gpus = history.node("n1")
    first = history.grant(history.job("a", 5, gpus=2), 10, *gpus)
    history.run(first, 12, 59)
    saved = history.save(first, 20, 3), 3
    history.save(first, 40, 7)
    history.finish(first, 60, "PREEMPTED", why="preempt")
    for at in range(100, 100 + 100 * restarts, 100):
        grant = history.grant("a", at, *gpus)
        history.run(grant, at + 2, at + 59)
        history.event(at + 50, "progress", "job", "a", actor="node n1", attempt=grant.attempt, epoch=grant.epoch,
                      data={"step": reaches, "total": 9})  # fmt: skip
        history.finish(grant, at + 60, "PREEMPTED", why="preempt")
    return history, saved


def replacing(**wishes: Any) -> History:
    """A job that waited since 5, and the one that took its place at 20."""
    history = History()
    history.node("n1", gpus=1)
    history.replace(history.job("a", 5), "b", 20, **wishes)
    return history


FIRST = "00000000-0000-4000-8000-000000000001"


def a_chain() -> tuple[History, Grant]:
    """A job whose output another reads, which began at 60, after its end at 50, and succeeded at 100."""
    history = History()
    gpus = history.node("n1", gpus=1)
    first, second = history.job(FIRST, 5), history.job("b", 6, params={"inputs": {"net": f"@{FIRST}"}})
    history.wait(second, first)
    grant = history.grant(first, 10, *gpus)
    history.run(grant, 12, 49)
    history.row("output", job=first, artifact="m", attempt=grant.attempt)
    history.finish(grant, 50)
    history.find("job", "id", second).update(awaits=0, spec={"inputs": [{"artifact": "m", "as": "net"}]})
    after = history.grant(second, 60, *gpus)
    history.run(after, 62, 99)
    history.finish(after, 100)
    return history, after


def began_earlier(history: History, at: float = 400) -> Evidence:
    """The job of that history began once more, and succeeded."""
    grant = history.grant("a", at, *(row["uuid"] for row in history.rows["gpu"]))
    history.run(grant, at + 2, at + 59)
    history.finish(grant, at + 60)
    return history.evidence(at + 70)


def checkpoint_given_up() -> Evidence:
    """After two attempts in vain the job began with the checkpoint before."""
    history, earlier = given_up()
    history.give_up("a", 361, earlier)
    return began_earlier(history)


def checkpoint_damaged() -> Evidence:
    """The newest checkpoint was found damaged, and the job began with the one before."""
    history, earlier = given_up(0)
    history.row("artifact", id=history.find("job", "id", "a")["saved"][0], kind="checkpoint", files=[], published=True,
                corrupt=True, job="a")  # fmt: skip
    history.give_up("a", 361, earlier, why="corrupt")
    return began_earlier(history)
