"""Whom to evict, the slow way: every subset of those that may be evicted, in every place; the cheapest that does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from scheduling.core.lifecycle import JobState
from scheduling.core.policy import Policy
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import LiveAttempt, WaitingJob

from .reference_places import Ground, smallest

Cost = tuple[int, ...]
MOST = 14


def may_evict(policy: Policy, job: WaitingJob) -> bool:
    """Whether any rule lets the job evict others."""
    return any((rule.queue, rule.level) == (job.queue, job.level) for rule in policy.preemption)


def is_evictable(policy: Policy, job: WaitingJob, attempt: LiveAttempt) -> bool:
    """Whether the rules let ``job`` evict this attempt."""
    pairs = {
        (rule.victim_queue, rule.victim_level)
        for rule in policy.preemption
        if (rule.queue, rule.level) == (job.queue, job.level)
    }
    is_running = attempt.state is JobState.RUNNING and attempt.preemptible
    return is_running and (attempt.queue, attempt.level) in pairs and not runs_on(policy, attempt)


def runs_on(policy: Policy, attempt: LiveAttempt) -> bool:
    """Whether it was asked to leave, has not saved since, and is of a queue whose jobs must save before they leave."""
    queue = policy.queue(attempt.queue)
    has_saved = attempt.asked_ms is None or (attempt.saved_ms is not None and attempt.saved_ms > attempt.asked_ms)
    return queue is not None and queue.never_without_checkpoint and not has_saved and not attempt.left


def grace_ms(policy: Policy, queue: str) -> int:
    """How long a victim of this queue may take to save."""
    found = policy.queue(queue)
    return round((found.grace_s if found else 120.0) * 1000)


def save_ms(policy: Policy, attempt: LiveAttempt) -> int:
    """How long the victim is expected to take to save."""
    return round(attempt.save_s * 1000) if attempt.save_s is not None else grace_ms(policy, attempt.queue)


def cost_of(policy: Policy, job: WaitingJob, attempt: LiveAttempt, now_ms: int) -> Cost:
    """What evicting this one costs, most important first; the costs of several are summed part by part."""
    values = sorted({level.value for queue in policy.queues for level in queue.levels}, reverse=True)[:-1]
    started = attempt.started_ms if attempt.started_ms is not None else attempt.granted_ms
    saved = attempt.saved_ms if attempt.saved_ms is not None else started
    shield_ms = max(policy.evict.protect_s, attempt.checkpoint_interval_s) * 1000
    is_protected = now_ms - started < shield_ms or attempt.recent_preemptions >= policy.evict.protect_times
    return (
        int(is_protected),
        *(int(attempt.level_value == value) for value in values),
        int(attempt.queue != job.queue),
        len(attempt.gpus) * (max(0, now_ms - saved) + attempt.restore_s * 1000),
        1,
        10**12 - max(0, attempt.end_ms - now_ms),
    )


@dataclass(frozen=True)
class Scene:
    """What the preemptor may use: ``available`` is free for it now, ``takeable`` are the GPUs of those it may evict."""

    ground: Ground
    policy: Policy
    job: WaitingJob
    now_ms: int
    available: frozenset[str]
    unpinned_free: frozenset[str]
    eligible: frozenset[str]
    takeable: frozenset[str]
    only_rung: str | None
    evictable: tuple[LiveAttempt, ...]

    @property
    def request(self) -> ResourceRequest:
        """What the preemptor asks for."""
        return self.job.request

    def cost(self, victims: Collection[LiveAttempt]) -> Cost:
        """The summed cost of a set, ended by which jobs they are."""
        names = sorted(attempt.job for attempt in self.evictable)
        costs = [
            (*cost_of(self.policy, self.job, attempt, self.now_ms), 1 << names.index(attempt.job))
            for attempt in victims
        ]
        return tuple(sum(parts) for parts in zip(*costs, strict=True))

    def freed(self, victims: Collection[LiveAttempt]) -> frozenset[str]:
        """The GPUs of these that the preemptor could use."""
        return frozenset(uuid for attempt in victims for uuid in attempt.gpus) & self.takeable


@dataclass(frozen=True)
class Eviction:
    """The jobs to evict, by id, and the GPUs to keep: as many free ones as there are, the others of the victims."""

    victims: tuple[LiveAttempt, ...]
    gpus: tuple[str, ...]


def cheapest(scene: Scene, *, is_exclusive: bool) -> Eviction | None:
    """The cheapest set over all places of one node; None when no set suffices."""
    options = []
    for place, (cell, need) in enumerate(_domains(scene, is_exclusive)):
        best = _cover(scene, cell, need)
        if best is not None:
            options.append((scene.cost(best), place, best, cell))
    if not options:
        return None
    _, _, best, cell = min(options, key=lambda option: option[:2])
    return Eviction(best, _kept(scene, best, cell, is_exclusive))


def _domains(scene: Scene, is_exclusive: bool) -> Iterator[tuple[list[str], int]]:
    """Each place with the number of GPUs that are missing in it."""
    ground, request = scene.ground, scene.request
    if is_exclusive:
        for (node, group), cell in ground.cells.items():
            own = [uuid for uuid in cell if uuid in scene.eligible]
            if ground.is_whole_group(node, group) and len(own) >= request.gpus_per_node:
                yield cell, len([uuid for uuid in cell if uuid not in scene.unpinned_free])
    elif request.nvlink_required:
        for (_, group), cell in ground.cells.items():
            if group is not None:
                yield cell, request.gpus_per_node - len(scene.available & set(cell))
    elif request.allow_span:
        yield ground.order, request.gpu_count - len(scene.available)
    else:
        for node in ground.nodes:
            gpus = ground.on(node, ground.gpu)
            yield gpus, request.gpus_per_node - len(scene.available & set(gpus))


def _cover(scene: Scene, cell: Sequence[str], need: int) -> tuple[LiveAttempt, ...] | None:
    inside = [attempt for attempt in scene.evictable if scene.freed([attempt]) & set(cell)]
    sets = [chosen for chosen in _subsets(inside) if len(scene.freed(chosen) & set(cell)) >= need]
    return min(sets, key=scene.cost, default=None)


def _subsets(items: Sequence[LiveAttempt]) -> Iterator[tuple[LiveAttempt, ...]]:
    if len(items) > MOST:
        raise ValueError(f"brute force is for at most {MOST} jobs, not {len(items)}: make the world smaller")
    for size in range(1, len(items) + 1):
        yield from combinations(sorted(items, key=lambda attempt: attempt.job), size)


def _kept(scene: Scene, victims: Sequence[LiveAttempt], cell: Sequence[str], is_exclusive: bool) -> tuple[str, ...]:
    if is_exclusive:
        own = smallest(scene.ground, [uuid for uuid in cell if uuid in scene.eligible], scene.request.gpus_per_node)
        return (*own, *(uuid for uuid in cell if uuid not in own))
    free = [uuid for uuid in cell if uuid in scene.available]
    freed = scene.freed(victims)
    taken = [uuid for uuid in cell if uuid in freed]
    return tuple([*free, *taken][: scene.request.gpu_count])


def could_hold(scene: Scene, gpus: Collection[str]) -> bool:
    """Whether the gang could lie on these GPUs alone, in the places it is allowed to."""
    ground, request = scene.ground, scene.request
    scopes: list[list[list[str]]]
    if request.nvlink_required or "nvlink_group" in (request.required_level, scene.only_rung):
        scopes = [[ground.on(node, gpus, group) for node in ground.nodes] for group in ground.groups]
    else:
        racks = (
            [[rack] for rack in ground.racks] if "rack" in (request.required_level, scene.only_rung) else [ground.racks]
        )
        scopes = [
            [ground.on(node, gpus) for node in ground.nodes if ground.node[node].rack_id in inside] for inside in racks
        ]
    for scope in scopes:
        full = sum(len(on) >= request.gpus_per_node for on in scope)
        some = sum(len(on) >= request.remainder for on in scope)
        if full >= request.node_count and (not request.remainder or some > request.node_count):
            return True
    return False


def cheapest_for_gang(scene: Scene) -> tuple[LiveAttempt, ...] | None:
    """The cheapest set of jobs without which the gang could lie somewhere; None when none suffices."""
    useful = [attempt for attempt in scene.evictable if scene.freed([attempt])]
    sets = [chosen for chosen in _subsets(useful) if could_hold(scene, scene.available | scene.freed(chosen))]
    return min(sets, key=scene.cost, default=None)
