"""The sums of a report are those of the allocations, to the millisecond, however the time is cut."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta

import pytest

from scheduling.models import Allocation, LostWork
from scheduling.services.reports import asked, lost, usage
from tests import builders as b
from tests.services.reports import history

pytestmark = pytest.mark.django_db
MS = timedelta(milliseconds=1)


def report(actor, now=None, **given):
    wanted, wrong = asked.read(actor, {name.rstrip("_"): value for name, value in given.items()}, now or b.NOON)
    assert not wrong
    return usage.usage(actor, wanted, now or b.NOON)


def losses(actor, **given):
    wanted, wrong = asked.read(actor, {name.rstrip("_"): value for name, value in given.items()}, b.NOON)
    assert not wrong
    return lost.lost(wanted)


def inside(start, end, piece):
    """The part of a time that lies in the piece, in ms."""
    return max(timedelta(0), min(end, piece.end) - max(start, piece.start)) // MS


def of_allocations(period):
    """``{(piece, project, user, kind, queue): [held, charged]}`` of each allocation by itself, in GPU-ms."""
    sums = defaultdict(lambda: [0, 0.0])
    for a in Allocation.objects.select_related("attempt__job__project", "attempt__job__user", "attempt__job__queue"):
        job = a.attempt.job
        for number, piece in enumerate(period.pieces):
            if ms := inside(a.granted_at, a.released_at, piece):
                found = sums[(number, job.project.name, job.user.username, job.kind, job.queue.name)]
                found[0] += ms
                found[1] += ms * a.billing
    return dict(sums)


def of_losses(period):
    """``{(piece, project, user, kind, queue): [lost, charged]}`` of each loss by itself, in GPU-ms."""
    sums = defaultdict(lambda: [0, 0.0])
    for loss in LostWork.objects.select_related("attempt__job"):
        job, attempt = loss.attempt.job, loss.attempt
        held = list(attempt.allocations.all())
        stretches = [(loss.redo_since, loss.at)]
        stretches += [(attempt.granted_at, loss.resume_until)] if loss.resume_until else []
        for number, piece in enumerate(period.pieces):
            for start, end in stretches:
                if ms := inside(start, end, piece):
                    found = sums[(number, job.project.name, job.user.username, job.kind, job.queue.name)]
                    found[0] += ms * len(held)
                    found[1] += ms * sum(a.billing for a in held)
    return dict(sums)


@pytest.mark.parametrize("each", ["day", "week", "month"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_every_amount_is_the_sum_over_the_allocations_and_losses(each, zone):
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 150)
    found = report(who["admin"], from_="2026-01-25", to="2026-03-01", each=each, zone=zone)
    held, given_back = of_allocations(found.period), of_losses(found.period)
    assert {tuple(key): amount.held for key, amount in found.amounts.items()} == {k: v[0] for k, v in held.items()}
    assert given_back.keys() <= held.keys()
    for key, amount in found.amounts.items():
        gone, uncharged = given_back.get(tuple(key), [0, 0.0])
        assert amount.lost == gone
        assert amount.charged_micro / 1e6 == held[tuple(key)][1] - uncharged


def test_the_whole_time_is_what_the_allocations_held_and_the_losses_say():
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 150)
    found = report(who["admin"], from_="2026-01-01", to="2026-04-01", each="month").total()
    held = sum((a.released_at - a.granted_at) // MS for a in Allocation.objects.all())
    assert found.held == held
    assert found.lost == sum(LostWork.objects.values_list("gpu_ms", flat=True))


def test_the_pieces_of_a_time_together_are_the_time():
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 150)
    wholes = {
        each: report(who["admin"], from_="2026-02-03", to="2026-02-19", each=each).total()
        for each in ("day", "week", "month")
    }
    assert wholes["day"] == wholes["week"] == wholes["month"]
    halves = [report(who["admin"], from_="2026-02-03", to="2026-02-10").total(),
              report(who["admin"], from_="2026-02-11", to="2026-02-19").total()]  # fmt: skip
    halves[0].add(halves[1])
    assert halves[0] == wholes["day"]


def test_what_still_runs_counts_up_to_now():
    lab, _ = b.busy_lab()
    found = report(lab.who["alice"], b.later(90), from_="2026-03-02", to="2026-03-02")
    assert found.by(("project", "user", "kind", "queue")) == {
        ("alpha", "alice", "merge", "merge"): usage.Amount(180_000, 0, 180_000 * 10**6)
    }


def test_what_is_lost_by_a_preemption_is_told_by_its_cause_and_taken_off_what_was_used():
    lab, run = b.full_lab()
    b.submitted(lab.who["admin"], b.merge_body(lab.models, gpu_count=4, priority="Critical",
                                               purpose="regression_gate"), now=b.later(100))  # fmt: skip
    b.ticked(b.later(100))
    b.finished(run, "PREEMPTED", now=b.later(160), why="preempt")
    (loss,) = losses(lab.who["alice"], from_="2026-03-02", to="2026-03-02")
    assert loss == ("alpha", "preempt", 160_000 * 4, 1, 0)
    amount = report(lab.who["alice"], b.later(160), from_="2026-03-02", to="2026-03-02").total()
    assert (amount.held, amount.lost, amount.used, amount.charged_micro) == (640_000, 640_000, 0, 0)


def test_losses_by_project_and_cause_are_the_lost_time_of_the_usage():
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 150)
    days = {"from_": "2026-02-03", "to": "2026-02-19"}
    found = losses(who["admin"], **days)
    by_project = report(who["admin"], **days).by(("project",))
    for (project,), amount in by_project.items():
        assert sum(loss.gpu_ms for loss in found if loss.project == project) == amount.lost
    wanted, _ = asked.read(who["admin"], {"from": "2026-02-03", "to": "2026-02-19"}, b.NOON)
    assert lost.lost(wanted, usage.usage(who["admin"], wanted, b.NOON)) == found
    assert sum(loss.gpu_ms for loss in lost.by_cause(found)) == sum(loss.gpu_ms for loss in found)
    ended = LostWork.objects.filter(at__gte="2026-02-03T00:00Z", at__lt="2026-02-20T00:00Z")
    assert sum(loss.attempts for loss in found) == ended.count()
    assert sum(loss.in_vain for loss in found) == ended.filter(in_vain=True).count()


@pytest.mark.parametrize(
    ("given", "counts"),
    [({"project": "beta"}, lambda j: j.project.name == "beta"), ({"user": "alice"}, lambda j: j.user_id and
      j.user.username == "alice"), ({"kind": "merge"}, lambda j: j.kind == "merge"),
     ({"queue": "eval"}, lambda j: j.queue.name == "eval")],
)  # fmt: skip
def test_a_filter_leaves_the_allocations_of_the_jobs_it_names(given, counts):
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 60)
    found = report(who["admin"], from_="2026-01-01", to="2026-04-01", **given).total()
    rows = Allocation.objects.select_related("attempt__job__project", "attempt__job__user", "attempt__job__queue")
    assert found.held == sum((a.released_at - a.granted_at) // MS for a in rows if counts(a.attempt.job))
    assert found.held > 0


def test_people_of_other_projects_are_told_without_names_and_their_hours_are_not_left_out():
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 60)
    days = {"from_": "2026-01-01", "to": "2026-04-01"}
    all_of_it = report(who["admin"], **days)
    hers = report(who["alice"], **days)
    assert {user for _, user in hers.by(("project", "user"))} == {"alice", ""}
    assert hers.total() == all_of_it.total()
    assert hers.by(("project", "kind", "queue")) == all_of_it.by(("project", "kind", "queue"))


@pytest.mark.parametrize(
    ("given", "field"),
    [({"project": "beta"}, "project"), ({"user": "bob"}, "user"), ({"kind": "x"}, "kind"), ({"queue": "x"}, "queue")],
)
def test_what_one_may_not_know_of_is_refused_as_what_there_is_not(given, field):
    who = b.people()
    found, wrong = asked.read(who["alice"], given, b.NOON)
    assert found is None
    assert [each["code"] for each in wrong] == [f"unknown_{field}"]
    assert "give one of" in wrong[0]["message"]


def test_a_report_asks_a_number_of_queries_that_does_not_depend_on_the_jobs(django_assert_num_queries):
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 60)
    wanted, _ = asked.read(who["admin"], {"from": "2026-01-01", "to": "2026-04-01"}, b.NOON)
    with django_assert_num_queries(8):  # spans and names, held and lost
        usage.usage(who["admin"], wanted, b.NOON)
    with django_assert_num_queries(5):
        lost.lost(wanted)
