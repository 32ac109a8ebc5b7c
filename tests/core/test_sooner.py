"""What would help on a full pool: later starts that are sooner, each the largest of its kind and with its own start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.alternatives import Alternative
from scheduling.core.estimate import estimate
from scheduling.core.explain import Explainer
from scheduling.core.pool import Pool
from scheduling.core.preview import preview
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import LiveAttempt, WaitingJob
from scheduling.core.sooner import tried

from .build import NOW, gang, gpus, job, live, node, pool, request, rule, world

S = 1000


def helps(waiting: WaitingJob, *others: WaitingJob, the_pool: Pool, running: list[LiveAttempt]) -> list[Alternative]:
    """The changes for the job, each of which is seen to start when it says once it is made."""
    before = world(the_pool, *others, waiting, running=running)
    scheduler = Scheduler(before)
    scheduler.cycle(NOW)
    found = Explainer(scheduler).helps(scheduler.waiting.by_id[waiting.id])
    for each in found:
        changed = replace(waiting, request=each.request, remaining_s=each.duration_s)
        again = Scheduler(world(the_pool, *others, changed, running=running))
        again.cycle(NOW)
        start = estimate(again, Explainer(again), again.waiting.by_id[waiting.id])
        assert start is not None
        assert start.told_low == each.starts_ms, each.name
    return found


def told(found: list[Alternative]) -> list[tuple[str, int, int]]:
    """(kind, number, second of the start by the minute)."""
    return [(each.name, each.value, (each.starts_ms or 0) // S) for each in found]


def full(*nodes: tuple[str, int, str, int]) -> tuple[Pool, list[LiveAttempt]]:
    """A pool of (node, GPUs, memory, second until which one job holds them all)."""
    the_pool = pool(*(gpus(name, count, memory=memory) for name, count, memory, _ in nodes))
    return the_pool, [
        live(f"r {name}", *(f"{name}/{n}" for n in range(count)), ends=ends) for name, count, _, ends in nodes
    ]


def test_less_memory_is_offered_with_the_start_on_the_smaller_gpus():
    the_pool, running = full(("big", 8, "80GB", 2410), ("n1", 4, "80GB", 2410), ("n2", 4, "40GB", 310))
    waiting = job("1", 4, memory="80GB", seconds=600)
    assert told(helps(waiting, the_pool=the_pool, running=running)) == [("memory_at_most_mib", 38_147, 300)]


def test_a_start_within_the_minute_is_not_told_as_now():
    the_pool, running = full(("big", 8, "80GB", 2410), ("n1", 4, "80GB", 37))
    scheduler = Scheduler(world(the_pool, job("1", 8, seconds=600), running=running))
    scheduler.cycle(NOW)
    found = Explainer(scheduler).helps(scheduler.waiting.by_id["1"])
    assert [(each.name, each.starts_ms) for each in found] == [("gpus_at_most", 37 * S)]


def test_fewer_gpus_are_offered_as_many_as_start_sooner():
    the_pool, running = full(("big", 8, "80GB", 2410), ("n1", 4, "80GB", 910), ("n2", 2, "80GB", 310))
    waiting = job("1", 8, seconds=600)
    assert told(helps(waiting, the_pool=the_pool, running=running)) == [("gpus_at_most", 4, 900)]


def test_fewer_nodes_are_offered_as_many_as_start_sooner():
    the_pool, running = full(("n0", 1, "80GB", 100), ("n1", 1, "80GB", 200), ("n2", 1, "80GB", 3000))
    assert told(helps(gang("1", 3, 1), the_pool=the_pool, running=running)) == [("nodes_at_most", 2, 180)]


def test_fewer_gpus_on_each_node_are_offered_where_smaller_nodes_end_sooner():
    the_pool, running = full(
        ("n0", 4, "80GB", 3000), ("n1", 4, "80GB", 3000), ("n2", 2, "80GB", 190), ("n3", 2, "80GB", 190)
    )
    found = helps(gang("1", 2, 4), the_pool=the_pool, running=running)
    assert told(found) == [("gpus_at_most", 2, 180)]
    assert (found[0].words, found[0].request.gpu_count) == ("at most 2 GPUs on each node", 4)


def test_fewer_gpus_over_any_nodes_are_offered():
    the_pool, running = full(("n0", 4, "80GB", 310), ("n1", 4, "80GB", 3000))
    assert told(helps(job("1", 8, allow_span=True), the_pool=the_pool, running=running)) == [("gpus_at_most", 4, 300)]


def on_n1(seconds: int) -> WaitingJob:
    return job("1", at=9, seconds=seconds, rules=[rule("node", "In", "n1")])


def test_a_time_limit_that_ends_before_a_reservation_is_offered_less_a_minute_to_act():
    # The gang has both nodes from second 600 on; of n1 one GPU is free from second 100 on.
    the_pool = pool(gpus("n0", 2), gpus("n1", 1))
    running = [live("r", "n0/0", "n0/1", ends=600), live("s", "n1/0", ends=100)]
    large = gang("large", 2, 1, at=1, rules=[rule("node", "In", "n0", "n1")])
    found = helps(on_n1(3600), large, the_pool=the_pool, running=running)
    assert told(found)[0] == ("duration_at_most_s", 440, 60)
    assert found[0].words == "a time limit of at most 7 min 20 s"


@pytest.mark.parametrize(("saves", "kinds"), [(98, []), (99, ["memory_at_most_mib"])])
def test_what_saves_less_than_a_tenth_of_the_wait_is_not_offered(saves, kinds):
    the_pool, running = full(("n1", 1, "80GB", 1000), ("n2", 1, "40GB", 1000 - saves))
    found = helps(job("1", memory="80GB"), the_pool=the_pool, running=running)
    assert [each.name for each in found] == kinds


@pytest.mark.parametrize(("start_by", "kinds"), [(300, []), (301, ["memory_at_most_mib"])])
def test_what_would_start_after_the_job_has_left_is_not_offered(start_by, kinds):
    the_pool, running = full(("n1", 1, "80GB", 1000), ("n2", 1, "40GB", 300))
    scheduler = Scheduler(world(the_pool, job("1", memory="80GB", start_by_ms=start_by * S), running=running))
    scheduler.cycle(NOW)
    found = Explainer(scheduler).helps(scheduler.waiting.by_id["1"])
    assert [each.name for each in found] == [*kinds, "start_by_at_least_ms"]


def test_a_gang_that_holds_out_is_offered_fewer_nodes_only_with_what_those_hold_out_for():
    nodes = [node("n0", rack="r0"), node("n1", rack="r1"), node("n2", rack="r2"), node("n3", rack="r2")]
    the_pool = pool(*(gpus(f"n{n}", 1) for n in range(4)), nodes=nodes)
    running = [live(f"r{n}", f"n{n}/0", ends=ends) for n, ends in enumerate((310, 310, 3610, 3610))]
    waiting = gang("1", 3, 1, at=10, max_wait_for_level_s=1800)
    # Two of the nodes are free at 310, but two nodes would hold out for their rack until second 1810.
    assert told(helps(waiting, the_pool=the_pool, running=running)) == [("nodes_at_most", 2, 1810)]


def test_only_what_there_is_to_change_is_said_to_have_been_tried():
    assert tried(request()) == ("a shorter time limit",)
    assert tried(request(2, memory="40GB", nvlink=True)) == (
        "fewer GPUs", "less memory", "a shorter time limit", "one thing less that it asks of its place",
    )  # fmt: skip
    assert tried(gang("1", 2, 1).request) == ("fewer nodes", "a shorter time limit")
    assert tried(gang("1", 2, 2).request) == ("fewer nodes", "fewer GPUs on each", "a shorter time limit")


def test_what_must_not_start_yet_is_offered_no_start_before_its_time():
    the_pool, running = full(("big", 4, "80GB", 5000), ("small", 2, "80GB", 590))
    waiting = job("1", 4, seconds=600, not_before_ms=580 * S)
    scheduler = Scheduler(world(the_pool, waiting, running=running))
    scheduler.cycle(NOW)
    found = preview(scheduler, Explainer(scheduler), replace(waiting, id="more"))
    assert told(list(found.alternatives)) == [("gpus_at_most", 2, 580)]
