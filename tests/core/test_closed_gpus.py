"""GPUs that operators' windows close are told as closed, not as free."""

from __future__ import annotations

import pytest

from scheduling.core.decide import decide
from scheduling.core.snapshot import Window

from .build import codes_of, gang, gpus, groups, job, live, node, numbers_of, patient, pool, rule, world

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


BIG_AND_SMALL = pool(gpus("big", 8), gpus("c1", 4))


def of(node: str, *, until: int, name: str | None = None, project: str | None = None, start: int = 0) -> Window:
    """A window on one node, in seconds."""
    return Window(name or f"on {node}", (node,), start * 1000, until * 1000, project)


def test_a_window_on_a_node_that_is_too_small_for_the_job_is_not_told():
    plan = decide(world(BIG_AND_SMALL, job("1", 8), windows=(of("big", until=600), of("c1", until=900))))
    assert plan.holds[0].reasons[0].message == (
        "It would fit, but window on big closes the GPUs, until 1 Jan 1970, 00:10 UTC."
    )


@pytest.mark.parametrize(
    "the_job",
    [
        job("1", memory="80GB"), job("1", 4, nvlink=True), job("1", rules=[rule("node", "NotIn", "n2")]),
        gang("1", 2, 4, required_level="rack"), job("1", 2, nvlink=True, nvlink_exclusive=True),
    ],
    ids=["memory", "nvlink", "rule", "rack", "whole group"],
)  # fmt: skip
def test_a_window_on_gpus_that_could_not_hold_the_job_is_not_told(the_job):
    parts = [gpus("n0", 4, group="g0"), gpus("n1", 4, group="g1"), gpus("n2", 4, memory="40GB")]
    nodes = [node("n0"), node("n1"), node("n2", rack="r1")]
    windows = (of("n0", until=600), of("n1", until=600), of("n2", until=900))
    told = decide(world(pool(*parts, nodes=nodes), the_job, windows=windows)).holds[0].reasons[0].message
    assert "windows on n0 and on n1 close the GPUs" in told


def test_gpus_on_a_node_that_is_too_small_are_neither_free_nor_closed_to_the_job():
    windows = (of("big", until=600), of("c1", until=900))
    plan = decide(world(BIG_AND_SMALL, job("1", 8), windows=windows, running=[live("r", "big/0", ends=300)]))
    assert plan.holds[0].reasons[0].message == (
        "Needs 8 GPUs in one node; 0 suitable free. The nearest node is big, 8 short. 7 GPUs more are closed to it by "
        "window on big until 1 Jan 1970, 00:10 UTC."
    )
    assert numbers_of(plan, "1", "BUSY")["window_until_ms"] == 600_000


@pytest.mark.parametrize("running", [[], [live("r", "n0/0", ends=300), live("s", "n1/0", ends=300)]])
def test_of_two_nodes_that_could_hold_the_job_the_first_to_open_tells_until_when(running):
    windows = (of("n0", until=900), of("n1", until=600))
    plan = decide(world(groups(2, 4), job("1", 4), windows=windows, running=running))
    told = plan.holds[0].reasons[0].message
    assert "windows on n0 and on n1" in told
    assert ", the first of them until 1 Jan 1970, 00:10 UTC." in told


def test_of_windows_that_follow_each_other_too_closely_the_last_one_tells_until_when():
    windows = (of("n0", until=3000), of("n0", name="after it", start=5000, until=8000))
    plan = decide(world(groups(1, 4), job("1"), windows=windows))
    told = "windows on n0 and after it close the GPUs, the last of them until 1 Jan 1970, 02:13:20 UTC."
    assert told in plan.holds[0].reasons[0].message


def test_of_three_windows_that_end_at_different_times_one_in_the_middle_may_tell_until_when():
    windows = (of("n0", until=300), of("n0", name="next", until=600), of("n1", until=900))
    plan = decide(world(groups(2, 4), job("1", 4), windows=windows))
    assert ", one of them until 1 Jan 1970, 00:10 UTC." in plan.holds[0].reasons[0].message


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        ((of("n0", until=900, project="B"),), "a window reserved for others closes"),
        (
            (of("n0", until=900, project="B"), of("n0", until=900)),
            "window on n0 and a window reserved for others close",
        ),
        ((of("n0", until=900, project="B"), of("n0", until=900, project="C")), "2 windows reserved for others close"),
    ],
    ids=["one", "beside another", "two"],
)
def test_a_window_that_is_anothers_is_told_without_its_name(windows, words):
    plan = decide(world(groups(1, 4), job("1"), windows=windows))
    assert plan.holds[0].reasons[0].message.startswith(f"It would fit, but {words} the GPUs, ")


def test_a_reservation_where_the_job_could_not_lie_is_not_told():
    jobs = [job("small", 4, at=1, rules=[rule("node", "In", "c1")]), job("large", 8, at=2), job("1", 7, at=3)]
    running = [live("r", "c1/0", ends=300), live("s", "big/0", ends=600)]
    plan = decide(world(BIG_AND_SMALL, *jobs, running=running, policy=patient()))
    assert "kept for 1 job ahead" in next(hold.reasons[0].message for hold in plan.holds if hold.job == "1")
