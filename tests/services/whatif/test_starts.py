"""When a job is expected to start: one that is planned, and one that waits."""

from __future__ import annotations

import pytest

from scheduling.services import pool, whatif
from scheduling.store.clock import to_ms
from tests import builders as b

from .asking import codes, planned

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "more",
    [
        {"with": {"group": "nobody", "level": "rack"}},
        {"with": {"group": "red", "level": "rack"}},
        {"anti_affinity": {"group": "red", "level": "node"}},
        {"group": "red", "with": {"group": "red", "level": "node"}},
        {"not_before": "2026-03-02T12:30:10Z"},
        {"not_before": "2026-03-02T13:30:10Z"},
        {},
    ],
)
def test_the_plan_and_the_submitted_job_are_told_the_same_while_the_pool_is_full(who, models, more):
    b.running(who["alice"], models, gpu_count=4, group="red")
    body = b.merge_body(models, **more)
    plan = planned(who["alice"], body)
    job = b.submitted(who["alice"], body)
    b.ticked()
    found = whatif.foretell(job, b.NOON)
    assert (plan.start, codes(plan)) == (found.start, codes(found))
    assert plan.alternatives == whatif.changes(found.alternatives, b.NOON, asked=found.asked)


def test_keeping_apart_from_jobs_everywhere_has_an_estimate_when_they_end(who, models):
    b.running(who["alice"], models, gpu_count=1, group="red", max_duration="30m")
    plan = planned(who["alice"], b.merge_body(models, anti_affinity={"group": "red", "level": "node"}))
    assert (plan.verdict, plan.start.low, codes(plan)) == ("later", b.later(1800), ["RULE"])


def test_an_estimate_is_never_told_as_after_the_start_nor_its_end_as_before(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration=3599)
    job = b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    found = whatif.foretell(job, b.NOON)
    assert (found.start.low, found.start.high) == (b.later(3540), b.later(3600))
    assert dict(found.reasons[0].numbers)["earliest_at_ms"] == to_ms(found.start.low)


def test_an_estimate_neither_lies_in_the_past_nor_says_now_while_nothing_is_free_yet(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration=70)
    body = b.merge_body(models, gpu_count=4)
    plan = planned(who["alice"], body, b.later(65))
    found = whatif.foretell(b.submitted(who["alice"], body), b.later(65))
    for start in (plan.start, found.start):
        assert (start.low, start.at, start.high) == (b.later(70), b.later(70), b.later(120))


def test_a_job_that_is_to_start_later_starts_no_sooner_though_gpus_are_free(who, models):
    plan = planned(who["alice"], b.merge_body(models, not_before="2026-03-02T14:00:00Z"))
    assert (plan.verdict, codes(plan), plan.start.low) == ("later", ["NOT_BEFORE"], b.later(7200))


def test_a_waiting_jobs_estimate_follows_the_time_limit_of_what_runs(who, models):
    b.running(who["alice"], models, gpu_count=4, max_duration="2h")
    job = b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    found = whatif.foretell(job, b.NOON)
    assert (found.start.at, found.start.low, found.start.as_of) == (b.later(7200), b.later(7200), b.NOON)
    assert (found.rank, found.promised) == (1, True)


def test_a_job_that_the_next_pass_starts_is_expected_now(who, models):
    job = b.submitted(who["alice"], b.merge_body(models))
    found = whatif.foretell(job, b.NOON)
    assert (found.start.low, found.start.high, found.alternatives) == (b.NOON, b.NOON, ())


def test_a_job_that_runs_is_not_foretold(who, models):
    run = b.running(who["alice"], models)
    assert whatif.foretell(run.job, b.NOON) is None


def test_a_job_with_a_time_of_its_own_is_expected_no_sooner(who, models):
    job = b.submitted(who["alice"], b.merge_body(models, not_before="2026-03-02T14:00:00Z"))
    assert whatif.foretell(job, b.NOON).start.low == b.later(7200)


def test_a_job_without_a_place_in_the_pool_has_no_estimate(who, models):
    job = b.submitted(who["alice"], b.merge_body(models))
    pool.operate("n1", "cordon", who["admin"], b.NOON)
    assert whatif.foretell(job, b.NOON).start is None


def test_a_job_that_evicts_is_expected_from_now_to_the_end_of_the_grace_before_and_after_it_does(who, models):
    b.running(who["alice"], models, gpu_count=4)
    body = b.merge_body(models, gpu_count=4, priority="Critical", purpose="regression_gate")
    plan = planned(who["admin"], body, b.later(600))
    assert (plan.start.low, plan.start.at, plan.start.high) == (b.later(600), b.later(720), b.later(720))
    job = b.submitted(who["admin"], body, now=b.later(600))
    b.ticked(b.later(601))
    found = whatif.foretell(job, b.later(602))
    assert codes(found) == ["PREEMPTING"]
    assert (found.start.low, found.start.at, found.start.high) == (b.later(602), b.later(721), b.later(721))


def test_a_short_job_is_expected_before_a_reservation_by_its_plan_and_by_its_wait(who, models):
    b.running(who["alice"], models, gpu_count=2, max_duration=120)
    b.running(who["alice"], models, gpu_count=2, max_duration="20m")
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    body = b.merge_body(models, gpu_count=2, max_duration="18m", start_by="2026-03-02T12:03:00Z")
    plan = planned(who["alice"], body)
    found = whatif.foretell(b.submitted(who["alice"], body), b.NOON)
    for start in (plan.start, found.start):
        assert (start.low, start.at, start.high) == (b.later(120), b.later(120), b.later(120))
    assert codes(found) == ["BUSY"]
