"""What a node says while a tick is on its way: what it was told then holds, and nothing of it is taken back."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock
from uuid import UUID

import pytest

from scheduling.models import Attempt, AttemptNode, Event, Job, Node
from scheduling.services import pool, tick
from scheduling.store import load
from scheduling.store.commit import deadlines
from scheduling.store.commit.leaving import Leave, leave
from tests import builders as b
from tests.services.test_eviction import GRACE_S, World
from tests.services.test_gangs import PORT, pair

pytestmark = pytest.mark.django_db


def ticked_while(happens: Callable[[], object], *, at: float) -> tick.TickResult:
    """One tick; after it has decided and before it writes, this happens."""
    commit = tick.commit

    def late(*told):
        happens()
        return commit(*told)

    with mock.patch.object(tick, "commit", late):
        return b.ticked(b.later(at))


def events(*types: str) -> list[str]:
    return list(Event.objects.filter(type__in=types).order_by("pk").values_list("message", flat=True))


def granted() -> Attempt:
    """A job that node n1 has yet to claim."""
    made = b.lab()
    b.submitted(made.who["alice"], b.merge_body(made.models))
    b.ticked()
    return Attempt.objects.get()


def test_what_a_node_claims_meanwhile_is_not_taken_back_from_it():
    run = granted()
    b.listening(61)
    b.beat(now=b.later(55))
    told = []
    result = ticked_while(lambda: told.append(pool.claim("n1", str(run.pk), run.epoch, b.later(61))), at=60)
    assert (result.stale, result.reclaimed) == ((f"reclaim {run.pk} on n1",), 0)
    assert told[0]["attempt"] == str(run.pk)
    assert [each["action"] for each in b.beat(now=b.later(62))["desired"]] == ["run"]
    b.ticked(b.later(63))
    assert (events("attempt_ended"), Job.objects.get().state) == ([], "DISPATCHING")


def test_what_it_does_not_claim_is_taken_back():
    run = granted()
    b.listening(60)
    b.beat(now=b.later(55))
    result = ticked_while(lambda: None, at=60)
    assert (result.stale, result.reclaimed) == ((), 1)
    assert pool.claim("n1", str(run.pk), run.epoch, b.later(61)).code == "stale_epoch"


def test_a_part_that_is_ready_meanwhile_is_not_taken_back():
    gang = pair()
    gang.claims()
    gang.ready("n1")
    gang.ticked(after=590)
    b.listening(600, 590)
    gang.at = 599
    result = ticked_while(lambda: gang.ready("n2"), at=600)
    assert result.stale == (f"reclaim {gang.attempt} on n2",)
    assert AttemptNode.objects.filter(ended_at__isnull=True, ready_at__isnull=False).count() == 2
    assert gang.asked("n1")["go"]["port"] == PORT


def test_a_node_that_is_heard_of_meanwhile_is_not_lost_and_its_work_goes_on():
    _, run = b.busy_lab()
    b.listening(61)
    desired = []
    result = ticked_while(lambda: desired.extend(b.beat(now=b.later(61))["desired"]), at=60)
    assert result.stale == ("lose n1", f"reclaim {run.attempt} on n1")
    assert [each["action"] for each in desired] == ["run"]
    assert (Node.objects.get().state, Job.objects.get().state) == ("READY", "RUNNING")
    assert events("node_lost", "attempt_ended") == []
    b.listening(121)
    b.ticked(b.later(121))
    assert (Node.objects.get().state, Job.objects.get().state) == ("LOST", "QUEUED")


def test_a_lost_node_that_registers_meanwhile_keeps_the_work_that_it_still_has():
    _, run = b.busy_lab()
    Node.objects.update(state="LOST")
    b.listening(5)
    back = b.description("n1")
    back["attempts"] = [{"attempt": run.attempt, "epoch": run.epoch, "pid_alive": True}]
    kept = []
    result = ticked_while(lambda: kept.extend(pool.register("n1", back, b.later(5))["adopt"]), at=4)
    assert (kept, result.stale) == ([run.attempt], (f"reclaim {run.attempt} on n1",))
    assert (Node.objects.get().state, Job.objects.get().state) == ("READY", "RUNNING")


def test_each_node_of_an_attempt_has_its_own_reason():
    gang = pair()
    b.listening(60)
    b.beat("n2", now=b.later(55))
    b.ticked(b.later(60))
    assert events("part_ended") == [
        "the part on n1 is lost: node n1 has not been heard of for its lease; its work is taken back",
        "the part on n2 is lost: node n2 did not take the work in time",
    ]
    assert gang.row().avoid["nodes"] == ["n1", "n2"]


def test_a_victim_whose_gpu_fails_meanwhile_is_stopped_for_that_and_not_for_the_end_of_its_grace():
    made = World()
    made.evicted()
    over = b.later(100 + GRACE_S)

    def fails(_):
        sick = Leave("health", "GPU n1/0 is failing", {"cause": "gpu"}, grace_s=0.0, answers=False)
        leave(UUID(made.victim.attempt), sick, now=over, actor="health", policy=load.policy_of())
        return False

    with mock.patch.object(deadlines, "_may_run_on", fails):
        assert deadlines.enforce(over) == []
    (told,) = b.beat("n1", now=over)["desired"]
    assert (told["action"], told["why"]) == ("kill", "health")
    assert events("kill_requested") == []
