"""Replays of recorded days: the baseline is what was, a change moves who it must, and each run ends one way only."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from scheduling.models import WhatIfRun
from scheduling.services import jobs, pool, whatif_runs
from scheduling.services import past as history
from scheduling.services.whatif_runs import TooMany, Unplayable
from scheduling.store import load
from scheduling.store.commit import whatif_rows
from tests import builders as b
from tests.services.history import HOUR, afternoon

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch):
    """The ids that were brought to a worker; there is none."""
    found: list[str] = []
    monkeypatch.setattr("emep_site.what_ifs.send", found.append)
    return found


@pytest.fixture
def day(sent):
    return afternoon()


def asked(who, body, now):
    """The id of the replay that is asked for; fails loudly with the reasons otherwise."""
    found = whatif_runs.ask(body, who, now)
    assert isinstance(found, uuid.UUID), found
    return found


def result(day, body, who="admin", now=None):
    """The result of a replay that is played here and now."""
    run = asked(day.who[who], {"days": 1, **body}, now or day.end)
    assert whatif_runs.play(str(run), lambda: day.end) == "done"
    return WhatIfRun.objects.get(pk=run).result


def waits(side):
    return {name: row["mean_wait_s"] for name, row in side["projects"].items()}


def test_without_effect_the_replay_is_what_really_was(day):
    found = result(day, {"policy": {"half_life_s": 604_800}})
    assert found["before"] == found["after"]
    assert (found["moved"]["jobs"], found["notes"][0]) == ([], whatif_runs.SAME)
    for figure in ("jobs", "started", "mean_wait_s", "p95_wait_s", "utilization", "preemptions", "gpu_hours"):
        assert found["before"][figure] == pytest.approx(found["recorded"][figure]), figure
    # 12 GPU-hours of 4 GPUs times a day; noon to noon less 20 hours lies before the first job.
    assert (found["recorded"]["gpu_hours"], found["recorded"]["utilization"]) == (12.0, 0.125)
    assert waits(found["before"]) == {"alpha": (0 + 7199) / 2, "beta": 3598.0}


def test_another_node_takes_the_waits_away(day):
    found = result(day, {"add_nodes": [{"like": "n1", "count": 2}]})
    assert waits(found["after"]) == {"alpha": 0.0, "beta": 0.0}
    assert (found["after"]["gpus"], found["after"]["utilization"]) == (12, pytest.approx(0.125 / 3, abs=1e-6))
    assert (found["moved"]["sooner"], found["moved"]["later"]) == (2, 0)
    assert [(row["job"], row["later_s"]) for row in found["moved"]["jobs"]] == [
        (day.jobs[1], -7199.0), (day.jobs[2], -3598.0),
    ]  # fmt: skip


def test_nodes_that_are_described_are_as_good(day):
    new = {"count": 1, "gpus": 8, "memory": "80GB", "nvlink": 4}
    found = result(day, {"add_nodes": [new]})
    assert (waits(found["after"]), found["after"]["gpus"]) == ({"alpha": 0.0, "beta": 0.0}, 12)
    # In groups of two none of them fits, and nothing moves.
    assert result(day, {"add_nodes": [{**new, "nvlink": 2}]})["moved"]["jobs"] == []


def test_weights_turn_the_order(day):
    found = result(day, {"policy": {"ledgers": ["queue"]}})  # projects are not compared: first come, first served
    moved = {row["job"]: row["later_s"] for row in found["moved"]["jobs"]}
    assert moved == {day.jobs[1]: -3600.0, day.jobs[2]: 3600.0}


def test_without_its_node_no_job_can_be_and_that_is_told(day):
    found = result(day, {"remove_nodes": ["n1"]})
    assert (found["after"]["rejected"], found["after"]["jobs"], found["before"]["rejected"]) == (3, 0, 0)
    assert {row["wait_after_s"] for row in found["moved"]["jobs"]} == {None}


def test_who_ran_at_the_beginning_runs_on_and_only_for_what_was_left(day):
    begin = b.later(24 * HOUR + 1800)  # the day before it begins when the first job has run for half an hour
    known = history.recorded(begin, days=1, policy=load.policy_of())
    (live,) = known.past.begin.live
    assert (live.job, live.granted_ms) == (day.jobs[0], int(b.NOON.timestamp() * 1000))
    assert {job.waiting.id: job.runs_ms for job in known.past.jobs} == {
        day.jobs[0]: 1800_000, day.jobs[1]: 3600_000, day.jobs[2]: 3600_000,
    }  # fmt: skip
    found = result(day, {"add_nodes": [{"like": "n1", "count": 1}]}, now=begin)
    assert found["before"]["jobs"] == 2  # the first had started before
    assert found["before"]["mean_wait_s"] == found["recorded"]["mean_wait_s"] == (7199 + 3598) / 2


def test_what_was_consumed_before_counts_at_the_beginning(day):
    at = b.later(26 * HOUR)  # the day before it begins when hers and his have had 4 GPU-hours each
    usage = history.recorded(at, days=1, policy=load.policy_of()).past.begin.usage
    hours = {name: account.gpu_ms / 3_600_000 for name, account in usage.project.items()}
    assert hours["beta"] == pytest.approx(4.0, rel=0.01)
    assert hours["alpha"] == pytest.approx(4.0, rel=0.01)
    assert hours["alpha"] < hours["beta"]  # an hour older
    assert usage.queue["merge"].gpu_ms == pytest.approx(sum(each.gpu_ms for each in usage.project.values()))
    assert set(usage.user) == {("alpha", "alice"), ("beta", "bob")}


def test_a_job_that_was_held_waits_from_its_release(day):
    body = b.merge_body([b.model(day.who["alice"], "e", 5), b.model(day.who["alice"], "f", 6)], name="held")
    held = b.submitted(day.who["alice"], body, now=b.later(3 * HOUR))
    jobs.hold(held, day.who["alice"], b.later(3 * HOUR + 1))
    known = history.recorded(b.later(3 * HOUR + 2), days=1, policy=load.policy_of())
    assert held not in [job.waiting.id for job in known.past.jobs]
    assert any(note.startswith("1 job held") for note in known.notes)
    jobs.hold(held, day.who["alice"], b.later(3 * HOUR + 600), release=True)
    known = history.recorded(day.end, days=1, policy=load.policy_of())
    (job,) = [job for job in known.past.jobs if job.waiting.id == held]
    assert job.waiting.not_before_ms == int(b.later(3 * HOUR + 600).timestamp() * 1000)
    assert any("1 job waits still" in note for note in known.notes)


def test_jobs_that_never_ran_are_left_out_and_that_is_said(day):
    body = b.merge_body([b.model(day.who["alice"], "e", 5), b.model(day.who["alice"], "f", 6)])
    jobs.cancel(b.submitted(day.who["alice"], body, now=b.later(5)), day.who["alice"], b.later(6))
    known = history.recorded(day.end, days=1, policy=load.policy_of())
    assert len(known.past.jobs) == 3
    assert known.notes[0].startswith("1 job ended without ever having run")


def test_a_time_without_the_node_is_played_too(day):
    pool.operate("n1", "cordon", day.who["admin"], b.later(3 * HOUR + 10))
    pool.operate("n1", "return", day.who["admin"], b.later(3 * HOUR + 20))
    faults = history.recorded(day.end, days=1, policy=load.policy_of()).past.faults
    at = {name: int(b.later(seconds).timestamp() * 1000) for name, seconds in (("c", 10_810), ("r", 10_820), ("n", 0))}
    ours = [fault for fault in faults if fault.node == "n1"]
    assert [(fault.at_ms, fault.repaired_ms, fault.spares) for fault in ours] == [
        (int((day.end - timedelta(days=1)).timestamp() * 1000), at["n"], False),  # it was not there before
        (at["c"], at["r"], True),
    ]  # fmt: skip


def test_an_answer_is_given_once_and_twice_nothing_is_played(day):
    run = asked(day.who["admin"], {"days": 1, "remove_nodes": ["n1"]}, day.end)
    assert whatif_runs.play(str(run)) == "done"
    assert whatif_runs.play(str(run)) == ""
    row = WhatIfRun.objects.get(pk=run)
    assert (row.state, row.done, row.total) == ("DONE", 6, 6)


def test_it_is_sent_to_a_worker_once_it_is_stored(day, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        run = asked(day.who["alice"], {"remove_nodes": ["n1"]}, day.end)
    assert sent == [str(run)]


def test_cancelled_while_it_waits_it_is_never_played(day):
    run = asked(day.who["alice"], {"remove_nodes": ["n1"]}, day.end)
    assert whatif_runs.cancel(run, day.who["bob"], day.end) is False  # it is none of his
    assert whatif_runs.cancel(run, day.who["alice"], day.end) is True
    assert whatif_runs.play(str(run)) == ""
    assert WhatIfRun.objects.get(pk=run).state == "CANCELLED"


def test_cancelled_while_it_runs_it_ends_at_the_next_look(day, monkeypatch):
    run = asked(day.who["alice"], {"days": 1, "remove_nodes": ["n1"]}, day.end)
    playing = history.recorded

    def meanwhile(*args, **kw):
        whatif_runs.cancel(run, day.who["admin"], day.end)
        return playing(*args, **kw)

    monkeypatch.setattr(history, "recorded", meanwhile)
    assert whatif_runs.play(str(run)) == "cancelled"
    row = WhatIfRun.objects.get(pk=run)
    assert (row.state, row.result, row.error) == ("CANCELLED", None, "")


def test_one_whose_worker_is_gone_is_broken_and_not_running_for_ever(day):
    run = asked(day.who["alice"], {"remove_nodes": ["n1"]}, day.end)
    whatif_rows.take_up(run, day.end)
    whatif_runs.look_after(day.end + timedelta(seconds=299))
    assert WhatIfRun.objects.get(pk=run).state == "RUNNING"
    whatif_runs.look_after(day.end + timedelta(seconds=301))
    row = WhatIfRun.objects.get(pk=run)
    assert (row.state, row.error) == ("FAILED", whatif_runs.BROKEN)
    # Should the worker live after all, it has to stop.
    assert whatif_rows.told(run, day.end, done=1, total=2, rate=None) is False
    assert whatif_rows.ended(run, day.end, result={}) is False


def test_one_that_nobody_takes_up_is_sent_again(day, monkeypatch):
    sent = []
    monkeypatch.setattr("emep_site.what_ifs.send", sent.append)
    run = asked(day.who["alice"], {"remove_nodes": ["n1"]}, day.end)
    assert whatif_runs.look_after(day.end + timedelta(seconds=19)) == []
    assert whatif_runs.look_after(day.end + timedelta(seconds=21)) == sent == [str(run)]


def test_one_that_breaks_says_so(day, monkeypatch):
    run = asked(day.who["alice"], {"remove_nodes": ["n1"]}, day.end)
    monkeypatch.setattr(history, "recorded", lambda *args, **kw: 1 / 0)
    assert whatif_runs.play(str(run)) == "broken"
    row = WhatIfRun.objects.get(pk=run)
    assert (row.state, "ZeroDivisionError" in row.error) == ("FAILED", True)


def test_one_that_takes_too_long_is_stopped(day, settings, monkeypatch):
    settings.WHAT_IF_LIMIT_S = 0.0
    monkeypatch.setattr("scheduling.simulation.world.LOOKS_EVERY", 1)
    run = asked(day.who["alice"], {"days": 1, "remove_nodes": ["n1"]}, day.end)
    assert whatif_runs.play(str(run)) == "too long"
    assert WhatIfRun.objects.get(pk=run).error == "it took longer than 0 s and was stopped; ask for fewer days"


def test_old_ones_go(day):
    result(day, {"remove_nodes": ["n1"]})
    whatif_runs.look_after(day.end + timedelta(days=90))
    assert WhatIfRun.objects.count() == 1
    whatif_runs.look_after(day.end + timedelta(days=90, seconds=1))
    assert WhatIfRun.objects.count() == 0


def test_a_person_has_so_many_at_a_time(day):
    for _ in range(whatif_runs.MAX_GOING):
        asked(day.who["alice"], {"remove_nodes": ["n1"]}, day.end)
    found = whatif_runs.ask({"remove_nodes": ["n1"]}, day.who["alice"], day.end)
    assert isinstance(found, TooMany)
    assert found.message.startswith("3 of your replays wait or run")
    asked(day.who["bob"], {"remove_nodes": ["n1"]}, day.end)


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "", "name at least one change: policy, add_nodes, remove_nodes"),
        ({"policy": {}, "add_nodes": []}, "", "name at least one change"),
        ({"days": 0}, "days", "days must be a whole number from 1 to 31, not 0"),
        ({"days": 32}, "days", "from 1 to 31, not 32"),
        ({"days": "7"}, "days", "not '7'"),
        ({"days": True}, "days", "not true"),
        ({"faults": []}, "faults", "there is no field 'faults'"),
        ({"policy": {"project_weights": {"alpha": -1}}}, "policy.project_weights.alpha", "from 0 to"),
        ({"policy": {"project_weights": {"gamma": 1}}}, "policy.project_weights.gamma", "no such project"),
        ({"remove_nodes": ["n9"]}, "remove_nodes.0", "must be the name of a node there is"),
        ({"add_nodes": [{"count": 1, "gpus": 0, "memory": "80GB"}]}, "add_nodes.0.gpus", "whole number from 1 to 64"),
        ({"add_nodes": [{"count": 1, "memory": "80GB"}]}, "add_nodes.0.gpus", "is missing"),
        ({"add_nodes": [{"count": 1, "gpus": 8}]}, "add_nodes.0.memory", "is missing"),
        ({"add_nodes": [{"count": 1, "gpus": 8, "memory": "much"}]}, "add_nodes.0.memory", "written like 40GB"),
        ({"add_nodes": [{"count": 1, "gpus": 8, "memory": "8GB", "nvlink": 9}]}, "add_nodes.0.nvlink", "0 (none) to 8"),
        ({"add_nodes": [{"count": 1, "gpus": 8, "memory": "8GB", "model": ""}]}, "add_nodes.0.model", "GPU model"),
        ({"add_nodes": [{"count": 1, "like": "n1", "gpus": 8}]}, "add_nodes.0.gpus", "leave out like, or gpus"),
        ({"add_nodes": [{"gpus": 8, "memory": "8GB"}]}, "add_nodes.0.count", "is missing"),
    ],
)
def test_what_can_not_be_played_is_refused_by_its_field(day, body, field, words):
    found = whatif_runs.ask(body, day.who["alice"], day.end)
    assert isinstance(found, Unplayable)
    assert [error["field"] for error in found.errors] == [field]
    assert words in found.errors[0]["message"]
    assert WhatIfRun.objects.count() == 0


def test_more_jobs_than_may_be_are_refused_with_what_to_do(day, settings):
    settings.WHAT_IF_MAX_JOBS = 2
    (error,) = whatif_runs.ask({"remove_nodes": ["n1"]}, day.who["alice"], day.end).errors
    assert (error["field"], error["limit"]) == ("days", 2)
    assert error["message"] == "3 jobs lie in 7 days, and a replay may have 2; ask for fewer days"


def test_no_more_days_are_offered_than_events_are_kept(settings):
    settings.EVENT_RETENTION_DAYS = 5
    assert whatif_runs.most_days() == 5
