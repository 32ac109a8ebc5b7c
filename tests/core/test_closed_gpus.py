"""GPUs that operators' windows close are told as closed, not as free."""

from __future__ import annotations

from scheduling.core.decide import decide
from scheduling.core.snapshot import Window

from .build import codes_of, gang, groups, job, live, numbers_of, world

SERVICE = Window("service", ("n0",), 0, 900_000)
LATER = Window("rebuild", ("n0",), 1_800_000, 9_000_000)


def message(*windows: Window, asks: int = 4, running=()) -> str:
    """Why a job that needs more than is free waits, on two nodes of 4 GPUs."""
    plan = decide(world(groups(2, 4), job("1", asks), windows=windows, running=running))
    return plan.holds[0].reasons[0].message


BUSY = [live("r", "n1/0", ends=600)]


def test_gpus_of_a_window_that_has_begun_are_closed_and_not_free():
    plan = decide(world(groups(2, 4), gang("1", 2, 4), windows=(SERVICE,), running=BUSY))
    assert plan.holds[0].reasons[0].message == (
        "Needs 4 GPUs on each of 2 nodes; 0 nodes have 4 GPUs free, 3 suitable free in all. 4 GPUs more are closed to "
        "it by window service until 1 Jan 1970, 00:15 UTC. It would start now with at most 3 GPUs on 1 node."
    )
    numbers = numbers_of(plan, "1", "GANG_NODES")
    assert (numbers["free"], numbers["closed"], numbers["ready_nodes"]) == (3, 4, 0)


def test_gpus_that_close_before_the_job_would_end_are_told_with_both_instants():
    taken = [live("r", "n0/0", ends=600), live("s", "n1/0", "n1/1", "n1/2", "n1/3", ends=900)]
    assert message(LATER, running=taken) == (
        "Needs 4 GPUs in one node; 0 suitable free. The nearest node is n0, 4 short. 3 GPUs more are closed to it by "
        "window rebuild from 1 Jan 1970, 00:30 UTC, until 1 Jan 1970, 02:30 UTC."
    )


def test_gpus_of_several_windows_name_them():
    taken = [live("r", "n0/0", ends=600), live("s", "n1/0", "n1/1", "n1/2", "n1/3", ends=900)]
    told = message(SERVICE, Window("move", ("n0",), 0, 1_800_000), running=taken)
    assert "3 GPUs more are closed to it by windows service and move, the last of them until 1 Jan 1970, 00:30" in told


def test_of_many_windows_the_first_two_are_named():
    windows = [Window(f"w{n}", ("n0", "n1"), 0, 900_000) for n in range(4)]
    plan = decide(world(groups(2, 4), job("1"), windows=tuple(windows)))
    assert plan.holds[0].reasons[0].message.startswith("It would fit, but 4 windows (w0, w1 and 2 more) close the GPUs")


def test_gpus_that_a_window_leaves_to_the_jobs_project_are_free():
    booked = Window("course", ("n0",), 0, 900_000, project="A")
    plan = decide(world(groups(2, 4), gang("1", 2, 4), windows=(booked,), running=BUSY))
    assert "closed" not in numbers_of(plan, "1", "GANG_NODES")
    other = decide(world(groups(2, 4), gang("1", 2, 4, project="B"), windows=(booked,), running=BUSY))
    assert numbers_of(other, "1", "GANG_NODES")["closed"] == 4


def test_counting_what_is_closed_gives_nothing_away():
    jobs = [gang("1", 2, 4), job("2", 3, seconds=300)]
    assert codes_of(decide(world(groups(2, 4), *jobs, windows=(SERVICE,), running=BUSY))) == {"1": ["GANG_NODES"]}
