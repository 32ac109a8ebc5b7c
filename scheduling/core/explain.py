"""Why does it wait? Reasons with numbers, and changes under which it would start now, each of them tried.

Everything but the rank is the same for jobs of one fit class, so a cycle asks once per class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduling.core.feasibility import spelled, suitable
from scheduling.core.placement import fits
from scheduling.core.plan import Number, Reason, Start
from scheduling.core.pool import Gpu, Pool
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import WaitingJob
from scheduling.core.units import gb

# Estimates are rounded up to this, so that a reason does not change with every tick.
ESTIMATE_STEP_MS = 60_000
Numbers = tuple[tuple[str, Number], ...]


@dataclass(frozen=True)
class Scene:
    """What the cycle leaves behind.

    ``usable``: GPUs that may get work, held or not. ``before`` and ``after``: free ones at its start and end.
    ``returning``: those taken back in it, free from the next one on. ``releases``: by which instant each held GPU
    is free at the latest.
    """

    pool: Pool
    usable: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]
    returning: frozenset[str]
    releases: Mapping[str, int]


def starting_soon(taken_back: int = 0) -> Reason:
    """The reason of a job that nothing hinders: the next pass of the scheduler starts it."""
    if not taken_back:
        return Reason("STARTING", "Starting soon: the next pass of the scheduler looks at it.")
    message = f"Starting soon: {_gpus(taken_back)} just taken back become free with the next pass of the scheduler."
    return Reason("STARTING", message, (("taken_back", taken_back),))


def backing_off(job: WaitingJob) -> Reason:
    """The reason of a job that waits out the pause after an infrastructure failure (D13)."""
    message = "Waits a while after an infrastructure failure; then it is placed like any other."
    return Reason("BACKOFF", message, (("until_ms", job.eligible_at_ms),))


def behind(first: str) -> Reason:
    """The reason of a job that would have fitted before this cycle; ``first`` started ahead of it."""
    message = "It would fit, but jobs ahead of it in the queue took the GPUs in this pass."
    return Reason("BEHIND", message, (("first", first),))


def reasons(
    scene: Scene, request: ResourceRequest, *, excluded: frozenset[str], starts: Sequence[Start]
) -> tuple[Reason, ...]:
    """Why a job of this request was not placed. ``excluded``: GPUs it avoids; ``starts``: what this cycle placed."""
    hopeless = _never_now(scene, request)
    if hopeless is not None:
        return (hopeless,)
    eligible = suitable(scene.pool, request) - excluded
    if scene.returning and fits(scene.pool, request, free=scene.after | scene.returning, eligible=eligible):
        return (starting_soon(len(scene.returning)),)
    found: list[Reason] = []
    first = next((start.job for start in starts if not eligible.isdisjoint(start.gpus)), None)
    if first is not None and fits(scene.pool, request, free=scene.before, eligible=eligible):
        found.append(behind(first))
    found.append(_only_a_rule(scene, request, excluded) or _short(scene, request, excluded))
    return tuple(found)


def _never_now(scene: Scene, request: ResourceRequest) -> Reason | None:
    """The reason when even an empty pool would not do, as it is installed or as it is healthy."""
    pool, wanted = scene.pool, _wanted(request)
    if not pool.nodes:
        return Reason("NO_NODES", f"No node is registered. The job wants {wanted} and waits for the first nodes.")
    suited, installed = suitable(pool, request), frozenset(pool.cell_index)
    if not fits(pool, request, free=installed, eligible=suited):
        bare = replace(request, affinity=request.preferred_terms)
        if request.required_terms and fits(pool, bare, free=installed, eligible=suitable(pool, bare)):
            return _rule(request, f"The pool has {wanted}, but none where the required rules hold")
        numbers: Numbers = (("need", request.gpu_count), ("installed", _most(pool, request, suited)))
        return Reason("NO_INVENTORY", f"The pool no longer has {wanted} installed; more must be added.", numbers)
    if not fits(pool, request, free=scene.usable, eligible=suited):
        most = _most(pool, request, suited & scene.usable)
        numbers = (("need", request.gpu_count), ("healthy", most), ("installed", _most(pool, request, suited)))
        message = f"The pool has {wanted}, but too few of them are healthy and on nodes that take work: {most} at most."
        return Reason("UNHEALTHY_CAPACITY", message, numbers)
    return None


def _only_a_rule(scene: Scene, request: ResourceRequest, excluded: frozenset[str]) -> Reason | None:
    if not request.required_terms:
        return None
    bare = replace(request, affinity=request.preferred_terms)
    if not fits(scene.pool, bare, free=scene.after, eligible=suitable(scene.pool, bare) - excluded):
        return None
    return _rule(request, "It would start now on other GPUs, but the required rules don't hold there")


def _rule(request: ResourceRequest, why: str) -> Reason:
    rules = "; ".join(spelled(term) for term in request.required_terms)
    return Reason("RULE", f"{why}: {rules}.", (("rules", rules),))


def _short(scene: Scene, request: ResourceRequest, excluded: frozenset[str]) -> Reason:
    """BUSY when fewer suitable GPUs are free than needed, FRAGMENTED when enough are but in no single place."""
    eligible = suitable(scene.pool, request) - excluded
    domains = list(_domains(scene, request, eligible))
    need, free = request.gpu_count, len(scene.after & eligible)
    nearest = min(domains, key=lambda domain: domain.short)
    changes = tuple(_changes(scene, request, excluded))
    numbers: Numbers = (
        ("need", need),
        ("free", free),
        ("best_domain", nearest.name),
        ("best_free", nearest.free),
        ("short", nearest.short),
        *_earliest(domains),
        *((key, value) for key, value, _ in changes),
    )
    hint = f" It would start now with {', or '.join(text for _, _, text in changes)}." if changes else ""
    place, want = _place_word(request), _wanted(request)
    if free >= need:
        message = f"Enough GPUs are free ({free}), but not in one {place}: {nearest.name} is {nearest.short} short."
        return Reason("FRAGMENTED", f"{message} It needs {want}.{hint}", numbers)
    message = f"Needs {want}; {free} suitable free. The nearest {place} is {nearest.name}, {nearest.short} short."
    return Reason("BUSY", message + hint, numbers)


@dataclass(frozen=True, slots=True)
class _Domain:
    """A place that could hold the request when empty: GPUs free in it, how many are short, by when enough are free."""

    name: str
    free: int
    short: int
    enough_at_ms: int


def _domains(scene: Scene, request: ResourceRequest, eligible: frozenset[str]) -> Iterator[_Domain]:
    usable = eligible & scene.usable
    for name, members in _places(scene.pool, request):
        suited = [gpu for gpu in members if gpu.uuid in usable]
        if request.nvlink_exclusive:
            if any(gpu.uuid not in scene.usable for gpu in members) or len(suited) < request.gpus_per_node:
                continue
            suited, need = list(members), len(members)
        else:
            need = request.gpus_per_node
        if len(suited) < need:
            continue
        times = sorted(0 if gpu.uuid in scene.after else scene.releases[gpu.uuid] for gpu in suited)
        free = times.count(0)
        yield _Domain(name, free, need - free, times[need - 1])


def _places(pool: Pool, request: ResourceRequest) -> list[tuple[str, tuple[Gpu, ...]]]:
    """The boundaries a job of this request may not cross, by name, in canonical order."""
    if request.nvlink_exclusive:
        return [(cell.group, cell.gpus) for cell in pool.cells if cell.group is not None and cell.whole_group]
    if request.nvlink_required:
        return [(cell.group, cell.gpus) for cell in pool.cells if cell.group is not None]
    return list(pool.by_node.items())


def _earliest(domains: Sequence[_Domain]) -> Numbers:
    """Where and when, by the ``max_duration`` of what runs, enough GPUs of one place are free."""
    soonest = min(domains, key=lambda domain: domain.enough_at_ms)
    rounded = -(-soonest.enough_at_ms // ESTIMATE_STEP_MS) * ESTIMATE_STEP_MS
    return (("earliest_domain", soonest.name), ("earliest_at_ms", rounded))


def _changes(scene: Scene, request: ResourceRequest, excluded: frozenset[str]) -> Iterator[tuple[str, Number, str]]:
    """Changes of the request with which it was placed on a copy of what is free: key, value and words."""

    def would_start(changed: ResourceRequest) -> bool:
        return fits(scene.pool, changed, free=scene.after, eligible=suitable(scene.pool, changed) - excluded)

    for count in range(request.gpu_count - 1, 0, -1):
        if would_start(replace(request, gpu_count=count, gpus_per_node=count)):
            yield "gpus_at_most", count, f"at most {_gpus(count)}"
            break
    if request.nvlink_required and would_start(replace(request, nvlink_required=False, nvlink_exclusive=False)):
        yield "without_nvlink", 1, "no need for NVLink"
    sizes = {gpu.memory_mib for gpu in scene.pool.installed if gpu.uuid in scene.after}
    for size in sorted((size for size in sizes if size < request.gpu_memory_min_mib), reverse=True):
        if would_start(replace(request, gpu_memory_min_mib=size)):
            yield "memory_at_most_mib", size, f"gpu_memory_min of at most {gb(size)}"
            break


def _most(pool: Pool, request: ResourceRequest, among: frozenset[str]) -> int:
    """The most GPUs ``among`` these that one place has."""
    return max((sum(gpu.uuid in among for gpu in gpus) for _, gpus in _places(pool, request)), default=0)


def _wanted(request: ResourceRequest) -> str:
    memory = f" with at least {gb(request.gpu_memory_min_mib)}" if request.gpu_memory_min_mib else ""
    whole = ", the whole group for itself" if request.nvlink_exclusive else ""
    return f"{_gpus(request.gpu_count)}{memory} in one {_place_word(request)}{whole}"


def _place_word(request: ResourceRequest) -> str:
    return "NVLink group" if request.nvlink_required else "node"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
