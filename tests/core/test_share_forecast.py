"""What everybody will have used, and who passes whom: exact values, and the reckoning of the scheduler itself."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core import share_forecast
from scheduling.core.fairshare import FairShare
from scheduling.core.fairshare import Run as Running
from scheduling.core.ledger import MICRO
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.share_forecast import Run, passes, prospects
from scheduling.core.snapshot import Account, Usage

from .build import HOUR_MS, NOW, job, live, loose, used, weighted, world

DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS


def prospect(name="A", *, target=100.0, on=0.0, runs=(), half_life=WEEK_MS, ahead_of_time=True):
    """An entity with so many GPU-hours due and on its account; runs are (GPUs, hours from now)."""
    going = [Run(gpus * MICRO, 0, hours * HOUR_MS) for gpus, hours in runs]
    return share_forecast.prospect(
        name, target * HOUR_MS, Account(on * HOUR_MS, 0), going, now_ms=0, half_life_ms=half_life,
        ahead_of_time=ahead_of_time,
    )  # fmt: skip


def test_what_is_on_an_account_halves_and_what_runs_is_used():
    idle, busy = prospect(on=50), prospect(runs=[(2, 10)])
    assert len(prospect(runs=[(2, 10), (1, 10)]).steps) == 2
    assert idle.ratio(WEEK_MS) == 0.25
    assert (busy.consumed(0), busy.in_flight(0), busy.ratio(0)) == (0.0, 20.0 * HOUR_MS, 0.2)
    assert busy.in_flight(4 * HOUR_MS) == 12.0 * HOUR_MS
    assert busy.in_flight(10 * HOUR_MS) == busy.in_flight(DAY_MS) == 0.0
    # Twenty GPU-hours, each faded since it was used.
    scale = WEEK_MS / math.log(2)
    faded = 2 * scale * (1 - 2 ** (-10 * HOUR_MS / WEEK_MS))
    assert busy.consumed(10 * HOUR_MS) == pytest.approx(faded)
    assert busy.consumed(10 * HOUR_MS + WEEK_MS) == pytest.approx(faded / 2)


def test_two_that_only_fade_never_pass_each_other():
    assert passes(prospect(on=50), prospect(on=49.999), 10**6 * DAY_MS) is None


def test_what_was_used_fades_while_what_is_to_be_used_does_not():
    # B's 40 GPU-hours to come count in full until they are used; A's 41 that are past fade.
    behind, ahead = prospect(on=41), prospect("B", runs=[(1, 40)])
    at = passes(behind, ahead, 3 * DAY_MS)
    # 41 x = s (1 - x) + 40 - t, with x = 2^-(t / H), in hours
    scale = 168 / math.log(2)
    hours = at / HOUR_MS
    part = 2 ** (-hours / 168)
    assert 41 * part == pytest.approx(scale * (1 - part) + 40 - hours, abs=1e-5)
    assert behind.ratio(at) < ahead.ratio(at)
    assert behind.ratio(at - 1) >= ahead.ratio(at - 1)
    assert passes(behind, ahead, at) == at
    assert passes(behind, ahead, at - 1) is None


def test_without_counting_ahead_of_time_what_runs_catches_up_as_it_runs():
    behind = prospect(on=10, half_life=0, ahead_of_time=False)
    ahead = prospect("B", runs=[(2, 100)], half_life=0, ahead_of_time=False)
    # 10 GPU-hours at 2 an hour; a tie is left to the time of submission.
    assert passes(behind, ahead, DAY_MS) == 5 * HOUR_MS + 1
    assert passes(behind, prospect("B", runs=[(2, 4)], half_life=0, ahead_of_time=False), WEEK_MS) is None


def test_a_lead_that_lasts_for_some_hours_only_is_found():
    # B's two GPUs count in full until they are used: A is in front from about the third hour to the 175th.
    behind, ahead = prospect(on=100, runs=[(1, 701)]), prospect("B", runs=[(2, 400)])
    hours = [h for h in range(400) if behind.ratio(h * HOUR_MS) < ahead.ratio(h * HOUR_MS)]
    assert hours == list(range(3, 176))
    at = passes(behind, ahead, 399 * HOUR_MS)
    assert 2 * HOUR_MS < at <= 3 * HOUR_MS
    assert behind.ratio(at) < ahead.ratio(at)
    assert behind.ratio(at - 1) >= ahead.ratio(at - 1)


def test_who_is_in_front_already_passes_at_once():
    assert passes(prospect(on=1), prospect("B", on=2), DAY_MS) == 0


run_of = st.tuples(st.integers(1, 64), st.integers(1, 400))
entities = st.fixed_dictionaries(
    {
        "target": st.sampled_from([50.0, 100.0, 1000.0]),
        "on": st.floats(0, 500),
        "runs": st.lists(run_of, max_size=4),
    }
)


@settings(deadline=None)
@given(entities, entities, st.sampled_from([0, 30 * HOUR_MS, WEEK_MS]), st.booleans())
def test_the_first_moment_is_found_wherever_it_is(behind, ahead, half_life, in_full):
    behind, ahead = (prospect(**each, half_life=half_life, ahead_of_time=in_full) for each in (behind, ahead))
    until = 500 * HOUR_MS
    at = passes(behind, ahead, until)
    seen = [ms for ms in range(0, until + 1, HOUR_MS // 2) if behind.ratio(ms) < ahead.ratio(ms)]
    if at is None:
        assert seen == []
    else:
        assert behind.ratio(at) < ahead.ratio(at)
        assert at == 0 or behind.ratio(at - 1) >= ahead.ratio(at - 1)
        assert not seen or at <= seen[0]


OWNER = ("merge", "A", "ann")
OTHER = ("eval", "B", "bob")


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([OWNER, OTHER]), run_of), max_size=6),
    st.lists(st.integers(0, 500 * HOUR_MS), min_size=1, max_size=5).map(sorted),
    st.sampled_from(["full", "cycle", "off"]),
    st.sampled_from([0.0, 86_400.0, 7 * 86_400.0]),
)
def test_it_is_what_the_scheduler_will_reckon(runs, moments, mode, half_life_s):
    policy = replace(DEFAULT_POLICY, in_flight=mode, half_life_s=half_life_s)
    usage = Usage(project={"A": Account(30.0 * HOUR_MS, -DAY_MS), "B": Account(2.0 * HOUR_MS, -HOUR_MS)})
    share = FairShare(policy, 64, usage, now_ms=0)
    for owner in (OWNER, OTHER):
        share.join(owner)
    started = [Running(owner, gpus * MICRO, -HOUR_MS, end_ms=hours * HOUR_MS) for owner, (gpus, hours) in runs]
    for run in started:
        share.start(run)
    foreseen = {
        name: share_forecast.prospect(
            name, share.projects.target(name), usage.project[name],
            [Run(run.micro, run.start_ms, run.end_ms) for run in started if run.owner[1] == name],
            now_ms=0, half_life_ms=round(half_life_s * 1000), ahead_of_time=mode == "full",
        )
        for name in ("A", "B")
    }  # fmt: skip
    happens = [(run.end_ms, 0, n) for n, run in enumerate(started)] + [(at, 1, 0) for at in moments]
    for at, what, n in sorted(happens):
        share.move(at)
        if what == 0:
            share.stop(started[n])
            continue
        for name, found in foreseen.items():
            # The scheduler rounds what is consumed to a GPU-ms and adds whole millionths.
            near = 2 / found.target + 1e-9
            assert found.ratio(at) == pytest.approx(share.project_ratio(name), abs=near)


def snapshot_of_three():
    """A: 30 GPU-hours and a job that runs for an hour more on two GPUs; B: 10 and one that waits; C: nothing to do."""
    return world(
        loose(4),
        job("b", project="B"),
        policy=weighted(A=2.0, B=1.0, C=1.0),
        running=[live("a", "n0/0", "n0/1", project="A", granted_ms=NOW - HOUR_MS)],
        usage=used(project={"A": 30, "B": 10, "C": 99}),
    )


def test_of_a_snapshot_it_is_the_targets_accounts_and_runs_that_the_scheduler_has():
    snapshot = snapshot_of_three()
    found = prospects(snapshot)
    share = FairShare.of(snapshot)
    assert [each.name for each in found.projects] == ["B", "A"]
    for each in found.projects:
        assert each.ratio(NOW) == pytest.approx(share.project_ratio(each.name), abs=1e-9)
        assert each.target == share.projects.target(each.name)
    alpha = found.projects[1]
    assert [(step.at_ms, step.held, step.in_flight) for step in alpha.steps] == [
        (NOW, 2.0, 2.0 * HOUR_MS), (NOW + HOUR_MS, 0.0, 0.0)
    ]  # fmt: skip
    assert found.people.keys() == {"A", "B"}
    (person,) = found.people["A"]
    assert (person.name, person.steps) == ("user of A", alpha.steps)
    assert person.ratio(NOW) == pytest.approx(share.user_ratio("A", "user of A"), abs=1e-9)


def test_a_run_that_is_past_its_limit_ends_now():
    late = world(loose(1), running=[live("a", "n0/0", project="A", ends=5, granted_ms=0)])
    (found,) = prospects(late).projects
    ((at, consumed, held, flight),) = found.steps
    assert (at, held, flight) == (NOW, 0.0, 0.0)
    assert consumed == pytest.approx(NOW, rel=1e-5)


def test_who_has_weight_0_is_not_compared():
    snapshot = world(loose(1), job("a", project="A"), job("b", project="B"))
    policy = replace(snapshot.policy, project_weights={"A": 0.0})
    assert [each.name for each in prospects(replace(snapshot, policy=policy)).projects] == ["B"]
