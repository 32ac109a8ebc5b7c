"""Laws of a GPU's health for any reports in any order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core import health
from scheduling.core.gpu_record import pack, unpack
from scheduling.core.gpu_xids import TABLE
from scheduling.core.health import GPU_TABLE
from scheduling.core.lifecycle import GpuState

from .gpu_life import GOOD, HOT, HUNG, PASSED, TEST_FAILED, Life

XID = st.sampled_from([*TABLE, 987]).map(lambda number: replace(GOOD, xids=(number,)))
TEST = st.sampled_from([replace(GOOD, canary=PASSED), replace(GOOD, canary=TEST_FAILED)])
REPORT = st.one_of(st.just(GOOD), st.sampled_from([HOT, HUNG, None]), XID, TEST)
FEW = settings(max_examples=60, deadline=None)


@FEW
@given(st.lists(st.tuples(REPORT, st.booleans()), max_size=30))
def test_every_step_is_one_of_the_table_and_the_state_is_where_the_steps_lead(reports):
    life = Life()
    for sample, busy in reports:
        life.busy = busy
        life.seq += 1
        before = life.state
        verdict = health.receive(life.known, sample, boot_id="boot-1", seq=life.seq, now_ms=life.now_ms)
        for step in verdict.steps:
            before = GPU_TABLE[(before, step.event)] if step.event else before
        assert verdict.state is before
        life.take(verdict)


@FEW
@given(st.lists(st.sampled_from([GOOD, HOT, HUNG, None]), max_size=25))
def test_a_busy_gpu_without_xids_is_unhealthy_from_the_third_failure_in_a_row_and_never_before(reports):
    life, row, expected = Life(busy=True), 0, False
    for sample in reports:
        life.report(sample)
        row = 0 if sample is GOOD else row + 1
        expected = expected or row >= 3
        assert (life.state is GpuState.UNHEALTHY) is expected


@FEW
@given(st.lists(REPORT, min_size=1, max_size=12), st.data())
def test_old_reports_delivered_again_in_any_order_change_nothing_but_by_new_xids(reports, data):
    life = Life(busy=True)
    life.report(*reports)
    before = (life.state, life.record)
    quiet = [(i + 1, s) for i, s in enumerate(reports) if s is None or not s.xids]
    for seq, sample in data.draw(st.permutations(quiet)):
        life.late(sample, seq)
    assert (life.state, life.record) == before


@FEW
@given(st.lists(st.tuples(REPORT, st.booleans()), max_size=40))
def test_out_of_service_is_left_only_with_a_passed_test_and_three_clean_checks_after_it(reports):
    life, clean_since_test = Life(), -1
    for sample, busy in reports:
        life.busy = busy and life.state not in (GpuState.QUARANTINED,)
        before, told = life.state, life.record.xids_told
        life.report(sample)
        good = sample is not None and sample not in (HOT, HUNG)
        if not good or sample.xids[max(0, told - sample.xids_before) :] or before is not GpuState.QUARANTINED:
            clean_since_test = -1
        elif clean_since_test >= 0:
            clean_since_test += 1
        elif sample.canary == PASSED:
            clean_since_test = 0
        if before is GpuState.QUARANTINED and life.state is GpuState.HEALTHY:
            assert clean_since_test == 3


@FEW
@given(st.lists(REPORT, max_size=20))
def test_the_record_may_be_written_down_after_any_report(reports):
    life, other = Life(), Life()
    for sample in reports:
        life.report(sample)
        other.report(sample)
        other.record = unpack(pack(other.record))
    assert (life.state, life.record) == (other.state, other.record)
