"""What a change would do to everything that waits: both futures, and what differs between them."""

from __future__ import annotations

import pytest

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.snapshot import Snapshot
from scheduling.models import Event, Job, Project
from scheduling.services import jobs, replay
from scheduling.services.replay import TooLong, Unplayable
from scheduling.simulation.comparison import Difference, compare
from scheduling.store import load
from tests import builders as b
from tests.services.test_eviction import World

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


@pytest.fixture
def here(monkeypatch):
    """Replays are played in this process, which needs no other one to start."""
    monkeypatch.setattr(replay, "apart", lambda change, limit_s: compare(change))


def change(body, who, seconds=10):
    now = b.later(seconds)
    found = replay.change_of(body, load.snapshot(now), who["admin"], now)
    return found if isinstance(found, Unplayable) else found[0]


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


def test_what_is_replaced_is_gone_from_the_future_and_its_place_is_the_jobs(who, busy):
    third = b.submitted(who["alice"], b.merge_body(busy["models"], gpu_count=4), now=b.later(3))
    body = {"job": {**b.merge_body(busy["models"], gpu_count=4, max_duration="30m"), "replaces": busy["first"]}}
    now = b.later(10)
    found = compare(replay.change_of(body, load.snapshot(now), who["alice"], now)[0])
    assert (found.before.waits.jobs, found.after.waits.jobs, starts(found)) == (3, 2, {third: (10_800, 9000)})
    assert found.extra.after_ms == int(b.later(7200).timestamp() * 1000)


@pytest.mark.parametrize(
    ("asks", "stands"), [("alice", "at its place"), ("admin", "at a new place: the place was alice's")]
)
def test_a_replay_tells_whose_place_the_job_takes(who, busy, here, asks, stands):
    body = {"job": {**b.merge_body(busy["models"], gpu_count=4), "replaces": busy["first"]}}
    found = replay.replay(body, who[asks], b.later(10))
    name = Job.objects.get(pk=busy["first"]).name
    assert found["notes"] == [f"{name} (job {busy['first']}) is cancelled for the job, which stands {stands}"]
    assert found["extra_job"]["after"] == b.later(7200)


def test_a_replay_tells_that_the_place_is_a_held_ones(who, busy, here):
    jobs.hold(busy["first"], who["alice"], b.later(4))
    body = {"job": {**b.merge_body(busy["models"], gpu_count=4), "replaces": busy["first"]}}
    (note,) = replay.replay(body, who["alice"], b.later(10))["notes"]
    assert note.endswith("it is held, and so the job would be: played out is as if it were released")


def test_another_policy_turns_the_order_of_the_queue(who, busy):
    # Alpha has the GPUs, so beta is ahead; when projects are not compared, whoever came first is.
    found = played({"policy": {"ledgers": ["queue"]}}, who)
    assert starts(found) == {busy["first"]: (7200, 3600), busy["second"]: (3600, 7200)}


def test_levels_that_are_changed_rank_what_waits_already(who, busy):
    low = b.submitted(who["alice"], b.merge_body(busy["models"], gpu_count=4, priority="Low"), now=b.later(3))
    levels = {"Critical": 4, "High": 3, "Normal": 1, "Low": 2}
    assert starts(played({"policy": {"queues": {"merge": {"levels": levels}}}}, who))[low] == (10_800, 3600)


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


def test_a_running_job_that_is_evicted_is_listed_with_its_wait_and_its_end(who, busy):
    found = played(
        {"job": b.merge_body(busy["models"], gpu_count=4, priority="Critical", purpose="regression_gate")}, who
    )
    (stopped,) = found.stopped
    # The Critical one runs for an hour from 10 s on, then the one of beta, since alpha has had the GPUs; of alpha what
    # was stopped is the oldest. It restores for a minute.
    assert (stopped.before.times, stopped.after.times) == (0, 1)
    assert (stopped.before.waits_again_s, stopped.after.waits_again_s) == (0.0, 7200.0)
    assert stopped.after.ends_ms - stopped.before.ends_ms == (7200 + 60) * 1000
    assert (found.before.again.jobs, found.after.again.jobs, found.after.again.mean_wait_s) == (0, 1, 7200.0)


@pytest.mark.parametrize(
    "body",
    [
        {"faults": [{"node": "n1", "after_s": 600, "back_after_s": 1200}, {"node": "n1", "after_s": 1500}]},
        {"remove_nodes": ["n1"], "add_nodes": []},
        {"add_nodes": [{"like": "n1", "count": 1}], "faults": [{"node": "n1", "after_s": 60}]},
    ],
)
def test_the_stops_and_waits_of_the_jobs_listed_add_up_to_those_of_the_future(who, busy, body):
    found = played(body, who)
    for future, sides in ((found.before, [each.before for each in found.stopped]),
                          (found.after, [each.after for each in found.stopped])):  # fmt: skip
        stopped = [each for each in sides if each.times]
        waits = [each.waits_again_s for each in stopped if each.waits_again_s is not None]
        assert sum(each.times for each in sides) == future.preemptions + future.interrupted
        assert (len(stopped), len(waits)) == (future.again.jobs, future.again.started)
        assert sum(waits) == pytest.approx((future.again.mean_wait_s or 0) * future.again.started, abs=0.01)


@pytest.mark.django_db
def test_an_eviction_under_way_counts_in_both_futures():
    world = World()
    world.evicted()
    found = compare(change({"add_nodes": [{"like": "n1", "count": 1}]}, world.who, seconds=101))
    assert [(each.job, each.before.times, each.after.times) for each in found.stopped] == [(world.victim.job, 1, 1)]
    assert (found.before.preemptions, found.after.preemptions) == (1, 1)
    # Its own GPUs go to the Critical job; on the new node it goes on at once.
    assert found.stopped[0].after.waits_again_s < found.stopped[0].before.waits_again_s


def test_who_was_stopped_is_named_to_those_who_may_know_of_it(who, busy, here):
    rows = [replay.replay({"remove_nodes": ["n1"]}, who[name], b.later(10))["stopped"] for name in ("alice", "bob")]
    assert [[row["name"] for row in each] for each in rows] == [["slerp-a-b"], [None]]
    assert (rows[0][0]["stops_after"], rows[0][0]["waits_again_after_s"], rows[0][0]["ends_after"]) == (1, None, None)


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
        ({"add_nodes": []}, "", "no_change"),
        ({"remove_nodes": [], "faults": [], "policy": {}}, "", "no_change"),
        ({"policy": []}, "policy", "not_an_object"),
        ({"policy": [1]}, "policy", "not_an_object"),
        ({"policy": {"half_life": 3}}, "policy.half_life", "bad_policy"),
        ({"policy": {"half_life_s": -3}}, "policy.half_life_s", "bad_policy"),
        ({"policy": {"queues": {"merge": {"levels": {"Low": "1"}}}}}, "policy.queues.merge.levels.Low", "bad_policy"),
        ({"remove_nodes": ["n1", "n9"]}, "remove_nodes.1", "no_such_node"),
        ({"remove_nodes": [{"node": "n1"}]}, "remove_nodes.0", "no_such_node"),
        ({"remove_nodes": "n1"}, "remove_nodes", "not_a_list"),
        ({"remove_nodes": {}}, "remove_nodes", "not_a_list"),
        ({"add_nodes": [{"like": "n9", "count": 1}]}, "add_nodes.0.like", "bad_nodes"),
        ({"add_nodes": [{"like": ["n1"], "count": 1}]}, "add_nodes.0.like", "bad_nodes"),
        ({"add_nodes": [{"like": "n1", "count": True}]}, "add_nodes.0.count", "bad_nodes"),
        ({"add_nodes": [{"like": "n1", "count": 1001}]}, "add_nodes.0.count", "bad_nodes"),
        ({"add_nodes": [{"like": "n1"}]}, "add_nodes.0.count", "bad_nodes"),
        ({"add_nodes": [{"like": "n1", "count": 1, "rack": "r1"}]}, "add_nodes.0.rack", "unknown_field"),
        ({"add_nodes": [{"like": "n1", "count": 1}] * 2}, "add_nodes.1.like", "bad_nodes"),
        ({"add_nodes": [[]]}, "add_nodes.0", "bad_nodes"),
        ({"add_nodes": "n1"}, "add_nodes", "not_a_list"),
        ({"add_nodes": False}, "add_nodes", "not_a_list"),
        ({"add_nodes": [{"like": "n1", "count": 1}], "remove_nodes": ["n1"]}, "add_nodes.0.like", "bad_nodes"),
        ({"faults": {"node": "n1"}}, "faults", "bad_faults"),
        ({"faults": ["n1"]}, "faults.0", "bad_fault"),
        ({"faults": [{"after_s": 1}]}, "faults.0.node", "bad_fault"),
        ({"faults": [{"node": "n1", "after_s": -1}]}, "faults.0.after_s", "bad_fault"),
        ({"faults": [{"node": "n1", "after_s": 5, "back_after_s": 5.0001}]}, "faults.0.back_after_s", "bad_fault"),
        ({"faults": [{"node": "n1", "back_after_s": "1h"}]}, "faults.0.back_after_s", "bad_fault"),
        ({"faults": [{"node": "n1", "after": 5}]}, "faults.0.after", "unknown_field"),
        ({"job": "merge"}, "job", "not_an_object"),
        ({"policy": None}, "policy", "not_an_object"),
        ({"add_nodes": None}, "add_nodes", "not_a_list"),
        ({"remove_nodes": None}, "remove_nodes", "not_a_list"),
        ({"faults": None}, "faults", "bad_faults"),
        ({"job": None}, "job", "not_an_object"),
        ({"policy": {"project_weights": {"beta": 2}}}, "policy.project_weights.beta", "unknown_name"),
        ({"policy": {"user_weights": {"beta/bob": 2}}}, "policy.user_weights.beta/bob", "unknown_name"),
        ({"policy": {"billing": {"A10": 2}}}, "policy.billing.A10", "unknown_name"),
    ],
)
def test_a_change_that_can_not_be_made_is_refused_once_by_the_whole_path_of_its_field(body, field, code):
    found = replay.change_of(body, EMPTY, None, b.NOON)
    assert isinstance(found, Unplayable)
    assert [(error["field"], error["code"]) for error in found.errors] == [(field, code)]
    assert field.removeprefix("policy.") in found.errors[0]["message"] or code in ("unknown_field", "unknown_name")


@pytest.mark.parametrize("field", replay.FIELDS)
def test_a_null_is_called_by_its_name_in_json(field):
    found = replay.change_of({field: None}, EMPTY, None, b.NOON)
    assert found.errors[0]["message"].endswith(", not null")


def test_a_weight_of_whom_there_is_not_is_refused_with_who_there_is(who):
    found = change({"policy": {"project_weights": {"alhpa": 2, "beta": 3}}}, who)
    assert [(error["field"], error["message"], error["limit"]) for error in found.errors] == [
        ("policy.project_weights.alhpa", "policy.project_weights names 'alhpa' (did you mean 'alpha'?), and there is "
         "no such project; known are alpha, beta", ["alpha", "beta"])
    ]  # fmt: skip


def test_a_rule_that_no_replay_asks_for_is_noted(who, busy, here):
    body = {"policy": {"queues": {"merge": {"max_duration_cap_s": 14_400}}}}
    assert replay.replay(body, who["admin"], b.later(10))["notes"] == [
        "queues.merge.max_duration_cap_s of the policy changes nothing here: it is a rule for jobs that are submitted",
        replay.SAME,
    ]


def test_a_value_that_holds_already_is_noted_and_so_is_a_replay_that_came_out_the_same(who, busy, here):
    Project.objects.filter(name="alpha").update(weight=2)
    found = replay.replay({"policy": {"project_weights": {"alpha": 2}}}, who["admin"], b.later(10))
    assert (found["jobs"], found["notes"]) == (
        [], ["project_weights.alpha of the policy is 2 already: it changes nothing", replay.SAME],
    )  # fmt: skip


@pytest.mark.parametrize("body", [{"add_nodes": [{"like": "n1", "count": 2}]}, {"remove_nodes": ["n1"]}])
def test_a_replay_that_came_out_otherwise_has_no_such_note(who, busy, here, body):
    assert replay.replay(body, who["admin"], b.later(10))["notes"] == []


def test_a_job_more_that_moves_nobody_is_no_replay_that_came_out_the_same(who, here):
    body = {"job": b.merge_body([b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)])}
    assert replay.replay(body, who["admin"], b.later(10))["notes"] == []


@pytest.mark.parametrize(
    ("body", "field", "code", "words"),
    [
        ({"remove_nodes": ["n1", "n1"]}, "remove_nodes.1", "given_twice", "names n1 again; name each node once"),
        ({"faults": [{}]}, "faults.0.node", "bad_fault", "faults.0.node is missing: name a node there is, one of n1"),
        ({"add_nodes": [{"count": 1}]}, "add_nodes.0.like", "bad_nodes", "add_nodes.0.like is missing: name a node"),
        ({"add_nodes": [{"like": "n1"}]}, "add_nodes.0.count", "bad_nodes",
         "add_nodes.0.count is missing: say how many nodes, a whole number from 1 to 1000"),
    ],
)  # fmt: skip
def test_what_is_named_twice_or_not_at_all_is_told_so(body, field, code, words):
    (error,) = replay.change_of(body, EMPTY, None, b.NOON).errors
    assert (error["field"], error["code"]) == (field, code)
    assert words in error["message"]


def test_a_change_with_several_faults_tells_them_all():
    body = {"policy": {"half_life_s": -1}, "remove_nodes": ["n9"], "add_nodes": [{"like": "n8", "coun": 1}]}
    found = replay.change_of(body, EMPTY, None, b.NOON)
    assert [error["field"] for error in found.errors] == [
        "policy.half_life_s", "remove_nodes.0", "add_nodes.0.coun", "add_nodes.0.like", "add_nodes.0.count",
    ]  # fmt: skip


def test_nodes_are_added_up_to_a_limit_in_all():
    pool = Pool((Node("n1", "r1"), Node("n2", "r1")), ())
    found = replay.change_of(
        {"add_nodes": [{"like": "n1", "count": 600}, {"like": "n2", "count": 600}]},
        Snapshot(0, DEFAULT_POLICY, pool), None, b.NOON,
    )  # fmt: skip
    assert [(error["field"], error["limit"]) for error in found.errors] == [("add_nodes", 1000)]


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
