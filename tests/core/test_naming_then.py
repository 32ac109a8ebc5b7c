"""A job that starts later is named the GPUs that it then gets: by its wishes and bandwidth, packed as when placed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core.explain import Explainer
from scheduling.core.preview import preview
from scheduling.core.scheduler import Scheduler

from .build import gang, gpus, groups, job, live, node, pool, rule, world

LATER_MS = 60_000
UNEQUAL = pool(
    *(gpus(f"a{number}", 2) for number in range(1, 5)),
    nodes=[
        node("a1", gbps=100.0),
        node("a2", rack="r1", gbps=100.0),
        node("a3", rack="r2", gbps=400.0),
        node("a4", rack="r3", gbps=400.0, labels={"disk": "fast"}),
    ],
)


def named_and_got(waiting, the_pool, running) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(the GPUs that a plan names, those that the job gets at second 60, by when all that ran has ended by then)"""
    before = world(the_pool, running=running)
    scheduler = Scheduler(before)
    scheduler.cycle(before.now_ms)
    plan = preview(scheduler, Explainer(scheduler), waiting)
    left = [each for each in running if each.end_ms > LATER_MS]
    then = Scheduler(replace(world(the_pool, waiting, running=left), now_ms=LATER_MS))
    (start,) = then.cycle(LATER_MS).starts
    return plan.gpus, start.gpus


# ``held``: nodes that are taken until then, or GPUs that are taken for longer.
@pytest.mark.parametrize(
    ("waiting", "the_pool", "held", "got"),
    [
        (gang("1", 2, 2, not_before_ms=LATER_MS), UNEQUAL, (), ("a3/0", "a3/1", "a4/0", "a4/1")),
        (gang("1", 2, 2), UNEQUAL, ("a1", "a2", "a3", "a4"), ("a3/0", "a3/1", "a4/0", "a4/1")),
        (job("1", rules=[rule("disk", "In", "fast", wish=5)], not_before_ms=LATER_MS), UNEQUAL, (), ("a4/0",)),
        (job("1", 2, not_before_ms=LATER_MS), groups(2, 4), ("n1/0", "n1/1"), ("n1/2", "n1/3")),
        (job("1", 2, level="Critical", not_before_ms=LATER_MS), groups(2, 4), ("n1/0", "n1/1"), ("n1/2", "n1/3")),
        (job("1", 3, allow_span=True, not_before_ms=LATER_MS), UNEQUAL, (), ("a3/0", "a3/1", "a4/0")),
    ],
    ids=["bandwidth", "bandwidth of what is released", "wish", "packing", "packing of one that may evict", "span"],
)
def test_the_gpus_named_for_a_later_start_are_those_that_it_gets(waiting, the_pool, held, got):
    nodes = [gpu for gpu in (gpu.uuid for gpu in the_pool.gpus) if gpu.split("/")[0] in held]
    running = [live(f"on {gpu}", gpu, ends=60) for gpu in nodes] or [live(f"on {gpu}", gpu, ends=7200) for gpu in held]
    assert named_and_got(waiting, the_pool, running) == (got, got)
