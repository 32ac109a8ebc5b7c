"""What a change would do to everything that waits: both futures, and what differs between them."""

from __future__ import annotations

import pytest

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.snapshot import Snapshot
from scheduling.models import Event
from scheduling.services import replay
from scheduling.services.replay import TooLong, Unplayable
from scheduling.simulation.comparison import Difference, compare
from scheduling.store import load
from tests import builders as b

EMPTY = Snapshot(0, DEFAULT_POLICY, Pool((Node("n1", "r1"),), (Gpu("g0", "n1", 0, "A100", 81_920),)))


@pytest.fixture
def who(db):
    found = b.people()
    b.node("n1")
    return found


@pytest.fixture
def busy(who):
    """A full node: an hour to run, and behind it a job of alpha and one of beta that need all of it for an hour."""
    hers = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    his = [b.model(who["bob"], "c", 3, project="beta"), b.model(who["bob"], "d", 4, project="beta")]
    b.running(who["alice"], hers, gpu_count=4)
    first = b.submitted(who["alice"], b.merge_body(hers, gpu_count=4), now=b.later(1))
    second = b.submitted(who["bob"], b.merge_body(his, gpu_count=4, project="beta"), now=b.later(2))
    return {"first": first, "second": second, "models": hers}


def change(body, who, seconds=10):
    now = b.later(seconds)
    return replay.change_of(body, load.snapshot(now), who["admin"], now)


def played(body, who) -> Difference:
    return compare(change(body, who))


def starts(found: Difference) -> dict[str, tuple[int, int]]:
    """Seconds after noon at which each job that moved starts, before and after."""
    noon = int(b.NOON.timestamp() * 1000)
    return {each.job: ((each.before_ms - noon) // 1000, (each.after_ms - noon) // 1000) for each in found.moved}


def test_another_node_starts_the_queue_at_once(who, busy):
    found = played({"add_nodes": [{"like": "n1", "count": 2}]}, who)
    assert starts(found) == {busy["first"]: (7200, 10), busy["second"]: (3600, 10)}
    assert found.after.waits.mean_wait_s == (9 + 8) / 2


def test_another_policy_turns_the_order_of_the_queue(who, busy):
    # Alpha has the GPUs, so beta is ahead; when projects are not compared, whoever came first is.
    found = played({"policy": {"ledgers": ["queue"]}}, who)
    assert starts(found) == {busy["first"]: (7200, 3600), busy["second"]: (3600, 7200)}


def test_a_node_that_fails_puts_everything_off_until_it_is_back(who, busy):
    found = played({"faults": [{"node": "n1", "after_s": 600, "back_after_s": 1200}]}, who)
    assert found.after.interrupted == 1
    # What ran begins again at 20 minutes and has its hour; one of the two behind it, and the other after that.
    assert min(after for _, after in starts(found).values()) == 1210
    assert found.after.makespan_s > found.before.makespan_s


def test_without_its_only_node_nothing_ever_starts(who, busy):
    found = played({"remove_nodes": ["n1"]}, who)
    assert {(each.job, each.after_ms) for each in found.moved} == {(busy["first"], None), (busy["second"], None)}
    assert (found.after.waits.started, found.after.interrupted) == (0, 1)


def test_one_job_more_starts_behind_the_others_and_moves_those_behind_it(who, busy):
    found = played({"job": b.merge_body(busy["models"], gpu_count=4, priority="High")}, who)
    assert found.extra.after_ms == found.before.makespan_s * 1000 + b.later(10).timestamp() * 1000 - 7200 * 1000
    assert all(after - before == 3600 for before, after in starts(found).values())


def test_the_classes_of_both_futures_are_told_apart(who, busy):
    b.submitted(who["alice"], b.merge_body(busy["models"], gpu_count=4, priority="High"), now=b.later(3))
    found = played({"add_nodes": [{"like": "n1", "count": 1}]}, who)
    assert list(found.before.classes) == ["High", "Normal"]
    assert [found.before.classes[level].jobs for level in ("High", "Normal")] == [1, 2]
    assert found.after.classes["High"].mean_wait_s < found.before.classes["High"].mean_wait_s


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "", "no_change"),
        ({"policy": []}, "", "no_change"),
        ({"policy": [1]}, "policy", "not_an_object"),
        ({"policy": {"half_life": 3}}, "policy", "bad_policy"),
        ({"remove_nodes": ["n9"]}, "remove_nodes", "no_such_node"),
        ({"remove_nodes": "n1"}, "remove_nodes", "no_such_node"),
        ({"add_nodes": [{"like": "n9", "count": 1}]}, "add_nodes.0", "bad_nodes"),
        ({"add_nodes": [{"like": ["n1"], "count": 1}]}, "add_nodes.0", "bad_nodes"),
        ({"add_nodes": [{"like": "n1", "count": True}]}, "add_nodes.0", "bad_nodes"),
        ({"add_nodes": [{"like": "n1", "count": 1001}]}, "add_nodes.0", "bad_nodes"),
        ({"add_nodes": "n1"}, "add_nodes.0", "bad_nodes"),
        ({"faults": {"node": "n1"}}, "faults", "bad_faults"),
        ({"faults": ["n1"]}, "faults.0", "bad_fault"),
        ({"faults": [{"node": "n1", "after_s": -1}]}, "faults.0", "bad_fault"),
        ({"faults": [{"node": "n1", "after_s": 5, "back_after_s": 5.0001}]}, "faults.0", "bad_fault"),
        ({"job": "merge"}, "job", "not_an_object"),
    ],
)
def test_a_change_that_can_not_be_made_says_what_is_wrong(body, field, code):
    found = replay.change_of(body, EMPTY, None, b.NOON)
    assert isinstance(found, Unplayable)
    assert (field, code) in [(error["field"], error["code"]) for error in found.errors]
    assert all(error["message"] for error in found.errors)


def test_a_job_more_that_would_be_refused_says_why(who):
    found = change({"job": {"kind": "nothing"}}, who)
    assert isinstance(found, Unplayable)
    assert "job.kind" in [error["field"] for error in found.errors]


def test_a_replay_runs_in_a_process_of_its_own_and_stores_nothing(who, busy):
    before = Event.objects.count()
    found = replay.replay({"add_nodes": [{"like": "n1", "count": 2}]}, who["alice"], b.later(10))
    named = {row["job"]: row["name"] for row in found["jobs"]}
    assert named == {busy["first"]: "slerp-a-b", None: None}  # the other is of another project
    assert (found["sooner"], found["later"], found["before"]["jobs"]) == (2, 0, 2)
    assert Event.objects.count() == before


def test_a_replay_that_takes_too_long_is_stopped(who, busy):
    found = replay.apart(change({"remove_nodes": ["n1"]}, who), limit_s=0.0)
    assert isinstance(found, TooLong)


def test_a_second_replay_at_once_is_refused(who, busy, monkeypatch):
    inside = []

    def meanwhile(change, limit_s):
        inside.append(replay.replay({"remove_nodes": ["n1"]}, who["admin"], b.later(10)))
        return compare(change)

    monkeypatch.setattr(replay, "apart", meanwhile)
    replay.replay({"remove_nodes": ["n1"]}, who["admin"], b.later(10))
    assert [type(each) for each in inside] == [replay.Busy]
