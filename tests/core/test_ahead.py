"""How many jobs, and how much work, are ahead of a job is what sorting the whole queue says."""

from __future__ import annotations

from random import Random

from scheduling.core.explain import Explainer
from scheduling.core.ordering import rank_key
from scheduling.core.scheduler import Scheduler

from .random_worlds import Taste, a_world


def test_who_is_ahead_is_told_as_by_sorting_the_queue():
    looked_at = 0
    for seed in range(40):
        world = a_world(Random(seed), Taste(jobs=25, running=12, nominations=False))
        scheduler = Scheduler(world)
        scheduler.cycle(world.now_ms)
        explainer, waiting = Explainer(scheduler), scheduler.waiting.by_id.values()
        ranked = sorted(waiting, key=lambda queued: rank_key(queued.job, scheduler.share))
        work = 0
        for place, queued in enumerate(ranked, 1):
            assert explainer.ahead_of(queued) == (place, work), f"seed {seed}: {queued.id}"
            work += 0 if explainer.is_promised(queued) else queued.job.request.gpu_count * queued.duration_ms
            looked_at += 1
    assert looked_at >= 100
