"""A fair-share statement: its sums are those of the allocations, and its end is the account that orders the queue."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest

from scheduling.core.ledger import MICRO
from scheduling.models import Allocation, Balance, BillingWeight, FairShareSettings, Job, LostWork, Membership
from scheduling.services import share_statement
from scheduling.store.clock import to_ms
from scheduling.store.commit import balances
from scheduling.store.queries import past
from scheduling.store.queries.charges import settled
from tests import builders as b
from tests.services.reports import history

pytestmark = pytest.mark.django_db
HOUR_MS = 3_600_000
MARCH = {"from": "2026-03-01", "to": "2026-03-31"}


def told(actor, now=b.NOON, **given):
    asked, wrong = share_statement.read(actor, {**MARCH, "project": "alpha", **given}, now)
    assert not wrong
    return share_statement.told(actor, asked, now)


def wrong(actor, now=b.NOON, **given):
    asked, found = share_statement.read(actor, {**MARCH, "project": "alpha", **given}, now)
    assert asked is None
    return {(each["field"], each["code"]): each for each in found}


def one_job(seconds=3600):
    """Alice's merge held two GPUs for an hour from noon of the second of March."""
    lab, run = b.busy_lab()
    b.finished(run, "FAILED", exit_code=1, now=b.later(seconds))
    return lab.who, run


def test_a_job_is_charged_with_what_it_held():
    who, run = one_job()
    found = told(who["alice"], b.later(3600))
    ((job, about, line),) = found.jobs
    assert (job, about) == (run.job, ("slerp-a-b", "alice", "merge", "merge", "FAILED"))
    assert (line.held_ms, line.charged_micro, line.credited) == (2 * HOUR_MS, 2 * HOUR_MS * MICRO, 0.0)
    assert (found.account.opening, found.others[0]) == (0.0, 0)
    assert found.account.closing == found.check.counted
    assert found.check.counted == pytest.approx(found.check.stored, abs=1e-3)
    assert settled("project", "alpha")[0] == pytest.approx(found.account.closing, abs=1e-3)
    # An hour of a week's half-life: what was held half an hour ago on average has lost 0.2 %.
    assert found.account.faded == pytest.approx(2 * HOUR_MS * (1 - 2 ** (-0.5 / 168)), rel=1e-3)


def test_what_runs_is_charged_up_to_now_and_the_account_has_it_too():
    lab, run = b.busy_lab()
    found = told(lab.who["alice"], b.later(600))
    assert [(each.job, each.line.held_ms) for each in found.jobs] == [(run.job, 2 * 600_000)]
    assert (found.end, Balance.objects.count()) == (b.later(600), 0)
    assert found.check.counted == pytest.approx(found.check.stored, abs=1e-3)
    assert found.check.counted == pytest.approx(2 * 600_000, rel=1e-3)


def test_the_time_is_cut_where_it_is_asked_to_be():
    who, _ = one_job()
    now = b.later(40 * 86_400)
    later = told(who["alice"], now, **{"from": "2026-04-01", "to": "2026-04-30"})
    march = told(who["alice"], now)
    assert (later.jobs, later.start.isoformat()) == ((), "2026-04-01T00:00:00+00:00")
    assert later.account.opening == pytest.approx(march.account.closing, abs=1e-3)
    assert later.account.closing == pytest.approx(later.check.counted, abs=1e-6)
    assert later.check.counted == pytest.approx(later.check.stored, abs=1e-3)
    assert march.check.counted == later.check.counted
    # Berlin's April begins two hours before that of the clock in Greenwich.
    berlin = told(who["alice"], now, **{"from": "2026-04-01", "zone": "Europe/Berlin", "to": "2026-04-30"})
    assert berlin.account.opening == pytest.approx(later.account.opening * 2 ** (2 / 168), rel=1e-9)


def exactly(rows, start, end):
    """GPU-ms times weight in millionths that these allocations held between two instants, one by one."""
    return sum(
        round(a.billing * MICRO) * max(0, min(to_ms(a.released_at), end) - max(to_ms(a.granted_at), start))
        for a in rows
    )


@pytest.mark.parametrize("user", ["", "alice"])
def test_the_sums_are_those_of_every_allocation_and_the_end_is_the_stored_account(user):
    who = b.people()
    history.write(b.NOON - timedelta(days=90), 89, 300)
    Allocation.objects.filter(gpu__index=1).update(billing=1 / 3)
    balances.rebuild(b.NOON)
    found = told(who["alice"], b.NOON, user=user, **{"from": "2026-01-20", "to": "2026-03-02"})
    rows = Allocation.objects.filter(attempt__job__project__name="alpha")
    start, end = to_ms(found.start), to_ms(found.end)
    whole = found.account.total
    assert whole.charged_micro == exactly(rows, start, end) > 0
    by_job = {line.job: line.line.charged_micro for line in found.jobs}
    assert by_job == {
        str(job.pk): sums
        for job in Job.objects.filter(project__name="alpha")
        if (sums := exactly(rows.filter(attempt__job=job), start, end))
    }
    given_back = LostWork.objects.filter(attempt__job__project__name="alpha", at__gt=found.start, at__lte=found.end)
    assert {line.job for line in found.jobs if line.line.credited} == {str(x.attempt.job_id) for x in given_back}
    ledger = ("user", "alpha/alice") if user else ("project", "alpha")
    stored, at = settled(*ledger)
    assert at == to_ms(b.NOON)
    # To a thousandth of a second, of months of GPU time.
    assert stored > 10 * HOUR_MS
    assert (found.account.closing, found.check.counted, found.check.stored) == pytest.approx((stored,) * 3, abs=1.0)
    total = found.account.opening + whole.charged - whole.credited - found.account.faded
    assert total == pytest.approx(stored, abs=1.0)


def test_a_loss_is_given_back_with_the_weight_of_its_gpus():
    b.people()
    BillingWeight.objects.create(gpu_model="Test 80GB", weight=2.5)
    lab, run = b.busy_lab()
    b.listening(1100)
    b.ticked(b.later(1100))  # its node has fallen silent for good
    loss = LostWork.objects.get()
    assert (loss.cause, loss.redo_since) == ("lost", b.NOON)
    found = told(lab.who["alice"], b.later(1100))
    ((_, _, line),) = found.jobs
    assert line.charged_micro == 2 * 2_500_000 * 1_100_000
    assert line.credited == pytest.approx(line.charged, rel=2e-3)
    assert found.account.closing == pytest.approx(0.0, abs=1e-3)
    assert found.check.stored == pytest.approx(0.0, abs=1e-3)
    # What a replay of these days begins with knows it as well.
    begin = past.usage(b.later(1100), half_life_s=7 * 86_400.0)
    assert begin.project["alpha"].gpu_ms == pytest.approx(0.0, abs=1e-3)
    assert run.job == found.jobs[0].job


def test_accounts_counted_anew_are_those_that_were_settled_whatever_the_weight():
    b.people()
    BillingWeight.objects.create(gpu_model="Test 80GB", weight=1 / 3)
    _, run = b.full_lab()
    b.finished(run, "FAILED", exit_code=1, now=b.later(3600))
    before, _ = settled("project", "alpha")
    balances.rebuild(b.later(3600))
    assert settled("project", "alpha")[0] == pytest.approx(before, abs=1e-6)
    # A third is 0.333333: by the digits that are left out four GPUs would differ by 5 GPU-ms an hour.
    assert Fraction(1, 3) * 4 * HOUR_MS - Fraction(333_333, MICRO) * 4 * HOUR_MS > 4


def test_without_a_half_life_it_is_a_plain_sum():
    who, _ = one_job()
    FairShareSettings.objects.update(half_life_s=0)
    balances.rebuild(b.later(3600))
    found = told(who["alice"], b.later(86_400))
    assert (found.account.faded, found.account.closing) == (0.0, 2.0 * HOUR_MS)
    assert found.check == (2.0 * HOUR_MS, 2.0 * HOUR_MS)


def test_an_account_that_is_not_as_the_allocations_have_it_is_seen():
    who, _ = one_job()
    Balance.objects.filter(ledger="project").update(gpu_ms=5.0 * HOUR_MS)
    found = told(who["alice"], b.later(3600))
    assert found.check.stored - found.check.counted == pytest.approx(3 * HOUR_MS, rel=0.01)


def test_of_another_project_only_the_sums_are_told():
    who, _ = one_job()
    mine, theirs = told(who["alice"], b.later(3600)), told(who["bob"], b.later(3600))
    assert theirs.jobs == ()
    assert theirs.others == (1, mine.account.total)
    assert theirs.account == mine.account
    found = wrong(who["bob"], user="alice")
    assert found["user", "unknown_user"]["limit"] == []
    assert (
        "'alice' whom you may know of in this project; give one of none, or leave user out"
        in (found["user", "unknown_user"]["message"])
    )


def test_me_is_oneself_and_who_has_left_the_project_still_has_an_account():
    who, _ = one_job()
    assert told(who["alice"], b.later(3600), user="me").asked.user == "alice"
    Membership.objects.filter(user__username="alice").delete()
    assert told(who["admin"], b.later(3600), user="alice").account.total.held_ms == 2 * HOUR_MS
    assert ("user", "unknown_user") in wrong(who["admin"], user="bob")


def test_every_wrong_value_is_told_at_once_with_what_may_be_given():
    who = b.people()
    found = wrong(who["alice"], **{"from": "2026-02-30", "zone": "Mars", "project": "alpa"})
    assert found.keys() == {("from", "bad_day"), ("zone", "unknown_zone"), ("project", "unknown_project")}
    assert found["project", "unknown_project"]["message"] == (
        "there is no project 'alpa' (did you mean 'alpha'?); give one of alpha, beta"
    )
    assert told(who["bob"], project="").asked.project == "beta"
    nobody = replace(who["bob"], projects=())
    assert wrong(nobody, project="")["project", "no_project"]["message"] == "project is needed; give one of alpha, beta"
    assert wrong(who["alice"], **{"from": "2026-03-03"})["from", "to_come"]["limit"] == "2026-03-02"


def test_the_standing_says_who_is_just_ahead():
    who, _ = one_job()
    assert told(who["alice"], b.later(3600)).standing is None
    for name in ("alice", "bob"):
        project = "alpha" if name == "alice" else "beta"
        model = b.model(who[name], f"m-{name}", project=project)
        body = b.merge_body([model, b.model(who[name], f"n-{name}", 2, project=project)], project=project)
        b.submitted(who[name], body, now=b.later(3600))
    alpha = told(who["alice"], b.later(3600)).standing
    beta = told(who["bob"], b.later(3600), project="beta").standing
    assert (alpha.place, alpha.of, alpha.ahead.name) == (2, 2, "beta")
    assert (beta.place, beta.of, beta.ahead) == (1, 2, None)
    # Four GPUs of 242.373 hours each, two thirds of them.
    assert alpha.target_gpu_h == pytest.approx(4 * 242.373 * 2 / 3, rel=1e-4)
    assert alpha.used_gpu_h == pytest.approx(1.996, abs=1e-3)
    person = told(who["alice"], b.later(3600), user="alice").standing
    assert (person.place, person.of, person.target_gpu_h) == (1, 1, alpha.target_gpu_h)
