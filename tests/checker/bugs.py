"""Bugs on purpose, each a switch on the product and a scenario in which it shows: a checker must have failed to be one.

A scenario drives the services by virtual time and returns what its job processes would have written themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from scheduling.models import Allocation, Attempt, AttemptNode, Balance, NodeLive, Nomination, Project
from scheduling.services import artifacts, jobs, pool
from scheduling.store import load_jobs, load_policy, load_pool
from scheduling.store.commit import attempts, balances, deadlines, evictions, grants, parts
from scheduling.store.commit import jobs as commit
from tests import builders as b

Switch = Callable[[pytest.MonkeyPatch], None]
Scenario = Callable[[pytest.MonkeyPatch], Sequence[dict[str, Any]]]


@dataclass(frozen=True)
class Bug:
    """What is wrong, which invariant that breaks, how it is switched on, and where it shows."""

    name: str
    invariant: str
    switch: Switch
    scenario: Scenario


def world(*nodes: str) -> tuple[Any, list[str]]:
    """Alice, two models of hers, and nodes of two GPUs each."""
    who = b.people()
    for name in nodes:
        b.node(name, gpus=2)
    return who, [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]


# ---------------------------------------------------------------- scenarios


def two_schedulers_grant_at_once(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """Between the check of one grant and its writing another commits a grant of the same GPUs."""
    who, models = world("n1")
    first, second = (b.submitted(who["alice"], b.merge_body(models, name=name)) for name in ("one", "two"))
    grant, weights = grants._grant, load_policy.billing_weights

    def rival(starts: Any, applied: Any, **told: Any) -> None:
        def in_between() -> dict[str, float]:
            patch.setattr(grants, "billing_weights", weights)
            other = second if starts[0].job == first else first
            grant([replace_job(starts[0], other)], grants.Applied(), **told)
            return weights()

        patch.setattr(grants, "billing_weights", in_between)
        grant(starts, applied, **told)

    patch.setattr(grants, "_grant", rival)
    b.ticked(b.later(10))
    return ()


def replace_job(start: Any, job: str) -> Any:
    """The same start for another job."""
    return type(start)(job, start.gpus, start.nodes)


def a_lost_node_comes_back_and_speaks(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """A node is silent for its lease, registers again, and reports on the work that was taken back."""
    who, models = world("n1")
    run = b.running(who["alice"], models)
    b.listening(59)
    b.ticked(b.later(60))
    b.node("n1", gpus=2, now=b.later(61))
    late = {"type": "progress", "attempt": run.attempt, "epoch": run.epoch, "step": 3, "total": 9}
    b.beat("n1", now=b.later(62), reports=[late])
    return ()


def a_running_job_is_cancelled(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """The process takes two seconds to end after the cancel, and its node says so when it has."""
    who, models = world("n1")
    run = b.running(who["alice"], models)
    jobs.cancel(run.job, who["alice"], b.later(10))
    b.finished(run, "CANCELLED", now=b.later(13))
    told = {"job": run.job, "epoch": run.epoch, "pid": 7, "gpus": run.gpus}
    return [{"event": e, "at": at, "wall": b.later(at).timestamp(), **told} for e, at in (("start", 1), ("end", 12))]


def a_node_whose_clock_is_behind(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """It reports every thirty seconds, whatever time it has."""
    who, models = world("n1")
    run = b.running(who["alice"], models)
    b.listening(101)
    for at in (30, 60, 90, 100):
        step = {"type": "progress", "attempt": run.attempt, "epoch": run.epoch, "step": at, "total": 900}
        b.beat("n1", now=b.later(at), reports=[step])
    b.ticked(b.later(101))
    return ()


def a_heavy_project_asks_for_more(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """Who has consumed a lot waits at a high level, who has consumed nothing at a lower one."""
    who, models = world("n1")
    theirs = [b.model(who["bob"], name, seed, project="beta") for seed, name in enumerate("cd", 3)]
    run = b.running(who["alice"], models)
    b.submitted(who["alice"], b.merge_body(models, name="high", priority="High"), now=b.later(50))
    b.submitted(who["bob"], b.merge_body(theirs, project="beta", priority="Normal"), now=b.later(50))
    b.finished(run, "FAILED", exit_code=1, now=b.later(100))
    b.listening(110)
    b.ticked(b.later(110))
    return ()


def a_checkpoint_of_which_a_shard_is_missing(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """The node asks for the commit after the first of two shards."""
    who, models = world("n1")
    run = b.running(who["alice"], models)
    owner = artifacts.Owner(node=run.node, attempt=run.attempt, epoch=run.epoch)
    shards = {f"framework/{n}.bin": 1000 * bytes([n]) for n in (1, 2)}
    files = [{"path": p, "size": len(c), "sha256": sha256(c)} for p, c in shards.items()]
    opened: Any = artifacts.begin(owner, {"name": "checkpoint", "kind": "checkpoint", "files": files}, b.later(5))
    artifacts.put(owner, opened["upload"], "framework/1.bin", 0, iter([shards["framework/1.bin"]]))
    artifacts.commit(owner, opened["upload"], {}, b.later(6))
    return ()


def sha256(content: bytes) -> str:
    """The digest in hex."""
    return hashlib.sha256(content).hexdigest()


def a_job_that_runs_and_ends(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """Half a minute on two GPUs."""
    who, models = world("n1")
    run = b.running(who["alice"], models)
    b.finished(run, artifacts=[b.output(run)], now=b.later(30))
    return ()


def a_lost_job_with_room_elsewhere(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """Its node falls silent, another is free, and the scheduler looks a second later and again."""
    who, models = world("n1")
    b.running(who["alice"], models)
    b.listening(57)
    b.node("n2", gpus=2, now=b.later(58))
    b.listening(75, start=59)
    for at in (60, 61, 75):
        b.ticked(b.later(at))
    return ()


def one_of_two_victims_has_gone(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """Two jobs are to leave for one that needs both GPUs; between their ends a short job comes that fits on one."""
    who, models = world("n1")
    alone: dict[str, Any] = {"gpu_count": 1, "nvlink_required": False}
    victims = [b.running(who["alice"], models, name=name, **alone) for name in ("v1", "v2")]
    urgent: dict[str, Any] = {"priority": "Critical", "purpose": "regression_gate", "name": "urgent"}
    b.listening(110)
    b.beat(now=b.later(99))
    b.submitted(who["admin"], b.merge_body(models, **urgent), now=b.later(99))
    b.ticked(b.later(100))
    b.finished(victims[0], "PREEMPTED", exit_code=85, why="preempt", now=b.later(105))
    b.submitted(who["alice"], b.merge_body(models, name="short", max_duration="1m", **alone), now=b.later(106))
    b.ticked(b.later(110))
    return ()


def a_node_is_silent_for_half_a_minute(patch: pytest.MonkeyPatch) -> Sequence[dict[str, Any]]:
    """It reports that all is well, then nothing, and then again; the scheduler goes on looking."""
    b.people()
    b.node("n1", gpus=2)
    b.listening(40)
    well = [{"uuid": f"GPU-n1-{n}", "temperature_c": 50.0} for n in range(2)]
    b.beat("n1", now=b.later(1), gpus=well, seq=1)
    for at in (15, 25, 35):
        b.ticked(b.later(at))
    b.beat("n1", now=b.later(38), gpus=well, seq=38)
    spoke = {"event": "sent", "node": "n1", "checked": True}
    return [{**spoke, "at": at, "wall": b.later(at).timestamp()} for at in (1, 38)]


# ---------------------------------------------------------------- switches


def drop_the_index(patch: pytest.MonkeyPatch) -> None:
    """Nothing in the database refuses a GPU that is held."""
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX one_open_allocation_per_gpu")


def skip_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """Any attempt's part is taken for a live one."""
    patch.setattr(parts, "live_part", lambda attempt, epoch, node, **_: AttemptNode.objects.select_related(
        "attempt", "node").filter(attempt_id=attempt, node__name=node).first())  # fmt: skip


def release_before_exit(patch: pytest.MonkeyPatch) -> None:
    """What should ask a node to stop its job ends the attempt instead."""

    def ended(attempt: Attempt, why: str, now: Any, **_: Any) -> None:
        how = attempts.End("CANCELLED", why=why)
        attempts.end(attempt.pk, attempt.epoch, how, now=now, actor="user alice", policy=load_policy.policy_of())

    patch.setattr(commit, "ask_to_stop", ended)


def trust_the_node_s_clock(patch: pytest.MonkeyPatch) -> None:
    """After its registration a node was last heard of when, by its own clock, it spoke: two hours before."""
    leases = load_pool.leases
    patch.setattr(
        load_pool,
        "leases",
        lambda now: tuple(replace(one, silent_ms=one.silent_ms + 7_200_000 * (now > b.NOON)) for one in leases(now)),
    )


def sort_by_score(patch: pytest.MonkeyPatch) -> None:
    """The level is the score: priority * (1 + (target - consumed) / target), as one might read the specification."""
    waiting = load_jobs.waiting

    def by_score(*given: Any, **more: Any) -> Any:
        spent = dict(Balance.objects.filter(ledger="project").values_list("key", "gpu_ms"))
        weights = dict(Project.objects.values_list("name", "weight"))
        total = sum(spent.values()) or 1.0
        target = {name: weight / sum(weights.values()) * total for name, weight in weights.items()}
        return tuple(
            replace(job, level_value=round(1000 * job.level_value * (
                1 + (target[job.project] - spent.get(job.project, 0.0)) / target[job.project])))
            for job in waiting(*given, **more)
        )  # fmt: skip

    patch.setattr(load_jobs, "waiting", by_score)


def ignore_nominations(patch: pytest.MonkeyPatch) -> None:
    """For whom GPUs were to be kept is forgotten as soon as the victims have been asked."""
    evict = evictions.evict

    def forgetful(*given: Any, **told: Any) -> Any:
        nodes = evict(*given, **told)
        Nomination.objects.all().delete()
        return nodes

    patch.setattr(evictions, "evict", forgetful)


def count_silence_as_failure(patch: pytest.MonkeyPatch) -> None:
    """For each tick in which a node has said nothing there is a report on its behalf that knows of no GPU."""
    enforce = deadlines.enforce

    def on_behalf(now: Any) -> list[str]:
        for live in NodeLive.objects.select_related("node").filter(last_heartbeat_at__lt=now - timedelta(seconds=5)):
            nothing = {"boot_id": live.node.boot_id, "seq": live.seq + 1, "gpus": [], "reports": []}
            pool.heartbeat(live.node.name, nothing, now)
        return enforce(now)

    patch.setattr(deadlines, "enforce", on_behalf)


def publish_before_the_last_shard(patch: pytest.MonkeyPatch) -> None:
    """A commit does not look whether the bytes have come."""
    patch.setattr(artifacts, "_received", lambda *_, **__: None)


def charge_per_attempt_start(patch: pytest.MonkeyPatch) -> None:
    """Each start costs what the attempt might use, whatever its end costs."""
    started = parts.started

    def charged(attempt_id: Any, epoch: int, node: str, *, now: Any) -> bool:
        held = list(Allocation.objects.filter(attempt_id=attempt_id))
        attempt = Attempt.objects.select_related("job").get(pk=attempt_id)
        balances.charge(attempt.job, held, now + timedelta(seconds=attempt.remaining_s))
        return started(attempt_id, epoch, node, now=now)

    patch.setattr(parts, "started", charged)


def retry_at_once(patch: pytest.MonkeyPatch) -> None:
    """A lost job may start again in the next tick."""
    patch.setattr("scheduling.core.aftermath.backoff_s", lambda policy, failures: 0.0)


BUGS = (
    Bug("the unique index on open allocations is gone", "I1", drop_the_index, two_schedulers_grant_at_once),
    Bug("the epoch is not checked", "I7", skip_the_epoch_check, a_lost_node_comes_back_and_speaks),
    Bug("GPUs are released before the process has ended", "I3", release_before_exit, a_running_job_is_cancelled),
    Bug("the lease follows the node's clock", "I21", trust_the_node_s_clock, a_node_whose_clock_is_behind),
    Bug("the order is by score", "I12", sort_by_score, a_heavy_project_asks_for_more),
    Bug("nominations are ignored", "I17", ignore_nominations, one_of_two_victims_has_gone),
    Bug("silence counts as a failed check", "I23", count_silence_as_failure, a_node_is_silent_for_half_a_minute),
    Bug("a checkpoint is published before its last shard", "I20", publish_before_the_last_shard,
        a_checkpoint_of_which_a_shard_is_missing),
    Bug("every start is charged", "I24", charge_per_attempt_start, a_job_that_runs_and_ends),
    Bug("a lost job is retried without a pause", "I19", retry_at_once, a_lost_job_with_room_elsewhere),
)  # fmt: skip
