"""Property 17: what is said of a waiting job is true. Each change it is offered is made, and the job starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from scheduling.core.decide import decide
from scheduling.core.plan import Plan
from scheduling.core.snapshot import Snapshot, WaitingJob

from .random_worlds import ROOMY, TIGHT, UNSAVED, URGENT, Taste, a_world

TASTES = (Taste(silence=True), ROOMY, TIGHT, URGENT)


@cache
def cases() -> tuple[tuple[int, Snapshot, Plan], ...]:
    """Worlds of all tastes with their plans."""
    worlds = [(seed, a_world(Random(9000 + seed), TASTES[seed % len(TASTES)])) for seed in range(160)]
    worlds += [(seed, a_world(Random(9000 + seed), UNSAVED)) for seed in range(160, 180)]
    return tuple((seed, world, decide(world)) for seed, world in worlds)


def smaller(job: WaitingJob, name: str, value: int) -> WaitingJob | None:
    """The job with the change it was offered; None for a number that offers none."""
    request = job.request
    changed: dict[str, dict[str, object]] = {
        "gpus_at_most": {"gpu_count": value * request.node_count, "gpus_per_node": value, "remainder": 0},
        "nodes_at_most": {"node_count": value, "gpu_count": value * request.gpus_per_node, "remainder": 0},
        "memory_at_most_mib": {"gpu_memory_min_mib": value},
        "without_exclusive": {"nvlink_exclusive": False},
        "without_nvlink": {"nvlink_required": False, "nvlink_exclusive": False},
        "without_level": {"required_level": None},
        "without_rule": {"affinity": request.preferred_terms},
        "without_anti_affinity": {"apart": None},
        "without_with": {"near": None},
        "without_neighbours": {"near": None, "apart": None},
    }
    if name.startswith("without_group"):
        rule = name.removeprefix("without_group").removeprefix("_and_")
        return replace(smaller(job, f"without_{rule}", value) if rule else job, group=None)
    if name == "duration_at_most_s":
        return replace(job, remaining_s=value)
    return replace(job, request=replace(request, **changed[name])) if name in changed else None


def offers() -> Iterator[tuple[int, Snapshot, WaitingJob, str, WaitingJob]]:
    """Every change offered in any of the worlds."""
    for seed, world, plan in cases():
        for hold in plan.holds:
            job = next(job for job in world.waiting if job.id == hold.job)
            for name, value in (pair for reason in hold.reasons for pair in reason.numbers):
                changed = smaller(job, name, value) if isinstance(value, int) else None
                if changed is not None:
                    yield seed, world, job, name, changed


def test_property_17_with_the_change_it_is_offered_the_job_starts():
    kinds = set()
    for seed, world, job, name, changed in offers():
        others = tuple(each for each in world.waiting if each.id != job.id)
        started = [start.job for start in decide(replace(world, waiting=(*others, changed))).starts]
        assert job.id in started, f"seed {seed}: {job.id} with {name}"
        kinds.add(name)
    seen = {
        "gpus_at_most",
        "nodes_at_most",
        "without_nvlink",
        "memory_at_most_mib",
        "duration_at_most_s",
        "without_with",
        "without_exclusive",
    }
    assert seen <= kinds


def test_property_17_what_is_offered_is_less_than_was_asked():
    for seed, _, job, name, changed in offers():
        assert changed != job, f"seed {seed}: {job.id} with {name}"


def test_every_waiting_job_that_has_not_started_has_a_reason_and_a_rank():
    for seed, world, plan in cases():
        gone = {each.job for each in (*plan.starts, *plan.expired)}
        held = [hold.job for hold in plan.holds if hold.reasons and all(reason.message for reason in hold.reasons)]
        assert sorted(held) == sorted(job.id for job in world.waiting if job.id not in gone), f"seed {seed}"
        assert [hold.rank for hold in plan.holds] == list(range(1, len(held) + 1)), f"seed {seed}"


CODES = (
    "BUSY",
    "FRAGMENTED",
    "GANG_NODES",
    "RESERVED",
    "WINDOW",
    "RULE",
    "NO_PARTNER",
    "PARTNER_LEAVES",
    "PREEMPTING",
    "NO_VICTIMS",
    "AS_SOON",
    "NOT_SAVED",
    "UNHEALTHY_CAPACITY",
    "NOT_BEFORE",
    "BEHIND",
    "EXPIRES",
)


@pytest.mark.parametrize("code", CODES)
def test_the_random_worlds_show_every_reason(code):
    assert any(reason.code == code for _, _, plan in cases() for hold in plan.holds for reason in hold.reasons)
