"""A GPU that fails, as the services see it: its state and why, the job that leaves it, its way back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from scheduling.models import Allocation, Attempt, AttemptNode, Event, Gpu, Job, Node, NodeLive
from scheduling.services import health, jobs, pool
from scheduling.store import load_pool
from scheduling.store.commit.gpus import Report
from tests import builders as b
from tests.services.sick_gpus import ERROR, HOT, HUNG, PASSED, fails, report, returns, state

pytestmark = pytest.mark.django_db


def running():
    return b.busy_lab()[1]


# ---------------------------------------------------------------- states


def test_three_failed_reports_take_an_idle_gpu_out_of_service_and_say_why():
    b.node("n1")
    fails({0: HOT})
    gpu = Gpu.objects.get(uuid="GPU-n1-0")
    assert (gpu.state, gpu.state_since) == ("QUARANTINED", b.later(30))
    assert gpu.why == "3 checks in a row failed: 105 °C is at or above the board's slowdown limit of 95 °C"


def test_each_change_of_state_is_in_the_journal_with_its_numbers():
    b.node("n1")
    fails({0: HOT})
    told = list(Event.objects.filter(type="gpu_state", object_id="GPU-n1-0", at__gt=b.NOON).order_by("id"))
    assert [(e.data["from"], e.data["to"]) for e in told] == [
        ("HEALTHY", "SUSPECT"), ("SUSPECT", "UNHEALTHY"), ("UNHEALTHY", "QUARANTINED"),
    ]  # fmt: skip
    assert {k: told[1].data[k] for k in ("failed_checks", "temperature_c", "limit_c", "event")} == {
        "failed_checks": 3, "temperature_c": 105.0, "limit_c": 95.0, "event": "CONDEMN",
    }  # fmt: skip


@pytest.mark.parametrize("trouble", [HOT, HUNG, ERROR, {"memory_mib": 40_000}, {"recovery": 1}, {"retired_pages": 63},
                                     {"remap_failure": 1}, {"temperature_c": "hot"}, None],
                         ids=["hot", "hung", "error", "wrong memory", "driver asks for a reset", "retired pages",
                              "remap failed", "nonsense", "missing"])  # fmt: skip
def test_every_trouble_takes_three_reports_and_leaves_the_others_alone(trouble):
    b.node("n1")
    seen = []
    for n in range(3):
        report({1: trouble}, at=10 * (n + 1))
        seen.append(state(1))
    assert (seen, [state(i) for i in (0, 2, 3)]) == (["SUSPECT", "SUSPECT", "QUARANTINED"], ["HEALTHY"] * 3)


def test_rising_memory_errors_take_three_reports_that_see_them_rise():
    b.node("n1")
    for n in range(4):
        report({0: {"ecc": n}}, at=10 * (n + 1))
    assert state() == "QUARANTINED"


def test_a_fatal_xid_takes_one():
    b.node("n1")
    report({0: {"xids": [79], "xids_before": 0}}, at=10)
    assert Gpu.objects.get(uuid="GPU-n1-0").why == "Xid 79 (the GPU has fallen off the bus)"


def test_silence_and_messages_without_samples_are_no_checks():
    b.node("n1")
    for n in range(5):
        b.beat(now=b.later(10 * n), seq=n + 1)
    assert state() == "HEALTHY"


def test_a_report_delivered_three_times_is_one_check():
    b.node("n1")
    for _ in range(3):
        report({0: HOT}, at=10, seq=7)
    assert state() == "SUSPECT"


def test_a_report_that_others_have_overtaken_neither_clears_nor_shows():
    b.node("n1")
    report({0: HOT}, at=10, seq=7)
    report(at=11, seq=6)
    assert (state(), NodeLive.objects.get().samples["GPU-n1-0"]["temperature_c"]) == ("SUSPECT", 105.0)


def test_a_change_of_state_and_nothing_else_makes_the_scheduler_read_the_pool_anew():
    b.node("n1")
    marks = [load_pool.inventory_mark()]
    for at, changes in ((10, {}), (20, {0: HOT}), (30, {0: HOT}), (40, {})):
        report(changes, at=at)
        marks.append(load_pool.inventory_mark())
    assert [was != now for was, now in pairwise(marks)] == [False, True, False, True]


def test_what_a_report_says_beside_the_known_metrics_is_not_kept():
    b.node("n1")
    report({0: {"surprise": 1, "error": "half \ud800 and \x00", "fault": "error"}}, at=10)
    assert NodeLive.objects.get().samples["GPU-n1-0"]["error"] == "half \\ud800 and "
    assert "surprise" not in NodeLive.objects.get().samples["GPU-n1-0"]


# ---------------------------------------------------------------- the job leaves


def test_the_job_on_a_failing_gpu_is_asked_to_save_with_a_short_grace():
    run = running()
    wanted = fails({0: HOT})["desired"][0]
    assert (wanted["action"], wanted["why"], wanted["grace_s"]) == ("stop", "health", 30.0)
    assert (Job.objects.get(pk=run.job).state, state()) == ("PREEMPTING", "UNHEALTHY")


def test_the_timeline_of_the_job_says_why_it_moves():
    run = running()
    fails({0: HOT})
    event = Event.objects.get(object_id=run.job, type="preempting")
    assert event.message == (
        "GPU n1/0 is failing (3 checks in a row failed: 105 °C is at or above the board's slowdown limit of 95 °C);"
        " it has 30 s to save a checkpoint and then moves to other GPUs"
    )
    assert (event.actor, event.data["gpu"]) == ("health", "GPU-n1-0")


@pytest.mark.parametrize("trouble", [HUNG, None, {"xids": [79]}], ids=["hung", "missing", "off the bus"])
def test_a_job_on_a_device_that_does_not_answer_is_stopped_at_once(trouble):
    running()
    wanted = fails({0: trouble})["desired"][0]
    assert (wanted["action"], wanted["why"], wanted["grace_s"]) == ("kill", "health", 0.0)


def test_a_device_that_stops_to_answer_while_the_job_saves_ends_the_grace():
    running()
    fails({0: HOT})
    assert report({0: HUNG}, at=40)["desired"][0]["action"] == "kill"


def test_it_is_asked_once_however_often_the_gpu_fails():
    run = running()
    fails({0: HOT})
    fails({0: HOT}, start=40)
    assert Attempt.objects.get(pk=run.attempt).stop_by == b.later(60)
    assert Event.objects.filter(object_id=run.job, type="preempting").count() == 1


def test_it_goes_back_to_its_place_in_the_queue_and_avoids_the_gpu():
    run = running()
    before = Job.objects.get(pk=run.job)
    fails({0: HOT})
    saved = b.output(run, "checkpoint", b'{"step": 3}', kind="checkpoint", now=b.later(35))
    b.finished(run, "PREEMPTED", exit_code=85, checkpoint=saved, step=3, why="health", now=b.later(36))
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.submitted_at, job.level_id) == ("QUEUED", before.submitted_at, before.level_id)
    assert (job.avoid["gpus"], job.avoid["nodes"], job.infra_failures, job.app_failures) == (["GPU-n1-0"], [], 0, 0)
    b.ticked(b.later(37))
    assert b.beat(now=b.later(37))["desired"][0]["action"] == "run"
    again = Attempt.objects.get(number=2).allocations.values_list("gpu__uuid", flat=True)
    assert "GPU-n1-0" not in again


def test_the_gpu_is_quarantined_when_the_job_has_left():
    run = running()
    fails({0: HOT})
    b.finished(run, "PREEMPTED", exit_code=85, why="health", now=b.later(36))
    assert state() == "UNHEALTHY"
    report({0: HOT}, at=40)
    assert state() == "QUARANTINED"


def test_the_whole_gang_moves():
    run = running()
    b.node("n2", gpus=1)
    here = Attempt.objects.get(pk=run.attempt)
    AttemptNode.objects.create(attempt=here, node=Node.objects.get(name="n2"), rank=1, claimed_at=b.NOON)
    Allocation.objects.create(attempt=here, gpu=Gpu.objects.get(uuid="GPU-n2-0"), granted_at=b.NOON)
    fails({0: HOT}, node="n2", gpus=1)
    told = [b.beat(name, now=b.later(31))["desired"][0] for name in ("n1", "n2")]
    assert [(t["action"], t["why"]) for t in told] == [("stop", "health")] * 2


def test_a_grant_that_nobody_claimed_leaves_at_once_and_costs_no_budget():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    b.ticked(b.later(5))
    assert fails({0: HOT})["desired"] == []
    row = Job.objects.get(pk=job)
    assert (row.state, row.infra_failures, row.yields, row.avoid["gpus"]) == ("QUEUED", 0, 0, ["GPU-n1-0"])


def test_a_job_that_has_not_started_yet_is_stopped_and_its_timeline_says_why():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models))
    b.ticked(b.later(5))
    wanted = b.beat(now=b.later(5))["desired"][0]
    pool.claim("n1", wanted["attempt"], wanted["epoch"], b.later(5))
    told = fails({0: HOT})["desired"][0]
    assert (told["action"], Job.objects.get(pk=job).state) == ("stop", "DISPATCHING")
    assert "GPU n1/0 is failing" in Event.objects.get(object_id=job, type="stop_requested").message


def test_a_job_that_is_being_cancelled_stays_so():
    run = running()
    jobs.cancel(run.job, b.people()["alice"], b.later(5))
    wanted = fails({0: HUNG})["desired"][0]
    assert (wanted["action"], wanted["why"], Job.objects.get(pk=run.job).state) == ("kill", "cancel", "CANCELLING")


def test_a_job_let_run_on_by_somebody_else_is_asked_again():
    run = running()
    fails({0: HOT})
    Attempt.objects.filter(pk=run.attempt).update(action="run", why="", stop_by=None)
    Job.objects.filter(pk=run.job).update(state="RUNNING")
    assert report({0: HOT}, at=40)["desired"][0]["why"] == "health"


def test_what_fails_on_a_failing_gpu_is_not_the_jobs_fault():
    run = running()
    report({0: {"xids": [48]}}, at=10)
    b.finished(run, "FAILED", exit_code=1, error="CUDA error: uncorrectable ECC", now=b.later(11))
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.infra_failures, job.app_failures, job.avoid["gpus"]) == ("QUEUED", 1, 0, ["GPU-n1-0"])
    ended = Event.objects.get(type="attempt_ended").message
    assert "GPU n1/0 was failing (Xid 48 (double-bit memory error)); the job said: CUDA error" in ended


def test_the_report_that_tells_of_the_fault_and_the_end_in_one_is_read_in_that_order():
    run = running()
    end = {"type": "finished", "attempt": run.attempt, "epoch": run.epoch, "outcome": "FAILED", "exit_code": 1}
    report({0: {"xids": [79]}}, at=10, reports=[end])
    assert Job.objects.get(pk=run.job).state == "QUEUED"


def test_what_fails_on_a_good_gpu_is():
    run = running()
    report(at=10)
    b.finished(run, "FAILED", exit_code=1, error="ValueError", now=b.later(11))
    assert Job.objects.get(pk=run.job).state == "FAILED"


# ---------------------------------------------------------------- the way back


def test_the_test_is_asked_for_after_a_clean_check_and_until_its_result_is_here():
    b.node("n1")
    assert fails({0: HOT})["canary"] == []
    assert [report(at=at)["canary"] for at in (40, 50)] == [["GPU-n1-0"]] * 2
    assert report({0: PASSED}, at=60)["canary"] == []


def test_a_test_and_three_clean_checks_return_it_to_service():
    b.node("n1")
    fails({0: HOT})
    assert returns(start=40) == "HEALTHY"
    assert Event.objects.filter(type="gpu_state").latest("id").message == (
        "HEALTHY: it passed its test and 3 clean checks"
    )
    assert (Gpu.objects.get(uuid="GPU-n1-0").why, Gpu.objects.get(uuid="GPU-n1-0").failed_checks) == ("", 0)


def test_a_failed_test_keeps_it_out_and_is_on_record():
    b.node("n1")
    fails({0: HOT})
    report(at=40)
    reply = report({0: {"canary": {"passed": False, "detail": "3 of 4096 products wrong"}}}, at=50)
    assert (state(), reply["canary"]) == ("QUARANTINED", [])
    assert "3 of 4096 products wrong" in Event.objects.get(type="gpu_health", at=b.later(50)).message


def test_no_test_is_asked_for_while_a_job_is_on_it():
    running()
    fails({0: HOT})
    assert report(at=40)["canary"] == []


def test_the_third_return_in_a_week_waits_for_an_operator():
    who = b.people()
    b.node("n1")
    for n in range(2):
        fails({0: HOT}, start=1000 * n)
        assert returns(start=1000 * n + 100) == "HEALTHY"
    fails({0: HOT}, start=3000)
    assert returns(start=3100) == "QUARANTINED"
    assert health.operate("GPU-n1-0", "return", who["admin"], b.later(3200)) == (True, "QUARANTINED")
    assert returns(start=3300) == "HEALTHY"


def test_a_reboot_with_the_indices_in_another_order_does_not_mistake_one_gpu_for_another():
    b.node("n1")
    report({0: {"xids": [48]}}, at=10)
    described = b.description("n1", boot="boot-2")
    for gpu in described["gpus"]:
        gpu["index"] = 3 - gpu["index"]
    pool.register("n1", described, b.later(20))
    assert {g.uuid: (g.index, g.state) for g in Gpu.objects.all()} == {
        "GPU-n1-0": (3, "QUARANTINED"), "GPU-n1-1": (2, "HEALTHY"),
        "GPU-n1-2": (1, "HEALTHY"), "GPU-n1-3": (0, "HEALTHY"),
    }  # fmt: skip
    for n in range(6):
        report({0: PASSED} if n == 1 else {}, at=30 + 10 * n, boot="boot-2")
    assert state() == "HEALTHY"


def test_a_gpu_that_comes_back_smaller_waits_for_an_operator():
    b.node("n1")
    described = b.description("n1", boot="boot-2")
    described["gpus"][0]["memory_mib"] = 40_960
    pool.register("n1", described, b.later(20))
    gpu = Gpu.objects.get(uuid="GPU-n1-0")
    assert (gpu.state, gpu.memory_mib) == ("QUARANTINED", 40_960)
    assert gpu.why == "it reports 40960 MiB of memory and had 76294 MiB"


def test_a_job_on_a_gpu_that_is_not_described_any_more_is_stopped_at_once():
    run = running()
    described = b.description("n1", attempts=[{"attempt": run.attempt, "epoch": run.epoch, "pid_alive": True}])
    described["gpus"] = described["gpus"][1:]
    assert pool.register("n1", described, b.later(5))["adopt"] == [run.attempt]
    wanted = b.beat(now=b.later(6))["desired"][0]
    assert (wanted["action"], wanted["why"], state()) == ("kill", "health", "UNHEALTHY")


def test_a_gpu_in_another_node_keeps_its_history():
    b.node("n1")
    b.node("n2", gpus=0)
    fails({0: HOT})
    moved = b.description("n2", gpus=0)
    moved["gpus"] = b.description("n1")["gpus"][:1]
    pool.register("n2", moved, b.later(50))
    gpu = Gpu.objects.get(uuid="GPU-n1-0")
    assert (gpu.node.name, gpu.state) == ("n2", "QUARANTINED")
    assert "GPU-n1-0" in NodeLive.objects.get(node__name="n2").health


# ---------------------------------------------------------------- processes that stay, jobs that fail alike


def test_gpus_with_a_process_that_cannot_be_killed_are_out_of_service_when_they_come_free():
    run = running()
    b.finished(run, "PREEMPTED", why="preempt", gpus_clean=False, now=b.later(5),
               detail="processes that could not be killed: [4711]")  # fmt: skip
    assert [state(i) for i in range(4)] == ["QUARANTINED", "QUARANTINED", "HEALTHY", "HEALTHY"]
    gpu = Gpu.objects.get(uuid="GPU-n1-0")
    assert gpu.why == "processes that could not be killed: [4711]"
    (end,) = Event.objects.filter(object_id=run.job, type="attempt_ended").values_list("message", flat=True)
    assert "its GPUs are out of service: processes that could not be killed: [4711]" in end
    assert Job.objects.get(pk=run.job).state == "QUEUED"
    assert returns(start=10) == "QUARANTINED"


def test_a_job_that_failed_and_left_a_process_behind_has_failed():
    run = running()
    b.finished(run, "FAILED", exit_code=1, gpus_clean=False, now=b.later(5), error="ValueError")
    assert Job.objects.get(pk=run.job).state == "FAILED"


def test_a_gpu_that_failed_before_its_process_could_not_be_killed_is_still_what_the_job_failed_of():
    run = running()
    report({0: {"xids": [79], "xids_before": 0}}, at=5)
    b.finished(run, "FAILED", exit_code=1, gpus_clean=False, now=b.later(8), error="CUDA error")
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.app_failures, job.avoid["gpus"]) == ("QUEUED", 0, ["GPU-n1-0"])
    assert [state(i) for i in range(3)] == ["QUARANTINED", "QUARANTINED", "HEALTHY"]


def three_failures(*, errors):
    """Jobs of alice, bob and alice have failed on the first two GPUs of the only node."""
    who = b.people()
    b.node("n1", gpus=2)
    for n, (name, error) in enumerate(zip(("alice", "bob", "alice"), errors, strict=True)):
        project = {"alice": "alpha", "bob": "beta"}[name]
        models = [b.model(who[name], f"{n}{m}", m, project=project) for m in (1, 2)]
        run = b.running(who[name], models, now=b.later(100 * n), name=f"j{n}", project=project)
        b.finished(run, "FAILED", exit_code=1, error=error, now=b.later(100 * n + 50))


def test_jobs_of_different_people_that_fail_alike_make_their_gpus_suspect():
    three_failures(errors=["CUDA error 719 at 0x1", "CUDA error 719 at 0x2", "CUDA error 719 at 0x3"])
    gpu = Gpu.objects.get(uuid="GPU-n1-0")
    assert gpu.state == "SUSPECT"
    assert gpu.why == "3 jobs of 2 people failed alike on it within 24 h: CUDA error 719 at 0x3"


def test_jobs_that_fail_each_in_their_own_way_do_not():
    three_failures(errors=["KeyError", "CUDA error 719", "out of disk"])
    assert state() == "HEALTHY"


def test_a_suspected_gpu_is_tested_and_cleared():
    three_failures(errors=["CUDA error"] * 3)
    assert report(at=500, gpus=2)["canary"] == ["GPU-n1-0", "GPU-n1-1"]
    report({0: PASSED}, at=510, gpus=2)
    assert [state(0), state(1)] == ["HEALTHY", "SUSPECT"]


# ---------------------------------------------------------------- operators


def test_a_retired_gpu_stays_retired_through_reports_and_registrations():
    who = b.people()
    b.node("n1")
    assert health.operate("GPU-n1-0", "retire", who["admin"], b.later(1)) == (True, "RETIRED")
    report(at=10)
    pool.register("n1", b.description("n1", boot="boot-2"), b.later(20))
    assert state() == "RETIRED"


def test_nobody_retires_a_gpu_under_a_job():
    running()
    assert health.operate("GPU-n1-0", "retire", b.people()["admin"], b.later(1)) == (False, "HEALTHY")


def test_a_gpu_that_is_not_there_cannot_be_operated():
    assert health.operate("GPU-x", "retire", b.people()["admin"], b.NOON) is None


def test_who_took_a_gpu_out_is_on_record():
    who = b.people()
    b.node("n1")
    health.operate("GPU-n1-0", "retire", who["admin"], b.later(1))
    event = Event.objects.filter(object_id="GPU-n1-0").latest("id")
    assert (event.actor, event.message) == ("user admin", "RETIRED: taken out of the pool (admin)")


def test_nothing_is_remembered_of_a_node_that_is_gone():
    b.node("n1")
    Node.objects.filter(name="n1").delete()
    assert health.judge("n1", Report("boot-1", 1, [], {}), b.NOON) == []
