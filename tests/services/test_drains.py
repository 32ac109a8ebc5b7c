"""A node is emptied: no new work, what runs on it may stay until when, and who takes the word back."""

from __future__ import annotations

import pytest

from scheduling.models import Attempt, Event, Job, LostWork, Node
from scheduling.services import jobs, pool, tick
from scheduling.services.kept import Kept
from scheduling.store import lease
from tests import builders as b
from tests.services.test_gangs import two

pytestmark = pytest.mark.django_db


@pytest.fixture
def busy():
    return b.busy_lab()


def drain(at=5, *, node="n1", **kw):
    return pool.operate(node, "drain", b.people()["admin"], b.later(at), **kw)


def wanted(at, node="n1"):
    return [(w["action"], w["why"], w["grace_s"]) for w in b.beat(node, now=b.later(at))["desired"]]


def ticked(at):
    b.listening(at)
    for name in Node.objects.values_list("name", flat=True):
        b.beat(name, now=b.later(at))
    return b.ticked(b.later(at))


def test_without_a_deadline_what_runs_goes_on_to_its_end_and_nothing_new_starts(busy):
    lab, run = busy
    drain()
    waits = b.submitted(lab.who["alice"], b.command_body(gpu_count=1), now=b.later(6))
    ticked(100)
    assert wanted(100) == [("run", None, 0.0)]
    assert [Job.objects.get(pk=job).state for job in (run.job, waits)] == ["RUNNING", "QUEUED"]


def test_with_a_deadline_nothing_is_asked_before_it(busy):
    _, run = busy
    drain(deadline_s=60)
    ticked(64)
    assert (wanted(64), Job.objects.get(pk=run.job).state) == ([("run", None, 0.0)], "RUNNING")


def test_at_the_deadline_it_is_asked_to_save_with_its_queues_grace_and_its_timeline_says_why(busy):
    _, run = busy
    drain(deadline_s=60)
    ticked(65)
    assert wanted(65) == [("stop", "drain", 120.0)]
    told = Event.objects.get(object_id=run.job, type="preempting")
    assert told.message == (
        "node n1 is drained, and its deadline has passed; it has 120 s to save a checkpoint and then moves to other"
        " GPUs"
    )


def test_it_is_asked_once(busy):
    _, run = busy
    drain(deadline_s=10)
    ticked(15)
    ticked(17)
    assert Attempt.objects.get(pk=run.attempt).stop_by == b.later(135)
    assert Event.objects.filter(object_id=run.job, type="preempting").count() == 1


def test_it_resumes_elsewhere_at_its_old_place_and_what_it_lost_is_given_back(busy):
    _, run = busy
    b.node("n2")
    drain(deadline_s=10)
    ticked(15)
    saved = b.output(run, "checkpoint", b'{"step": 3}', kind="checkpoint", now=b.later(20))
    b.finished(run, "PREEMPTED", exit_code=85, checkpoint=saved, step=3, why="drain", now=b.later(21))
    ticked(22)
    again = Attempt.objects.get(number=2)
    assert (again.nodes.get().node.name, str(again.resume_id), again.job.submitted_at) == ("n2", saved, b.NOON)
    assert LostWork.objects.get().cause == "drain"


def test_a_grant_that_nobody_claimed_ends_at_the_deadline_and_costs_no_budget():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    b.ticked()
    drain(deadline_s=5)
    ticked(10)
    row = Job.objects.get(pk=job)
    assert (row.state, row.infra_failures, row.yields) == ("QUEUED", 0, 0)


def test_a_job_over_several_nodes_leaves_all_of_them():
    gang = two()
    drain(deadline_s=10, node="n2")
    ticked(15)
    assert [wanted(15, name) for name in ("n1", "n2")] == [[("stop", "drain", 120.0)]] * 2
    assert Job.objects.get(pk=gang.job).state == "PREEMPTING"
    told = Event.objects.get(object_id=gang.job, type="preempting")
    assert (told.data["node"], told.message.split(";")[0]) == ("n2", "node n2 is drained, and its deadline has passed")


def test_return_takes_the_deadline_back(busy):
    _, run = busy
    drain(deadline_s=10)
    pool.operate("n1", "return", b.people()["admin"], b.later(8))
    ticked(15)
    node = Node.objects.get()
    assert (node.state, node.drain_by, node.why, node.closed) == ("READY", None, "", "")
    assert Job.objects.get(pk=run.job).state == "RUNNING"


def test_cordoned_instead_it_has_no_deadline_any_more(busy):
    _, run = busy
    drain(deadline_s=10)
    pool.operate("n1", "cordon", b.people()["admin"], b.later(8))
    ticked(15)
    assert (Node.objects.get().drain_by, Job.objects.get(pk=run.job).state) == (None, "RUNNING")


def test_the_newest_deadline_counts_and_both_are_on_record(busy):
    drain(deadline_s=10)
    drain(at=6, deadline_s=3600)
    assert Node.objects.get().drain_by == b.later(3606)
    deadlines = [e.data["deadline"] for e in Event.objects.filter(type="node_draining").order_by("id")]
    assert deadlines == ["2026-03-02T12:00:15+00:00", "2026-03-02T13:00:06+00:00"]


def test_drained_again_without_a_deadline_it_has_none(busy):
    drain(deadline_s=10)
    assert (drain(at=6), Node.objects.get().drain_by) == ((True, "DRAINING"), None)


def test_a_job_that_is_being_cancelled_at_the_deadline_stays_so(busy):
    lab, run = busy
    jobs.cancel(run.job, lab.who["alice"], b.later(4))
    drain(deadline_s=2)
    ticked(8)
    assert (wanted(8)[0][:2], Job.objects.get(pk=run.job).state) == (("stop", "cancel"), "CANCELLING")


@pytest.mark.parametrize(("verb", "state"), [("cordon", "CORDONED"), ("drain", "DRAINING")])
def test_a_closed_node_that_was_lost_comes_back_closed(verb, state):
    b.node("n1")
    pool.operate("n1", verb, b.people()["admin"], b.later(1))
    b.listening(70)
    b.ticked(b.later(70))
    assert Node.objects.get().state == "LOST"
    pool.register("n1", b.description("n1", boot="boot-2"), b.later(80))
    assert Node.objects.get().state == state


def test_a_node_drained_between_the_plan_and_its_commit_gets_nothing_of_it():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    held = lease.acquire("test", b.NOON, ttl_s=10)
    decided = Kept().decide(b.NOON, epoch=held.epoch, can_store=True)
    assert [start.job for start in decided.plan.starts] == [job]
    drain(at=1)
    applied = tick.commit(decided.plan, decided.policy, held, b.later(1))
    assert (applied.stale, Job.objects.get(pk=job).state) == ([f"start {job}"], "QUEUED")


@pytest.mark.parametrize(("given", "seconds"), [("30m", 1800), (1800, 1800), ("PT4H", 14400), ("30d", 2592000),
                                                (None, None)])  # fmt: skip
def test_a_deadline_is_read_as_people_write_it(given, seconds):
    assert pool.deadline_s(given) == seconds


@pytest.mark.parametrize(("given", "says"), [
    ("soon", "deadline must be written like 4h, 90m"),
    (0, "deadline must be more than 0 seconds"),
    ("", "deadline must be written like 4h, 90m"),
    (True, r"deadline must be written like 4h, 90m, .*; 2592000 s \(30d\) at most"),
    ("31d", r"deadline may be 2592000 s \(30d\) at most; leave it out to let every job end"),
])  # fmt: skip
def test_a_deadline_that_is_none_is_refused_with_what_may_be_given(given, says):
    with pytest.raises(ValueError, match=says):
        pool.deadline_s(given)
