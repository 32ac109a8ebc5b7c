"""The token of a plan: whoever submits with it gets what was promised, or is told what has changed."""

from __future__ import annotations

import pytest

from tests import builders as b

from .asking import broken, planned

pytestmark = pytest.mark.django_db


def test_a_promise_holds_while_nothing_has_changed(who, models):
    body = b.merge_body(models)
    token = planned(who["alice"], body).token
    assert broken(token, body, who["alice"], b.later(599)) is None


def test_a_promise_is_broken_when_the_gpus_have_gone_to_others(who, models):
    body = b.merge_body(models, gpu_count=4)
    token = planned(who["alice"], body).token
    b.running(who["alice"], models)
    assert "by the plan it would start at once, now it would have to wait" in broken(token, body, who["alice"])


def test_a_promise_is_broken_when_other_jobs_would_have_to_go(who, models):
    b.node("n2")
    runs = [b.running(who["alice"], models, gpu_count=4, node=node) for node in ("n1", "n2")]
    body = b.merge_body(models, priority="Critical", purpose="regression_gate", gpu_count=4)
    plan = planned(who["admin"], body, b.later(100))
    spared = next(run for run in runs if run.job != plan.victims[0]["job"])
    gone = next(run for run in runs if run.job == plan.victims[0]["job"])
    b.finished(gone, now=b.later(101))
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4), now=b.later(102))
    b.ticked(b.later(103))
    again = planned(who["admin"], body, b.later(200))
    assert again.victims[0]["job"] != plan.victims[0]["job"]
    assert spared.job != gone.job
    assert "other jobs would have to make room" in broken(plan.token, body, who["admin"], b.later(200))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda token, body, who: (token, {**body, "gpu_count": 1}, who["alice"], b.NOON), "another body or person"),
        (lambda token, body, who: (token, body, who["admin"], b.NOON), "another body or person"),
        (lambda token, body, who: (token, body, who["alice"], b.later(601)), "older than 10 minutes"),
        (lambda token, body, who: (token[:-2] + "xx", body, who["alice"], b.NOON), "none of ours"),
    ],
)
def test_a_token_is_good_for_ten_minutes_one_body_and_one_person(who, models, change, says):
    body = b.merge_body(models)
    token = planned(who["alice"], body).token
    assert says in broken(*change(token, body, who))
