"""The plan of a job in the place of one that waits: without that one, at its place, and kept by its token."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.models import Job
from scheduling.services import jobs, whatif
from scheduling.services.whatif import InPlaceOf, Unplannable
from tests import builders as b

from .asking import broken, codes, planned

pytestmark = pytest.mark.django_db

LONG = {"max_duration": "2h", "gpu_count": 2}


@pytest.fixture
def waits(who, models):
    """2 of the 4 GPUs are busy for an hour; alice's job for all 4 has the reservation, one for 2 is behind it."""
    b.running(who["alice"], models, gpu_count=2)
    job = b.submitted(who["alice"], b.command_body(gpu_count=4, max_duration="2h"), now=b.later(1))
    b.submitted(who["alice"], b.command_body(**LONG), now=b.later(2))
    return job


def test_what_would_help_the_waiting_job_helps_the_one_in_its_place_and_no_copy_behind_it(who, waits):
    offered = whatif.foretell(waits, b.later(10)).alternatives
    assert "at most 2 GPUs" in [each.words for each in offered]
    copy = planned(who["alice"], b.command_body(**LONG), b.later(10))
    assert (copy.verdict, codes(copy)) == ("later", ["RESERVED"])
    instead = planned(who["alice"], b.command_body(replaces=waits, **LONG), b.later(10))
    assert (instead.verdict, len(instead.gpus), instead.reasons) == ("now", 2, ())
    assert instead.in_place_of == InPlaceOf(waits, "train", "")
    assert (Job.objects.count(), Job.objects.get(pk=waits).state) == (3, "QUEUED")


def test_and_so_it_comes_when_it_is_submitted(who, waits):
    new = b.submitted(who["alice"], b.command_body(replaces=waits, **LONG), now=b.later(10))
    b.ticked(b.later(11))
    assert Job.objects.get(pk=new).state == "DISPATCHING"


def test_at_a_new_place_it_is_behind_those_who_have_come_since(who, waits):
    plan = planned(who["alice"], b.command_body(replaces=waits, max_duration="3h", gpu_count=2), b.later(10))
    assert (plan.verdict, plan.start.low) == ("later", b.later(3600))
    assert plan.in_place_of.new_place == "it asks for 3 h instead of 2 h"


def test_what_waits_on_at_its_place_is_told_why_and_when_as_a_waiting_job_is(who, waits):
    body = b.command_body(replaces=waits, gpu_count=4, max_duration="90m")
    plan, now = planned(who["alice"], body, b.later(10)), whatif.foretell(waits, b.later(10))
    assert (plan.verdict, plan.start, codes(plan), len(plan.gpus)) == ("later", now.start, ["BUSY"], 4)
    assert [each.change for each in plan.alternatives] == [each.words for each in now.alternatives]
    effect = plan.share["project"]
    assert effect["used_after_gpu_h"] - effect["used_before_gpu_h"] == pytest.approx(plan.gpu_hours) == 6.0


def test_a_job_that_starts_is_charged_once_in_what_it_does_to_the_share(who, waits):
    plan = planned(who["alice"], b.command_body(replaces=waits, **LONG), b.later(10))
    effect = plan.share["user"]
    assert effect["used_after_gpu_h"] - effect["used_before_gpu_h"] == pytest.approx(plan.gpu_hours) == 4.0


def test_a_held_job_is_replaced_by_one_that_takes_part_at_its_place(who, waits):
    jobs.hold(waits, who["alice"], b.later(5))
    assert planned(who["alice"], b.command_body(replaces=waits, **LONG), b.later(10)).verdict == "now"


def test_a_time_to_start_that_is_still_to_come_is_waited_for(who, waits):
    body = b.command_body(replaces=waits, not_before=b.later(600).isoformat(), **LONG)
    plan = planned(who["alice"], body, b.later(10))
    assert (plan.verdict, "NOT_BEFORE" in codes(plan)) == ("later", True)


def test_whom_it_would_evict_is_told(who, models):
    low = b.running(who["alice"], models, gpu_count=4, priority="Low")
    urgent = {"priority": "Critical", "purpose": "regression_gate"}
    held = b.submitted(who["admin"], b.merge_body(models, gpu_count=4, **urgent), now=b.later(600))
    body = b.merge_body(models, gpu_count=2, replaces=held, **urgent)
    plan = planned(who["admin"], body, b.later(601))
    assert (plan.verdict, [each["job"] for each in plan.victims]) == ("now", [low.job])
    assert plan.start.high - plan.start.low > timedelta()


def test_what_the_pool_could_never_hold_is_told_what_would_help_at_its_place(who, waits):
    plan = planned(who["alice"], b.command_body(replaces=waits, gpu_count=5, max_duration="2h"), b.later(10))
    assert plan.verdict == "never"
    assert [(each.fields, each.starts_at) for each in plan.alternatives] == [({"gpu_count": 4}, b.later(3600))]


def test_who_may_not_replace_it_gets_the_reason_and_no_plan(who, waits):
    found = whatif.plan(b.command_body(project="beta", replaces=waits), who["bob"], b.later(10))
    assert isinstance(found, Unplannable)
    assert [(error["field"], error["code"]) for error in found.errors] == [("replaces", "unknown_job")]


def test_its_token_holds_until_something_else_would_come_of_it(who, waits, models):
    body = b.command_body(replaces=waits, **LONG)
    token = planned(who["alice"], body, b.later(10)).token
    assert broken(token, body, who["alice"], b.later(20)) is None
    assert "another body" in broken(token, {**body, "replaces": None}, who["alice"], b.later(20))
    b.running(who["alice"], models, now=b.later(30), priority="High", max_duration="3h")
    assert "now it would have to wait" in broken(token, body, who["alice"], b.later(40))


def test_when_the_old_job_has_started_the_token_leaves_the_word_to_the_refusal(who, waits):
    body = b.command_body(replaces=waits, **LONG)
    token = planned(who["alice"], body, b.later(10)).token
    Job.objects.filter(pk=waits).update(state="RUNNING", attempt_number=1)
    assert broken(token, body, who["alice"], b.later(20)) is None
