"""What an Xid does beyond its GPU: its node is emptied, or its NVLink group gets no new work (anchors of the table)."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Gpu, Job, Node
from scheduling.services import health, pool
from scheduling.store.queries import pool as queries
from tests import builders as b
from tests.services.sick_gpus import PASSED, report, returns, state

pytestmark = pytest.mark.django_db

OFF_THE_BUS = {0: {"xids": [79], "xids_before": 0}}
LINK_FAULT = {0: {"xids": [74], "xids_before": 0}}


def node_is(name="n1"):
    return Node.objects.get(name=name).state


def states(node="n1", gpus=4):
    return [state(i, node) for i in range(gpus)]


# ---------------------------------------------------------------- the node


def test_a_gpu_off_the_bus_drains_its_node_and_node_and_journal_say_why():
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    words = "its machine has to be restarted: GPU 0: Xid 79 (the GPU has fallen off the bus)"
    assert (node_is(), Node.objects.get().why, Node.objects.get().drain_by) == ("DRAINING", words, None)
    told = Event.objects.get(type="node_draining")
    assert (told.actor, told.message, told.data["from"]) == ("health", words, "READY")


def test_a_node_drained_for_a_gpu_gets_no_new_work_and_what_runs_on_its_other_gpus_goes_on():
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models)
    report({3: {"xids": [79], "xids_before": 0}}, at=10)
    other = b.submitted(lab.who["alice"], b.command_body(gpu_count=1), now=b.later(11))
    b.ticked(b.later(12))
    assert [Job.objects.get(pk=job).state for job in (run.job, other)] == ["RUNNING", "QUEUED"]


def test_a_restart_of_its_machine_opens_the_node_again_and_the_gpu_is_tested():
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    pool.register("n1", b.description("n1", boot="boot-1"), b.later(20))
    assert node_is() == "DRAINING"
    pool.register("n1", b.description("n1", boot="boot-2"), b.later(30))
    assert (node_is(), state(), Node.objects.get().why) == ("READY", "QUARANTINED", "")
    assert report(at=40, boot="boot-2")["canary"] == ["GPU-n1-0"]


def answered_for(who, *indices, at):
    for index in indices:
        health.operate(f"GPU-n1-{index}", "return", who["admin"], b.later(at))


def why():
    return Node.objects.get().why


FELL = "Xid 79 (the GPU has fallen off the bus)"


def test_the_return_of_the_gpu_opens_its_node_again_and_the_journal_says_so():
    who = b.people()
    b.node("n1")
    report({3: OFF_THE_BUS[0]}, at=10)
    report(at=20)
    answered_for(who, 3, at=30)
    assert (node_is(), why()) == (
        "DRAINING",
        f"it takes work again when what an operator answers for has passed its test: GPU 3: {FELL}",
    )
    assert returns(3, start=40) == "HEALTHY"
    assert (node_is(), why(), Node.objects.get().closed_by) == ("READY", "", "")
    told = Event.objects.get(type="node_ready")
    assert (told.actor, told.message) == ("health", "GPU 3 is back in service")
    assert (told.data["from"], told.data["to"]) == ("DRAINING", "READY")


def test_the_node_stays_closed_for_the_last_of_several_and_names_that_one():
    who = b.people()
    b.node("n1")
    report({3: OFF_THE_BUS[0]}, at=10)
    report({0: OFF_THE_BUS[0]}, at=15)
    assert why() == f"its machine has to be restarted: GPU 0: {FELL}, GPU 3: {FELL}"
    report(at=20)
    answered_for(who, 3, at=30)
    assert returns(3, start=40) == "HEALTHY"
    assert (node_is(), why()) == ("DRAINING", f"its machine has to be restarted: GPU 0: {FELL}")
    answered_for(who, 0, at=110)
    assert returns(0, start=120) == "HEALTHY"
    assert node_is() == "READY"


def test_a_gpu_that_falls_off_again_before_its_test_closes_the_node_as_before():
    who = b.people()
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    report(at=20)
    answered_for(who, 0, at=30)
    report({0: {"xids": [79], "xids_before": 1}}, at=40)
    assert (node_is(), why()) == ("DRAINING", f"its machine has to be restarted: GPU 0: {FELL}")
    assert returns(start=50) == "QUARANTINED"


def test_taking_the_gpu_out_of_the_pool_opens_its_node_too():
    who = b.people()
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    report(at=20)
    health.operate("GPU-n1-0", "retire", who["admin"], b.later(30))
    assert (node_is(), Event.objects.get(type="node_ready").message) == ("READY", "GPU 0 was taken out of the pool")


def test_a_gpu_that_was_taken_out_while_its_node_was_lost_does_not_close_it_when_it_comes_back():
    who = b.people()
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    report(at=20)
    b.listening(100)
    b.ticked(b.later(100))
    health.operate("GPU-n1-0", "retire", who["admin"], b.later(110))
    assert (node_is(), Node.objects.get().closed) == ("LOST", "DRAINING")
    pool.register("n1", b.description("n1", boot="boot-1"), b.later(120))
    assert (node_is(), Node.objects.get().closed) == ("READY", "")


@pytest.mark.parametrize(("verb", "closed"), [("drain", "DRAINING"), ("cordon", "CORDONED")])
def test_the_return_of_the_gpu_opens_no_node_that_an_operator_has_closed(verb, closed):
    who = b.people()
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    report(at=20)
    assert pool.operate("n1", verb, who["admin"], b.later(25)) == (True, closed)
    answered_for(who, 0, at=30)
    assert returns(start=40) == "HEALTHY"
    assert (node_is(), why()) == (closed, f"{verb} by admin")


def test_what_an_operator_has_opened_the_node_for_closes_it_no_more():
    """The node is opened while GPU 3 is out of service; of the fault that comes later GPU 0 alone is to be mended."""
    who = b.people()
    b.node("n1")
    report({3: OFF_THE_BUS[0]}, at=10)
    report(at=20)
    assert pool.operate("n1", "return", who["admin"], b.later(25)) == (True, "READY")
    report(at=30)
    assert node_is() == "READY"
    report(OFF_THE_BUS, at=40)
    assert (node_is(), why()) == ("DRAINING", f"its machine has to be restarted: GPU 0: {FELL}")
    report(at=50)
    answered_for(who, 0, at=60)
    assert returns(start=70) == "HEALTHY"
    assert (node_is(), state(3)) == ("READY", "QUARANTINED")


def test_the_gpu_says_what_it_needs_while_its_node_waits():
    who = b.people()
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    report(at=20)

    def needs():
        return queries.pool()[0]["gpus"][0]["next"]

    assert needs() == "needs a reboot of its node, or an operator's word that it is well"
    answered_for(who, 0, at=30)
    assert needs() == "waits for a clean check before its test"
    report(at=40)
    assert needs() == "is being tested"


def test_an_operators_word_on_a_node_outlasts_the_restart_for_health():
    who = b.people()
    b.node("n1")
    report(OFF_THE_BUS, at=10)
    assert pool.operate("n1", "drain", who["admin"], b.later(15)) == (True, "DRAINING")
    pool.register("n1", b.description("n1", boot="boot-2"), b.later(30))
    assert node_is() == "DRAINING"


def test_a_cordoned_node_stays_as_its_operator_left_it():
    who = b.people()
    b.node("n1")
    pool.operate("n1", "cordon", who["admin"], b.later(5))
    report(OFF_THE_BUS, at=10)
    assert (node_is(), Node.objects.get().why) == ("CORDONED", "cordon by admin")


@pytest.mark.parametrize("xid", [48, 74, 95, 119, 140])
def test_other_fatal_xids_leave_the_node_open(xid):
    b.node("n1")
    report({0: {"xids": [xid], "xids_before": 0}}, at=10)
    assert (state(), node_is()) == ("QUARANTINED", "READY")


# ---------------------------------------------------------------- the NVLink group


@pytest.mark.parametrize("xid", [74, 144, 150])
def test_a_link_fault_keeps_new_work_from_the_whole_group_and_each_gpu_says_why(xid):
    b.node("n1")
    report({0: {"xids": [xid], "xids_before": 0}}, at=10)
    assert states() == ["QUARANTINED", "SUSPECT", "SUSPECT", "SUSPECT"]
    why = Gpu.objects.get(uuid="GPU-n1-3").why
    assert why.startswith(f"no new work while the NVLink of its group is at fault: GPU n1/0: Xid {xid} (NVLink ")
    told = Event.objects.filter(type="gpu_state", object_id="GPU-n1-3").latest("id")
    assert told.message == f"SUSPECT: {why}"


def test_a_job_on_the_faulty_gpu_moves_and_one_on_the_rest_of_the_group_runs_on():
    lab = b.lab()
    first = b.running(lab.who["alice"], lab.models)
    second = b.running(lab.who["alice"], lab.models, name="second")
    bad = int(first.gpus[0][-1])
    report({bad: {"xids": [74], "xids_before": 0}}, at=10)
    assert [Job.objects.get(pk=run.job).state for run in (first, second)] == ["PREEMPTING", "RUNNING"]


def test_the_group_serves_again_when_the_faulty_gpu_has_passed_its_test():
    who = b.people()
    b.node("n1")
    report(LINK_FAULT, at=10)
    for n in range(4):
        report(at=20 + 10 * n)
    assert states() == ["QUARANTINED", "SUSPECT", "SUSPECT", "SUSPECT"]
    health.operate("GPU-n1-0", "return", who["admin"], b.later(60))
    assert returns(start=70) == "HEALTHY"
    report(at=130)
    assert states() == ["HEALTHY"] * 4


def test_the_group_serves_again_when_the_faulty_gpu_was_retired():
    who = b.people()
    b.node("n1")
    report(LINK_FAULT, at=10)
    health.operate("GPU-n1-0", "retire", who["admin"], b.later(20))
    report(at=30)
    assert states() == ["RETIRED", "HEALTHY", "HEALTHY", "HEALTHY"]


def test_an_operator_returns_one_of_the_group_by_way_of_its_test():
    who = b.people()
    b.node("n1")
    report(LINK_FAULT, at=10)
    health.operate("GPU-n1-1", "return", who["admin"], b.later(20))
    report(at=30)
    report({1: PASSED}, at=40)
    report(at=50)
    assert states() == ["QUARANTINED", "HEALTHY", "SUSPECT", "SUSPECT"]


def test_a_group_over_several_nodes_is_in_doubt_on_all_of_them_until_its_fault_is_mended():
    who = b.people()
    for name in ("n1", "n2"):
        pool.add_node(name)
        described = b.description(name, gpus=2)
        pool.accepting(b.NOON)
        pool.register(name, {**described, "gpus": [{**g, "nvlink_group_id": "rack-nv"} for g in described["gpus"]]},
                      b.NOON)  # fmt: skip
    report(LINK_FAULT, at=10, gpus=2)
    report(at=11, node="n2", gpus=2)
    assert states("n2", 2) == ["SUSPECT", "SUSPECT"]
    health.operate("GPU-n1-0", "retire", who["admin"], b.later(20))
    report(at=30, node="n2", gpus=2)
    assert states("n2", 2) == ["HEALTHY", "HEALTHY"]


def test_a_gpu_outside_the_group_is_not_doubted():
    b.node("n1", groups=False)
    report(LINK_FAULT, at=10)
    assert states() == ["QUARANTINED", "HEALTHY", "HEALTHY", "HEALTHY"]
