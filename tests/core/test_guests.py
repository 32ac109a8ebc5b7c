"""A plan of one job more changes nothing that is told of others, whoever asks for it and whenever."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from scheduling.core.estimate import estimate
from scheduling.core.explain import Explainer
from scheduling.core.preview import preview
from scheduling.core.scheduler import Scheduler

from .build import job, live, loose, world
from .random_worlds import TIGHT, a_job, a_world


def looked_at(snapshot):
    scheduler = Scheduler(snapshot)
    scheduler.cycle(snapshot.now_ms)
    return scheduler, Explainer(scheduler)


def told(scheduler, explainer):
    """What is told of every job of the queue."""
    return {
        name: (explainer.ahead_of(queued), estimate(scheduler, explainer, queued), explainer.of_queued(queued))
        for name, queued in scheduler.waiting.by_id.items()
    }


@pytest.mark.parametrize("owner", [{"project": "beta", "user": "bob"}, {"queue": "eval"}])
def test_a_plan_of_an_owner_with_no_work_leaves_the_places_of_the_others(owner):
    waiting = [job(f"w{n}", 2, at=n) for n in (1, 2, 3)]
    snapshot = world(loose(2), *waiting, running=[live("r", "n0/0", "n0/1", project="A")])
    expected = told(*looked_at(snapshot))
    assert [ahead for (ahead, _), _, _ in expected.values()] == [1, 2, 3]
    scheduler, explainer = looked_at(snapshot)
    preview(scheduler, explainer, job("more", 2, at=9, **owner))
    assert told(scheduler, explainer) == expected


@pytest.mark.parametrize("seed", range(20))
def test_what_is_told_of_a_job_does_not_depend_on_what_was_planned_or_told_before(seed):
    dice = Random(seed)
    snapshot = a_world(dice, TIGHT)
    more = [a_job(dice, f"more-{n}", TIGHT) for n in range(3)]
    more = [replace(each, **dice.choice([{}, {"user": "new"}, {"project": "new", "user": "new"}])) for each in more]
    expected = told(*looked_at(snapshot))
    previews = [preview(*looked_at(snapshot), each) for each in more]
    scheduler, explainer = looked_at(snapshot)
    if dice.random() < 0.5:
        told(scheduler, explainer)
    for each, alone in zip(more, previews, strict=True):
        assert preview(scheduler, explainer, each) == alone
        assert told(scheduler, explainer) == expected
