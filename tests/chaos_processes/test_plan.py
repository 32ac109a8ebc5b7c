"""Which faults a run of real processes has, and what its jobs must leave."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from types import SimpleNamespace

import pytest

from tests.chaos_processes import faults, load
from tests.chaos_processes.__main__ import FULL, SHORT, SHORT_SEEDS, main
from tests.chaos_processes.hand import HOLDS, Hand, Missed

NODES = ["node-1", "node-2"]


def planned(seed: int) -> list[faults.Fault]:
    return faults.plan(seed, NODES, seconds=45, kills=13, harms=6)


def test_a_seed_has_the_same_faults_every_time_and_another_has_others():
    assert planned(5) == planned(5)
    assert planned(5) != planned(6)


def test_a_plan_has_as_many_kills_and_others_as_asked_within_its_time():
    plan = planned(7)
    assert Counter(fault.kind.startswith("kill") for fault in plan) == {True: 13, False: 6}
    assert all(0 <= fault.at_s <= 45 for fault in plan)


def test_no_kind_comes_more_often_than_a_run_may_bear():
    for seed in range(50):
        counts = Counter(fault.kind for fault in planned(seed))
        assert all(counts[kind] <= most for kind, (_, most) in (faults.KILLS | faults.HARMS).items())


def test_more_faults_than_a_run_may_bear_are_refused():
    with pytest.raises(ValueError, match="are more than"):
        faults.plan(1, NODES, seconds=45, kills=1000, harms=0)


def test_whoever_is_hit_on_a_node_is_hit_on_one_of_the_nodes():
    assert {fault.node for seed in range(20) for fault in planned(seed)} == {"", *NODES}


def test_there_is_a_hand_for_every_kind():
    missing = [kind for kind in (*faults.KILLS, *faults.HARMS)
               if kind not in HOLDS and not hasattr(Hand, f"_{kind.split()[0]}")]  # fmt: skip
    assert missing == []


@pytest.mark.parametrize("kind", ["hold up", "hold down", "hold both", "cut", "slow"])
def test_a_fault_of_a_wire_is_done_to_it_and_healed_by_its_undoing(kind):
    done: list[str] = []
    names = ("hold", "cut", "delay", "mend")
    node = SimpleNamespace(**{name: lambda *_, name=name: done.append(name) for name in names})
    _, undo = Hand(SimpleNamespace(nodes={"node-1": node})).do(faults.Fault(0.0, kind, "node-1"))
    assert done == [{"slow": "delay"}.get(kind, kind.split()[0])]
    undo()
    assert done[1:] == ["mend"]


def test_two_nodes_are_parted_that_work_on_one_attempt_and_joined_again():
    done: list[tuple[str, ...]] = []
    work = {"node-1": ["a", "b"], "node-2": ["c"], "node-3": ["b"]}
    network = SimpleNamespace(part=lambda *who: done.append(("part", *who)), rejoin=lambda *who: done.append(who))
    nodes = {name: SimpleNamespace(name=name, at_work=lambda all=all: all) for name, all in work.items()}
    hand, fault = Hand(SimpleNamespace(nodes=nodes, network=network)), faults.Fault(0.0, "part gang", lot=0.9)
    said, undo = hand.do(fault)
    assert (said, done) == ("node-1 and node-3", [("part", "node-1", "node-3")])
    undo()
    assert done[1:] == [("node-1", "node-3")]
    work["node-3"].clear()
    with pytest.raises(Missed):
        hand.do(fault)


def test_where_no_network_could_be_made_the_record_says_that_no_nodes_were_parted():
    said, _ = Hand(SimpleNamespace(nodes={}, network=None)).do(faults.Fault(0.0, "part gang"))
    assert said.startswith("left out")


def test_the_full_set_of_eight_runs_has_200_kills():
    assert 8 * FULL.kills >= 200


def test_the_short_set_kills_a_node_and_the_database_fills_a_disk_stops_a_keeper_and_cuts_a_node_and_a_gang():
    kinds = {
        fault.kind
        for seed in SHORT_SEEDS
        for fault in faults.plan(seed, SHORT.names, seconds=SHORT.seconds, kills=SHORT.kills, harms=SHORT.harms)
    }
    assert {"kill agent", "kill job", "kill node", "kill scheduler", "crash database", "fill store",
            "stop keeper", "hold up", "part gang"} <= kinds  # fmt: skip


def test_a_mixed_load_has_every_kind_of_job():
    for made in (load.full(["a", "b"], 1), load.short(["a", "b"], 1)):
        kinds = Counter((order.body["kind"], "node_count" in order.body, order.ends) for order in made.orders)
        assert set(kinds) == {
            ("merge", False, "SUCCEEDED"), ("command", False, "SUCCEEDED"), ("command", True, "SUCCEEDED"),
            ("command", False, "FAILED"), ("command", False, "CANCELLED"),
        }  # fmt: skip


def test_a_job_comes_after_one_that_is_submitted_before_it_and_names_it_by_its_id():
    for made in (load.full(["a", "b"], 1), load.short(["a", "b"], 1)):
        names = [order.name for order in made.orders]
        chained = {order.name: order for order in made.orders if order.after}
        for order in chained.values():
            assert names.index(order.after) < names.index(order.name)
            assert made.orders[names.index(order.after)].after_s < 0
        told = chained["never"].body_after("6f1c")
        assert (told["after"], told["after_any"], "inputs" in told["params"]) == (["6f1c"], False, False)
        reads = [order for order in chained.values() if order.reads]
        assert {str(order.body_after("6f1c")["params"]["inputs"]) for order in reads} == {"{'one': '@6f1c'}"}
        assert "after" not in made.orders[0].body_after("")


def test_a_reader_leaves_the_sha256_of_what_is_left_before_it():
    made = load.Load([])
    made.train("train", 7)
    made.reader("reader", "train")
    bytes_before = json.dumps(load.trained(7)).encode()
    assert made.orders[1].leaves == sha256(sha256(bytes_before).hexdigest().encode()).hexdigest()


def test_a_training_from_another_seed_leaves_something_else():
    assert load.trained(1) != load.trained(2)


def test_a_number_of_runs_that_can_not_be_is_refused_by_name(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--runs", "0"])
    assert ended.value.code == 2
    assert "--runs: a whole number from 1 to 10000, not 0" in capsys.readouterr().err
