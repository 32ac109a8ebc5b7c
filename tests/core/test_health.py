"""What moves a GPU out of service, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core import health
from scheduling.core.gpu_record import Cause, pack, unpack
from scheduling.core.gpu_xids import TABLE, Effect, Need
from scheduling.core.lifecycle import GpuState

from .gpu_life import GOOD, HOT, HUNG, PASSED, TEST_FAILED, Life, out_of_service

HEALTHY, SUSPECT, UNHEALTHY, QUARANTINED, RETIRED = GpuState


def xid(*numbers, before=0):
    return replace(GOOD, xids=numbers, xids_before=before)


# ---------------------------------------------------------------- checks in a row


def test_three_failed_checks_in_a_row_make_it_unhealthy_and_two_do_not():
    life = Life(busy=True)
    life.report(GOOD, HOT, HOT)
    assert life.report(HOT) is UNHEALTHY
    assert life.states == [HEALTHY, SUSPECT, SUSPECT, UNHEALTHY]


def test_a_passed_check_begins_the_count_anew():
    assert Life(busy=True).report(HOT, HOT, GOOD, HOT, HOT) is SUSPECT


def test_a_suspect_one_is_healthy_again_with_the_next_passed_check():
    assert Life().report(HOT, HOT, GOOD) is HEALTHY


def test_failed_checks_of_different_kinds_count_together():
    assert Life(busy=True).report(HOT, HUNG, None) is UNHEALTHY


def test_the_reason_is_told_in_words_and_numbers():
    life = Life(busy=True)
    life.report(HOT, HOT, HOT)
    assert life.told[-1] == "3 checks in a row failed: 95 °C is at or above the board's slowdown limit of 95 °C"
    assert life.record.reason == life.told[-1]


def test_a_report_delivered_twice_counts_once():
    life = Life(busy=True)
    life.report(HOT)
    assert [life.late(HOT, life.seq) for _ in range(5)] == [SUSPECT] * 5


def test_a_late_report_is_no_check():
    life = Life(busy=True)
    life.report(HOT, HOT)
    life.late(GOOD, 1)
    assert life.report(HOT) is UNHEALTHY


def test_reports_count_anew_after_a_registration():
    life = Life(busy=True)
    life.report(HOT, HOT)
    life.record, life.seq = health.registered(life.record, life.boot), 0
    assert life.report(HOT) is UNHEALTHY


def test_a_new_boot_begins_with_no_failed_check_and_no_count_of_memory_errors():
    life = Life(busy=True)
    life.report(replace(GOOD, ecc=3), HOT, HOT)
    life.reboots()
    assert life.report(replace(GOOD, ecc=5)) is HEALTHY


def test_a_retired_gpu_is_not_judged():
    assert Life(state=RETIRED).report(HUNG, HUNG, HUNG, HUNG) is RETIRED


@pytest.mark.parametrize(("samples", "answers"), [((HOT, HOT, HOT), True), ((HOT, HOT, HUNG), False)])
def test_whether_the_device_answers_is_told_with_the_verdict(samples, answers):
    life = Life(busy=True)
    life.report(*samples)
    assert life.answers is answers


# ---------------------------------------------------------------- Xids


@pytest.mark.parametrize("number", sorted(TABLE))
def test_each_xid_of_the_table_does_to_an_idle_and_a_busy_gpu_what_it_says(number):
    effect = TABLE[number].effect
    after = {Effect.FATAL: (UNHEALTHY, QUARANTINED), Effect.AFTER: (SUSPECT, QUARANTINED)}.get(
        effect, (HEALTHY, HEALTHY)
    )
    assert (Life(busy=True).report(xid(number)), Life().report(xid(number))) == after


# The verdicts of anchors 4.8, written a second time: what must have happened before the test.
NEEDS = {
    Need.RESET: {46, 48, 62, 63, 74, 94, 95, 109, 119, 120, 136, 140, 143, *range(144, 151), 158},
    Need.REBOOT: {79},
    Need.OPERATOR: {64},
}


@pytest.mark.parametrize("need", list(NEEDS))
def test_what_an_xid_needs_before_the_gpu_is_tested(need):
    assert {number for number, known in TABLE.items() if known.need is need} == NEEDS[need]


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68])
def test_a_fault_of_the_application_never_costs_the_gpu_its_place(number):
    assert Life(busy=True).report(*[xid(number, before=n) for n in range(20)]) is HEALTHY


def test_an_xid_that_nobody_knows_is_fatal():
    assert Life(busy=True).report(xid(987)) is UNHEALTHY


def test_where_the_sources_disagree_the_second_time_in_a_day_counts():
    life = Life(busy=True)
    assert [life.report(xid(109)), life.report(xid(109, before=1))] == [HEALTHY, UNHEALTHY]


def test_the_second_time_after_more_than_a_day_is_a_first_time():
    life = Life(busy=True)
    life.report(xid(109))
    life.now_ms += 86_400_000
    assert life.report(xid(109, before=1)) is HEALTHY


def test_an_xid_told_again_because_nobody_acknowledged_it_counts_once():
    life = Life(busy=True)
    assert life.report(xid(109), xid(109), xid(109)) is HEALTHY


def test_an_xid_in_a_late_report_is_not_lost():
    life = Life(busy=True)
    life.report(GOOD, GOOD)
    assert life.late(xid(79), 1) is UNHEALTHY


def test_a_gpu_off_the_bus_cannot_save():
    life = Life(busy=True)
    life.report(xid(79))
    assert life.answers is False


def test_a_row_to_be_replaced_lets_the_job_finish_and_then_takes_the_gpu_out():
    life = Life(busy=True)
    life.report(replace(GOOD, remap_pending=True), replace(GOOD, remap_pending=True))
    assert life.state is SUSPECT
    life.busy = False
    assert life.report(replace(GOOD, remap_pending=True)) is QUARANTINED


# ---------------------------------------------------------------- the way back


def test_an_empty_one_is_quarantined_in_the_same_report():
    life = out_of_service()
    assert (life.state, len(life.told)) == (QUARANTINED, 4)


def test_a_busy_one_is_quarantined_when_its_job_has_left():
    life = out_of_service(busy=True)
    life.busy = False
    assert life.report(HOT) is QUARANTINED


def test_a_test_and_three_clean_checks_return_it():
    life = out_of_service()
    assert life.returns() is HEALTHY
    assert life.states[-5:] == [QUARANTINED] * 4 + [HEALTHY]


def test_clean_checks_without_a_test_return_nothing():
    assert out_of_service().report(*[GOOD] * 50) is QUARANTINED


def test_a_failed_check_after_the_test_asks_for_the_test_again():
    life = out_of_service()
    life.report(GOOD, replace(GOOD, canary=PASSED), GOOD, HOT)
    assert life.report(*[GOOD] * 5) is QUARANTINED
    assert life.returns() is HEALTHY


def test_a_failed_test_is_repeated_after_a_pause_and_the_third_asks_a_person():
    life = out_of_service()
    for _ in range(3):
        life.report(GOOD, replace(GOOD, canary=TEST_FAILED))
        assert not health.gpu_return.wants_test(life.known, life.now_ms)
        life.now_ms += 600_000
    assert (life.record.need, life.report(GOOD, replace(GOOD, canary=PASSED))) == (Need.OPERATOR, QUARANTINED)


def test_the_third_return_in_seven_days_needs_an_operator():
    life = out_of_service()
    life.returns()
    for _ in range(2):
        life.report(HOT, HOT, HOT)
        life.returns()
    assert (life.state, life.record.need) == (QUARANTINED, Need.OPERATOR)
    life.take(health.readmit(life.known, "return by admin"))
    assert life.returns() is HEALTHY


def test_returns_older_than_seven_days_do_not_count():
    life = out_of_service()
    life.returns()
    life.report(HOT, HOT, HOT)
    life.returns()
    life.now_ms += 7 * 86_400_000
    life.report(HOT, HOT, HOT)
    assert life.returns() is HEALTHY


def test_after_an_xid_that_asks_for_a_reset_the_test_waits_for_a_new_boot():
    life = Life()
    life.report(xid(48))
    assert life.returns() is QUARANTINED
    life.reboots()
    assert life.returns() is HEALTHY


def test_a_driver_that_asks_for_nothing_any_more_says_that_the_reset_was_done():
    life = Life()
    life.report(xid(48))
    life.report(replace(GOOD, recovery=0))
    assert life.returns() is HEALTHY


def test_a_reboot_does_not_heal_a_board_that_is_worn_out():
    life = Life()
    life.report(xid(64))
    life.reboots()
    assert life.returns() is QUARANTINED


# ---------------------------------------------------------------- jobs, operators, what else happens


def test_one_on_which_jobs_fail_alike_is_tested_and_cleared():
    life = Life()
    life.take(health.blame(life.known, "3 jobs of 2 people failed alike"))
    assert life.report(GOOD) is SUSPECT
    assert health.gpu_return.wants_test(life.known, life.now_ms)
    assert life.report(replace(GOOD, canary=PASSED)) is HEALTHY


def test_one_on_which_jobs_fail_alike_and_that_fails_its_test_goes():
    life = Life()
    life.take(health.blame(life.known, "3 jobs of 2 people failed alike"))
    life.report(GOOD, replace(GOOD, canary=TEST_FAILED))
    assert (life.state, life.record.cause) == (QUARANTINED, Cause.CANARY)


@pytest.mark.parametrize(("busy", "after"), [(True, UNHEALTHY), (False, QUARANTINED)])
def test_one_taken_out_waits_for_its_job_to_leave(busy, after):
    life = Life(busy=busy)
    taken = health.take_out(life.known, Cause.GONE, "gone", need=Need.NOTHING, now_ms=life.now_ms)
    assert (life.take(taken), life.record.reason) == (after, "gone")


def test_one_with_processes_that_cannot_be_killed_waits_for_a_reboot():
    life = Life()
    life.take(health.take_out(life.known, Cause.UNCLEAN, "pid 7", need=Need.REBOOT, now_ms=life.now_ms))
    assert life.returns() is QUARANTINED
    life.reboots()
    assert life.returns() is HEALTHY


def test_nobody_retires_a_gpu_under_a_job():
    assert health.retire(Life(busy=True).known, "retired by admin") is None


@pytest.mark.parametrize("state", [HEALTHY, SUSPECT, UNHEALTHY, QUARANTINED, RETIRED])
def test_retiring_is_lawful_in_every_state_and_twice_is_as_once(state):
    life = Life(state=state)
    for _ in range(2):
        life.take(health.retire(life.known, "retired by admin"))
    assert (life.state, len(life.told)) == (RETIRED, 0 if state is RETIRED else 1)


def test_a_retired_one_that_an_operator_returns_is_tested_first():
    life = Life(state=RETIRED)
    life.take(health.readmit(life.known, "return by admin"))
    assert (life.state, life.returns()) == (QUARANTINED, HEALTHY)


def test_returning_a_healthy_one_changes_nothing():
    life = Life()
    assert health.readmit(life.known, "return by admin") == health.Verdict(HEALTHY, life.record)


def test_the_record_survives_its_json():
    life = Life()
    life.report(xid(48), GOOD, xid(109, before=1))
    assert unpack(pack(life.record)) == life.record


def test_an_empty_record_is_empty_json():
    assert pack(Life().record) == {}


def test_no_test_is_wanted_while_checks_fail():
    life = out_of_service()
    life.report(GOOD)
    assert health.gpu_return.wants_test(life.known, life.now_ms)
    life.report(HOT)
    assert not health.gpu_return.wants_test(life.known, life.now_ms)


def test_a_report_without_a_count_of_memory_errors_does_not_make_one_forget_the_last():
    life = Life(busy=True)
    life.report(replace(GOOD, ecc=3), replace(GOOD, ecc=None), replace(GOOD, ecc=4))
    assert life.state is SUSPECT


def test_after_an_operators_word_the_next_return_is_free_again():
    life = out_of_service()
    for _ in range(2):
        life.returns()
        life.report(HOT, HOT, HOT)
    life.take(health.readmit(life.known, "return by admin"))
    life.returns()
    life.report(HOT, HOT, HOT)
    assert life.returns() is HEALTHY
