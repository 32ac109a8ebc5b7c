"""The figures, on an outcome small enough to count by hand."""

from __future__ import annotations

import pytest

from scheduling.simulation.outcome import Fate, JobOutcome, Outcome
from scheduling.simulation.report import MEANINGS, percentile, report


def job(name: str, came: int, started: int | None, ended: int | None, runs: int, **more) -> JobOutcome:
    level = more.pop("level", "Normal")
    fate = more.pop("fate", Fate.FINISHED if ended is not None else Fate.WAITING)
    ms = [None if each is None else each * 1000 for each in (started, ended)]
    return JobOutcome(
        name, level, 4 if level == "Critical" else 2, "A", 1, came * 1000, runs * 1000, fate, ms[0], ms[1], **more
    )


def figures(*jobs: JobOutcome, **more):
    made = Outcome(tuple(jobs), (), 0, 0, gpus=2, busy_gpu_ms=30_000, window_ms=20_000, share_error=0.25, cycles=3)
    return report(made, **more)


def test_waits_run_from_the_submission_to_the_first_start():
    found = figures(job("a", 0, 10, 50, 40), job("b", 5, 35, 60, 25)).figures
    assert (found["mean_wait_s"], found["p50_wait_s"], found["p95_wait_s"]) == (20, 10, 30)


def test_the_slowdown_is_the_time_in_the_system_over_the_run_time_with_a_floor_of_10_s():
    assert figures(job("a", 0, 30, 32, 2), job("b", 0, 0, 100, 100)).figures["mean_bsld"] == pytest.approx(
        (3.2 + 1) / 2
    )


def test_a_slowdown_is_never_below_1():
    assert figures(job("a", 0, 0, 1, 1)).figures["mean_bsld"] == 1.0


def test_the_makespan_runs_from_the_first_submission_to_the_last_end():
    assert figures(job("a", 5, 10, 50, 40), job("b", 7, 8, 20, 12)).figures["makespan_s"] == 45


def test_the_utilisation_is_the_busy_share_of_the_window():
    assert figures(job("a", 0, 0, 1, 1)).figures["util_window"] == 0.75


def test_without_a_window_there_is_no_utilisation_and_its_number_in_the_object_is_0():
    found = report(
        Outcome((job("a", 0, 0, 1, 1),), (), 0, 0, gpus=2, busy_gpu_ms=0, window_ms=0, share_error=0, cycles=1)
    )
    assert (found.figures["util_window"], found.as_json()["util_window"]) == (None, 0.0)


def test_rejected_jobs_are_counted_apart_and_in_no_other_figure():
    found = figures(job("a", 0, 0, 1, 1), job("big", 0, None, None, 9, fate=Fate.REJECTED)).figures
    assert (found["jobs"], found["rejected"], found["mean_wait_s"]) == (1, 1, 0)


def test_critical_jobs_have_a_mean_of_their_own():
    found = figures(job("a", 0, 9, 10, 1), job("c", 0, 3, 4, 1, level="Critical")).figures
    assert found["critical_mean_wait_s"] == 3


def test_without_critical_jobs_their_mean_is_none():
    assert figures(job("a", 0, 0, 1, 1)).figures["critical_mean_wait_s"] is None


def test_preemptions_and_lost_hours_add_up_by_class():
    found = figures(
        job("a", 0, 0, 9, 1, preemptions=2, lost_gpu_ms=3_600_000), job("b", 0, 0, 9, 1, preemptions=1), wall_s=1.5
    )
    assert (found.figures["preemptions"], found.per_class["Normal"]["lost_gpu_h"]) == (3, 1.0)


def test_a_job_that_still_waits_has_no_wait_and_no_slowdown():
    assert figures(job("a", 0, None, None, 5)).figures["mean_wait_s"] is None


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (75, 3), (76, 4), (95, 4), (1, 1), (100, 4)])
def test_percentiles_are_by_nearest_rank(percent, expected):
    assert percentile([4, 2, 1, 3], percent) == expected


def test_a_percentile_of_nothing_is_none():
    assert percentile([], 95) is None


def test_the_object_has_every_figure_and_the_rest_nested():
    assert list(figures(job("a", 0, 0, 1, 1)).as_json()) == [*MEANINGS, "per_class", "details"]


def test_the_table_says_what_each_figure_means():
    text = figures(job("a", 0, 0, 1, 1)).as_text()
    assert all(name in text and meaning in text for name, meaning in MEANINGS.items())
