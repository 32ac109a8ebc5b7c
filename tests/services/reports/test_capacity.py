"""What was there of GPUs, how busy it was, and what was held and idle: looked at once a minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduling.models import Allocation, AttemptHour, IdleStretch, Node, NodeLive, PoolHour
from scheduling.services import health, upkeep
from scheduling.services.reports import asked, capacity, idle, usage
from tests import builders as b

pytestmark = pytest.mark.django_db
H = 3_600_000


def told(seconds: float, *percents: float | None, node: str = "n1") -> None:
    """The node's newest samples: what each of its GPUs did at that time."""
    samples = {f"GPU-{node}-{i}": {"uuid": f"GPU-{node}-{i}", "utilization": p} for i, p in enumerate(percents)}
    NodeLive.objects.filter(node__name=node).update(sampled_at=b.later(seconds), samples=samples)


def looked(seconds: float) -> None:
    upkeep.look_at_gpus(b.later(seconds))


def minutes(first: int, last: int, *percents: float | None) -> None:
    """A look each minute, from minute ``first`` to ``last``, at GPUs that do the same all the time."""
    for minute in range(first, last + 1):
        told(minute * 60, *percents)
        looked(minute * 60)


def wanted(actor, **given):
    days = {"from": "2026-03-02", "to": "2026-03-02", **given}
    found, wrong = asked.read(actor, days, b.NOON)
    assert not wrong
    return found


def held_gpus():
    return sorted(Allocation.objects.values_list("gpu__index", flat=True))


def test_what_is_installed_and_busy_is_the_sum_over_the_looks():
    lab = b.lab()
    minutes(0, 90, 100, 50, None, 0)
    report = capacity.capacity(lab.who["admin"], wanted(lab.who["admin"]), b.later(5400))
    assert report.since == b.NOON
    assert report.total == capacity.Capacity(
        installed=4 * 5_400_000, out=0, held=0, known=3 * 5_400_000, busy=round(1.5 * 5_400_000)
    )
    assert [(row.hour.hour, row.installed_ms) for row in PoolHour.objects.all()] == [(12, 4 * H), (13, 2 * H)]


def test_what_is_held_counts_only_in_the_time_that_was_looked_at():
    lab, _ = b.busy_lab()
    minutes(10, 70, 80, 80, 0, 0)
    report = capacity.capacity(lab.who["alice"], wanted(lab.who["alice"]), b.later(9000))
    assert report.total.held == 2 * H
    assert report.total.installed == 4 * H
    assert report.jobs == {("alpha", "alice", "merge", "merge"): capacity.Busyness(2 * H, round(1.6 * H))}


@pytest.mark.parametrize("days", [("2026-03-01", "2026-03-03"), ("2026-03-02", "2026-03-02")])
def test_what_is_held_is_the_same_when_the_usage_is_known(days):
    lab, run = b.busy_lab()
    minutes(10, 70, 80, 80, 0, 0)
    b.finished(run, "FAILED", exit_code=1, now=b.later(15 * 3600))
    who, moment = lab.who["alice"], b.later(20 * 3600)
    asks = wanted(who, **{"from": days[0], "to": days[1]})
    found = usage.usage(who, asks, moment)
    plain = capacity.capacity(who, asks, moment)
    assert capacity.capacity(who, asks, moment, found) == plain
    assert plain.total.held == 2 * H
    mine = wanted(who, kind="command")
    assert capacity.capacity(who, mine, moment, usage.usage(who, mine, moment)).total.held == 2 * H


def test_a_look_that_failed_for_hours_leaves_what_was_there_and_says_nothing_of_how_busy_it_was():
    lab = b.lab()
    minutes(0, 1, 100, 100, 100, 100)
    told(7200, 100, 100, 100, 100)
    looked(7200)
    total = capacity.capacity(lab.who["admin"], wanted(lab.who["admin"]), b.later(7200)).total
    assert total.installed == 4 * 7_200_000
    assert total.known == total.busy == 4 * (60_000 + 300_000)


def test_what_an_agent_told_too_long_ago_is_not_known():
    lab = b.lab()
    minutes(0, 1, 100, 100, 100, 100)
    told(60, 100, 100, 100, 100)
    looked(120)
    total = capacity.capacity(lab.who["admin"], wanted(lab.who["admin"]), b.later(120)).total
    assert (total.installed, total.known) == (4 * 120_000, 4 * 60_000)


def test_gpus_out_of_service_are_told_apart_and_retired_ones_are_not_there():
    lab = b.lab()
    looked(0)
    health.operate("GPU-n1-3", "retire", lab.who["admin"], b.NOON)
    NodeLive.objects.filter(node__name="n1").update(samples={})
    looked(60)
    total = capacity.capacity(lab.who["admin"], wanted(lab.who["admin"]), b.later(60)).total
    assert (total.installed, total.out) == (3 * 60_000, 0)
    Node.objects.update(state="LOST")
    looked(120)
    total = capacity.capacity(lab.who["admin"], wanted(lab.who["admin"]), b.later(120)).total
    assert (total.installed, total.out) == (6 * 60_000, 3 * 60_000)


def test_an_hour_of_two_days_counts_to_both_in_a_zone_of_half_hours():
    lab = b.lab()
    for minute in range(0, 121, 5):
        looked(6 * 3600 + minute * 60)  # from 23:30 to 01:30 in Kathmandu
    days = wanted(lab.who["admin"], **{"from": "2026-03-02", "to": "2026-03-03", "zone": "Asia/Kathmandu"})
    report = capacity.capacity(lab.who["admin"], days, b.later(9 * 3600))
    assert [piece.installed for piece in report.pieces] == [4 * 15 * 60_000, 4 * 105 * 60_000]


def test_looking_twice_at_the_same_time_adds_nothing():
    b.lab()
    minutes(0, 5, 10, 10, 10, 10)
    before = list(PoolHour.objects.values())
    looked(300)
    looked(200)
    assert list(PoolHour.objects.values()) == before


def test_a_job_that_leaves_its_gpus_idle_is_told_with_its_gpu_time():
    lab, run = b.busy_lab()
    one, _ = held_gpus()
    percents = [2.0 if gpu == one else 90.0 for gpu in range(4)]
    minutes(0, 30, *percents)
    report = idle.idle(lab.who["alice"], wanted(lab.who["alice"]))
    (row,) = report.jobs
    assert (str(row.job), row.project, row.user, row.gpu_s, row.longest_s, row.now, row.gpus) == (
        run.job, "alpha", "alice", 1800.0, 1800.0, True, {("n1", one)},
    )  # fmt: skip
    assert report.projects == {"alpha": 1800.0}
    assert (report.total_s, report.percent, report.minutes) == (1800.0, 5.0, 15.0)


def test_gpus_that_nobody_holds_are_free_and_not_idle():
    lab = b.lab()
    minutes(0, 30, 0, 0, 0, 0)
    assert not IdleStretch.objects.exists()
    assert idle.idle(lab.who["admin"], wanted(lab.who["admin"])).jobs == []


def test_less_than_the_time_is_not_told_and_not_kept():
    lab, _ = b.busy_lab()
    minutes(0, 14, 0, 0, 0, 0)
    assert idle.idle(lab.who["alice"], wanted(lab.who["alice"])).jobs == []
    minutes(15, 15, 50, 50, 50, 50)
    assert not IdleStretch.objects.exists()


def test_what_works_again_ends_the_stretch_and_the_next_one_is_another():
    lab, _ = b.busy_lab()
    minutes(0, 20, 0, 0, 0, 0)
    minutes(21, 22, 50, 50, 50, 50)
    minutes(23, 43, 0, 0, 0, 0)
    (row,) = idle.idle(lab.who["alice"], wanted(lab.who["alice"])).jobs
    assert (row.stretches, row.gpu_s, row.longest_s, row.now) == (4, 4 * 1200.0, 1200.0, True)


def test_the_end_of_the_job_ends_it_and_what_nobody_saw_is_not_counted():
    lab, run = b.busy_lab()
    minutes(0, 20, 0, 0, 0, 0)
    b.finished(run, "FAILED", exit_code=1, now=b.later(1230))
    minutes(21, 22, 0, 0, 0, 0)
    (row,) = idle.idle(lab.who["alice"], wanted(lab.who["alice"])).jobs
    assert (row.gpu_s, row.now) == (2 * 1200.0, False)


def test_a_node_that_is_silent_for_long_ends_what_was_seen():
    _lab, _ = b.busy_lab()
    minutes(0, 20, 0, 0, 0, 0)
    for minute in range(21, 40):
        looked(minute * 60)
    minutes(40, 60, 0, 0, 0, 0)
    rows = list(IdleStretch.objects.order_by("since").values_list("since", "until", "open"))
    assert {(since, until) for since, until, _ in rows} == {
        (b.later(0), b.later(1200)), (b.later(2400), b.later(3600)),
    }  # fmt: skip
    assert [is_open for *_, is_open in rows] == [False, False, True, True]


def test_a_stretch_counts_by_what_lies_in_the_time():
    lab, run = b.busy_lab()
    allocation = Allocation.objects.filter(attempt=run.attempt).first()
    midnight = datetime(2026, 3, 3, tzinfo=UTC)
    IdleStretch.objects.create(
        allocation=allocation,
        open=False,
        since=midnight - timedelta(minutes=10),
        until=midnight + timedelta(minutes=10),
    )
    for day in ("2026-03-02", "2026-03-03"):
        (row,) = idle.idle(lab.who["alice"], wanted(lab.who["alice"], **{"from": day, "to": day})).jobs
        assert row.gpu_s == 600.0


def test_jobs_of_other_projects_are_told_without_names():
    lab, _ = b.busy_lab()
    minutes(0, 20, 0, 0, 0, 0)
    (row,) = idle.idle(lab.who["bob"], wanted(lab.who["bob"])).jobs
    assert (row.job, row.name, row.user, row.project, row.gpu_s) == (None, "", "", "alpha", 2400.0)


def test_a_look_writes_in_a_number_of_queries_that_does_not_depend_on_the_gpus(django_assert_max_num_queries):
    b.busy_lab()
    b.node("n2", gpus=16)
    minutes(0, 1, 0, 0, 0, 0)
    told(120, 0, 0, 0, 0)
    told(120, *[0.0] * 16, node="n2")
    with django_assert_max_num_queries(14):
        looked(120)
    assert AttemptHour.objects.count() == 1
    assert IdleStretch.objects.count() == 2
