"""How long jobs waited: from when they could have started to when they first ran."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.models import Job
from scheduling.services.reports import asked, waits
from tests import builders as b
from tests.services.reports import history

pytestmark = pytest.mark.django_db


def report(actor, **given):
    wanted, wrong = asked.read(actor, {name.rstrip("_"): value for name, value in given.items()}, b.NOON)
    assert not wrong
    return waits.waits(wanted)


def test_the_quantiles_are_waits_of_jobs():
    assert waits.of([5.0]) == waits.Waits(1, 5.0, 5.0, 5.0, 5.0)
    assert waits.of([float(n) for n in range(100, 0, -1)]) == waits.Waits(100, 50.0, 95.0, 100.0, 50.5)
    assert waits.of([3.0, 1.0, 2.0]) == waits.Waits(3, 2.0, 3.0, 3.0, 2.0)


def test_jobs_are_told_by_priority_project_and_kind_and_each_once():
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 120)
    found = report(who["admin"], from_="2026-02-01", to="2026-02-28")
    rows = [j for j in Job.objects.select_related("queue", "level") if j.started_at.month == 2]
    assert found.all.jobs == len(rows) > 50
    for told in (found.priorities, found.projects, found.kinds):
        assert sum(each.jobs for each in told.values()) == len(rows)
    assert found.all.longest == max((j.started_at - j.submitted_at).total_seconds() for j in rows)
    assert [value for queue, _, value in found.priorities if queue == "merge"] == [4, 3, 2, 1]


def test_no_wait_before_the_earliest_start_that_was_asked_for():
    lab = b.lab()
    job = b.submitted(lab.who["alice"], b.command_body(not_before="2026-03-02T13:00:00Z"))
    Job.objects.filter(pk=job).update(started_at=b.later(3700))
    assert report(lab.who["alice"], from_="2026-03-02", to="2026-03-02").all.longest == 100.0


def test_no_wait_while_it_was_to_wait_for_another_job():
    lab, run = b.busy_lab()
    job = b.submitted(lab.who["alice"], b.command_body(after=[run.job]))
    b.output(run)
    b.finished(run, now=b.later(500), artifacts=[])
    Job.objects.filter(pk=job).update(started_at=b.later(540))
    ended = (Job.objects.get(pk=run.job).ended_at - b.NOON).total_seconds()
    assert ended == 500
    assert report(lab.who["alice"], from_="2026-03-02", to="2026-03-02", kind="command").all.longest == 40.0


def test_what_did_not_run_in_the_time_is_not_told():
    lab = b.lab()
    b.submitted(lab.who["alice"], b.command_body())
    assert report(lab.who["alice"]).all is None


def test_one_query_for_any_number_of_jobs(django_assert_num_queries):
    who = b.people()
    history.write(b.NOON - timedelta(days=40), 40, 60)
    wanted, _ = asked.read(who["admin"], {"from": "2026-01-01", "to": "2026-04-01"}, b.NOON)
    with django_assert_num_queries(1):
        waits.waits(wanted)
