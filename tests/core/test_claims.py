"""GPUs that waiting jobs with required rules can't do without are taken last by those who can go elsewhere (D16)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.core import claims
from scheduling.core.decide import decide

from .build import gpus, job, live, loose, order_of, patient, places_of, pool, rule, world

OLD, NEW = rule("gpu_model", "In", "OLD"), rule("gpu_model", "In", "NEW")
EITHER = rule("gpu_model", "In", "OLD", "MID")


def kinds(**counts: int):
    """One node of so many GPUs for each model: the older, the less memory; they are taken first (D16)."""
    memory = {"OLD": "16GB", "MID": "32GB", "NEW": "80GB"}
    return pool(*(gpus(model.lower(), counts.get(model, 0), model=model, memory=memory[model]) for model in memory))


def placed(the_pool, *jobs, **more) -> dict[str, str]:
    """The node of each job that starts."""
    found = places_of(decide(world(the_pool, *jobs, **more)))
    return {name: held[0].split("/")[0] for name, held in found.items()}


def test_without_rules_the_smallest_memory_is_taken_first():
    assert placed(kinds(OLD=1, NEW=1), job("any", at=1)) == {"any": "old"}


def test_who_can_go_anywhere_leaves_the_gpu_that_another_must_have():
    jobs = [job("any", at=1), job("picky", at=2, rules=[OLD])]
    assert placed(kinds(OLD=1, NEW=1), *jobs) == {"any": "new", "picky": "old"}


def test_he_takes_it_as_long_as_enough_are_left():
    jobs = [job("any", at=1), job("picky", at=2, rules=[OLD])]
    assert placed(kinds(OLD=2, NEW=1), *jobs) == {"any": "old", "picky": "old"}


def test_he_takes_it_when_he_could_not_start_otherwise():
    jobs = [job("any", at=1), job("picky", at=2, rules=[OLD])]
    assert placed(kinds(OLD=1), *jobs) == {"any": "old"}


def test_rules_that_lie_within_another_are_counted_with_it():
    """Both GPUs of the two that suit EITHER are needed, though neither rule needs both."""
    jobs = [job("any", at=1), job("either", at=2, rules=[EITHER]), job("picky", at=3, rules=[OLD])]
    assert placed(kinds(OLD=1, MID=1, NEW=1), *jobs) == {"any": "new", "either": "mid", "picky": "old"}


def test_who_has_a_rule_gives_way_to_a_narrower_one():
    jobs = [job("either", at=1, rules=[EITHER]), job("picky", at=2, rules=[OLD])]
    assert placed(kinds(OLD=1, MID=1), *jobs) == {"either": "mid", "picky": "old"}


def test_who_has_the_same_rule_gives_way_to_nobody():
    jobs = [job("1", at=1, rules=[OLD]), job("2", at=2, rules=[OLD])]
    assert placed(kinds(OLD=1, NEW=1), *jobs) == {"1": "old"}


def test_a_job_of_several_gpus_counts_with_all_of_them():
    jobs = [job("any", 2, at=1), job("picky", at=2, rules=[OLD])]
    assert placed(kinds(OLD=2, NEW=2), *jobs) == {"any": "new", "picky": "old"}


def test_jobs_that_may_not_start_yet_claim_nothing():
    jobs = [job("any", at=1), job("picky", at=2, rules=[OLD], not_before_ms=20_000)]
    assert placed(kinds(OLD=1, NEW=1), *jobs) == {"any": "old"}


@pytest.mark.parametrize(("prefer", "node"), [("whole_groups", "old"), ("smallest_memory", "new"), ("best_fit", "new")])
def test_whole_groups_are_kept_whole_before_claims_are_minded(prefer, node):
    """A group of four would be broken for it; only where memory comes first it is."""
    groups = pool(gpus("old", 2, memory="16GB", model="OLD"), gpus("new", 4, group="g", model="NEW"))
    jobs = [job("any", at=1), job("picky", 2, at=2, rules=[OLD])]
    assert placed(groups, *jobs, policy=replace(patient(), prefer=prefer))["any"] == node


def test_more_rules_than_are_weighed_are_not_weighed(monkeypatch):
    monkeypatch.setattr(claims, "MAX_CLAIMS", 1)
    jobs = [job("any", at=1), job("old", at=2, rules=[OLD]), job("new", at=3, rules=[NEW])]
    assert placed(kinds(OLD=1, MID=1, NEW=1), *jobs) == {"any": "old", "new": "new"}


def test_claims_change_nothing_about_who_starts_next():
    jobs = [job("any", at=1), job("picky", at=2, rules=[OLD])]
    running = [live("r", "old/0")]
    assert order_of(decide(world(kinds(OLD=1, NEW=1), *jobs, running=running))) == ["any"]
    assert order_of(decide(world(loose(1), *jobs))) == ["any"]
