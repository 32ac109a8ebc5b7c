"""Figures of some days by hand: waits to the end of the days, GPUs held in parts of them, and who moved."""

from __future__ import annotations

import pytest

from scheduling.simulation.days import moved, told
from scheduling.simulation.past import Life


def life(
    name, due, started, *held, gpus=2, project="a", user="u", level="Normal", value=2, preemptions=0, rejected=False
):
    return Life(name, "merge", level, value, project, user, gpus, due, started, held, preemptions, rejected)


LIVES = [
    life("ran before", 0, 500, (500, 3000)),
    life("waited", 1000, 2000, (2000, 4000), (4500, 5000), project="b", preemptions=1),
    life("waits", 3000, None, project="b", user="v", level="High", value=3),
    life("never", 1000, None, rejected=True),
]


@pytest.fixture
def figures():
    return told(LIVES, from_ms=1000, until_ms=5000, gpus=4, parts=4)


def test_waits_are_of_who_had_not_started_before(figures):
    assert (figures["jobs"], figures["started"]) == (2, 1)
    assert (figures["mean_wait_s"], figures["p95_wait_s"]) == (1.5, 2.0)  # 1 s, and 2 s up to the end
    assert (figures["rejected"], figures["preemptions"]) == (1, 1)


def test_gpus_held_are_those_of_these_days(figures):
    # 2 GPUs for 2 s, and for 2.5 s, of 4 GPUs for 4 s.
    assert figures["utilization"] == pytest.approx(9 / 16)
    assert figures["gpu_hours"] == pytest.approx(9 / 3600, abs=1e-4)
    assert figures["projects"]["a"]["share"] == pytest.approx(4 / 9, abs=1e-6)
    assert list(figures["users"]) == ["a/u", "b/u", "b/v"]


def test_priorities_are_told_from_the_highest_on(figures):
    assert list(figures["priorities"]) == ["High", "Normal"]
    assert figures["priorities"]["High"]["mean_wait_s"] == 2.0


def test_series_are_means_over_equal_parts(figures):
    series = figures["series"]
    assert (series["part_s"], list(series["projects"])) == (1.0, ["a", "b"])
    assert series["projects"]["a"] == [2.0, 2.0, 0.0, 0.0]
    assert series["projects"]["b"] == [0.0, 2.0, 2.0, 1.0]
    assert series["waiting"] == [1.0, 0.0, 1.0, 1.0]


def test_who_moves_most_comes_first_and_who_ran_before_not_at_all():
    after = [
        life("ran before", 0, 500, (500, 3500)),
        life("waited", 1000, 1500, (1500, 4000), project="b"),
        life("waits", 3000, 3000, (3000, 5000), project="b"),
        life("never", 1000, None, rejected=True),
    ]
    found = moved(LIVES, after, from_ms=1000, until_ms=5000)
    assert (found["sooner"], found["later"]) == (2, 0)
    assert [(row["job"], row["later_s"], row["started_before"]) for row in found["jobs"]] == [
        ("waits", -2.0, False), ("waited", -0.5, True),
    ]  # fmt: skip
    assert [row["preemptions_after"] - row["preemptions_before"] for row in found["jobs"]] == [0, -1]


def test_a_job_that_can_never_run_any_more_comes_before_all_others():
    after = [life("waited", 1000, 4000, (4000, 5000)), life("waits", 3000, None, rejected=True)]
    found = moved(LIVES, after, from_ms=1000, until_ms=5000)
    assert [(row["job"], row["wait_after_s"]) for row in found["jobs"]] == [("waits", None), ("waited", 3.0)]
    assert (found["sooner"], found["later"]) == (0, 1)
