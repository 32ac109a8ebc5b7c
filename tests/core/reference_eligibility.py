"""Which GPUs may a job lie on at all, the slow way: memory, rules, its past, and the jobs that lie around."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scheduling.core.policy import Policy
from scheduling.core.resources import GroupRule
from scheduling.core.snapshot import WaitingJob

from .reference_places import Ground, find


@dataclass(frozen=True)
class Family:
    """A job that lies somewhere, as the rules between jobs see it."""

    job: str
    group: str | None
    apart: GroupRule | None
    gpus: tuple[str, ...]


def suited(ground: Ground, job: WaitingJob) -> set[str]:
    """The installed GPUs that suit the job by memory and rules."""
    enough = {uuid for uuid, gpu in ground.gpu.items() if gpu.memory_mib >= job.request.gpu_memory_min_mib}
    return ground.where(enough, job.request.required_terms)


def eligible(
    ground: Ground, policy: Policy, job: WaitingJob, *, usable: Collection[str], families: Collection[Family]
) -> set[str]:
    """Those that suit it, less those its past and the jobs that lie around keep it from.

    Where it was lost is avoided only as long as the other usable GPUs could hold it if all were free.
    """
    request, able = job.request, fit(ground, policy, job, usable=usable)
    for family in families:
        if request.apart and family.group == request.apart.group:
            able -= around(ground, family, request.apart.level)
        if family.apart and job.group is not None and family.apart.group == job.group:
            able -= around(ground, family, family.apart.level)
    if request.near:
        partners = [family for family in families if family.group == request.near.group]
        if partners or job.group != request.near.group:
            able &= {uuid for family in partners for uuid in around(ground, family, request.near.level)}
    return able


def fit(ground: Ground, policy: Policy, job: WaitingJob, *, usable: Collection[str]) -> set[str]:
    """Those that suit it, less those its past keeps it from."""
    able = suited(ground, job)
    avoided = {uuid for uuid in able if uuid in job.avoid_gpus or ground.gpu[uuid].node in job.avoid_nodes}
    rest = (able & set(usable)) - avoided
    if avoided and find(ground, job.request, policy, free=usable, eligible=rest) is not None:
        able -= avoided
    return able


@dataclass(frozen=True)
class Chance:
    """GPUs on which rules between jobs let it start, from when on, and before when (ms; none told: always)."""

    gpus: frozenset[str]
    opens: Mapping[str, float]
    closes: Mapping[str, float]


def chances(
    ground: Ground, job: WaitingJob, *, able: Collection[str], families: Collection[Family], ends: Mapping[str, float]
) -> list[Chance]:
    """When the jobs that lie around, each gone by its ``ends``, let the job start where."""
    request = job.request
    opens: dict[str, float] = {}
    for family in families:
        levels = [request.apart.level] if request.apart and family.group == request.apart.group else []
        if family.apart and job.group is not None and family.apart.group == job.group:
            levels.append(family.apart.level)
        for uuid in {uuid for level in levels for uuid in around(ground, family, level)}:
            opens[uuid] = max(opens.get(uuid, 0.0), ends[family.job])
    if request.near is None:
        return [Chance(frozenset(able), opens, {})]
    closes: dict[str, float] = {}
    partners = [family for family in families if family.group == request.near.group]
    for family in partners:
        for uuid in around(ground, family, request.near.level):
            closes[uuid] = max(closes.get(uuid, 0.0), ends[family.job])
    beside = [Chance(frozenset(closes) & frozenset(able), opens, closes)] if partners else []
    if job.group != request.near.group:
        return beside
    last = max((ends[family.job] for family in partners), default=0.0)
    alone = Chance(frozenset(able), {uuid: max(opens.get(uuid, 0.0), last) for uuid in able}, {})
    return [*beside, alone]


def around(ground: Ground, family: Family, level: str) -> set[str]:
    """The GPUs in the places of that level in which the job lies."""
    places = {ground.domain(uuid, level) for uuid in family.gpus if uuid in ground.gpu} - {None}
    return {uuid for uuid in ground.gpu if ground.domain(uuid, level) in places}
