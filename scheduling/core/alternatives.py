"""What would help? Changes of a request under which it would start now, each of them tried on the free GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from scheduling.core.backfill import longest_now
from scheduling.core.best_rung import best_rung
from scheduling.core.bookings import Bookings
from scheduling.core.groups import Groups
from scheduling.core.halving import largest_that
from scheduling.core.placement import find
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Room, Wanted
from scheduling.core.units import gb
from scheduling.core.waiting import Queued
from scheduling.core.words import RUNGS_IN_WORDS, duration_in_words, gpus_in_words, nodes_in_words

TO_ACT_S = 60


@dataclass(frozen=True, slots=True)
class Alternative:
    """A changed request that would start at once, or at ``starts_ms`` at the soonest: the change in words, by name, and
    the changed number (of a gang the GPUs on each node, or the nodes; 0 where no single number tells it)."""

    name: str
    value: int
    words: str
    request: ResourceRequest
    duration_s: int
    starts_ms: int | None = None

    @property
    def phrase(self) -> str:
        """The change as the end of "It would start now"."""
        return self.words if self.words.startswith("without ") else f"with {self.words}"


def hint(changes: Iterable[Alternative]) -> str:
    """The changes as a sentence that follows another; nothing when none would help."""
    phrases = ", or ".join(change.phrase for change in changes)
    return f" It would start now {phrases}." if phrases else ""


def alternatives(
    room: Room, bookings: Bookings, queued: Queued, *, groups: Groups, all_exclusive: bool, over_nodes: bool = False
) -> Iterator[Alternative]:
    """Every kind of change that helps, as small as it can be. ``groups``: the jobs that run beside and apart now;
    ``over_nodes``: whether jobs of its kind may lie on several nodes."""
    if not room.free_count:
        return
    request, seconds = queued.job.request, queued.duration_ms // 1000
    wanted = queued.shape.wanted
    pins = bookings.pins(queued.owner[1], queued.duration_ms)

    def starts(changed: ResourceRequest, group: str | None) -> bool:
        # The cheap answers for most: whatever is promised, and to whom.
        if changed.gpu_count > room.free_count or find(room, Wanted(changed)) is None:
            return False
        tried = Wanted(
            changed, avoid_gpus=wanted.avoid_gpus, avoid_nodes=wanted.avoid_nodes, all_exclusive=all_exclusive
        )
        tried.confined = wanted.confined
        tried.strict = wanted.strict and changed.is_gang and changed.max_wait_for_level_s is not None
        if tried.strict:  # fewer nodes, or none of its rules, may have a better rung to hold out for
            tried.best_rung = best_rung(room.pool, changed)
        if (changed.near, changed.apart, group) != (request.near, request.apart, queued.job.group):
            tried.confined = groups.confined(changed, group)
        return find(room, tried, pins) is not None

    shorter = longest_now(room, bookings, wanted, queued.owner[1])
    limit = usable_s(shorter)
    if shorter < queued.duration_ms and limit:
        words = f"a time limit of at most {duration_in_words(limit)}"
        yield Alternative("duration_at_most_s", limit, words, request, limit)
    kinds = changes_that(room, request, lambda changed: starts(changed, queued.job.group), over_nodes=over_nodes)
    for name, value, words, changed in kinds:
        yield Alternative(name, value, words, changed, seconds)
    if wanted.confined is None:
        return
    loosened = [each for each in loosened_neighbours(request) if starts(each[2], queued.job.group)]
    least = [each for each in loosened if each[0] != "without_neighbours"] or loosened
    for name, words, changed in least:
        yield Alternative(name, 1, words, changed, seconds)
    if loosened or queued.job.group is None:
        return
    alone = f"without being of group {queued.job.group}"
    if starts(request, None):
        yield Alternative("without_group", 1, alone, request, seconds)
        return
    for name, words, changed in loosened_neighbours(request):
        if starts(changed, None):
            both = f"without_group_and_{name.removeprefix('without_')}"
            yield Alternative(both, 1, f"{words} and {alone}", changed, seconds)
            return


def loosened_neighbours(request: ResourceRequest) -> Iterator[tuple[str, str, ResourceRequest]]:
    """The request without one of its rules about groups of jobs, and at last without both."""
    near, apart = request.near, request.apart
    if apart is not None:
        yield "without_anti_affinity", f"without keeping away from group {apart.group}", replace(request, apart=None)
    if near is not None:
        yield "without_with", f"without having to run beside group {near.group}", replace(request, near=None)
    if near is not None and apart is not None:
        yield "without_neighbours", "without its rules about groups of jobs", replace(request, near=None, apart=None)


def loosened_topology(request: ResourceRequest) -> Iterator[tuple[str, str, ResourceRequest]]:
    """The request without one of the things it asks of how its GPUs lie."""
    if request.nvlink_exclusive:
        yield "without_exclusive", "an NVLink group shared with other jobs", replace(request, nvlink_exclusive=False)
    if request.nvlink_required:
        loose = replace(request, nvlink_required=False, nvlink_exclusive=False)
        yield "without_nvlink", "no need for NVLink", loose
    if request.required_level is not None:
        words = f"no need for {RUNGS_IN_WORDS[request.required_level]}"
        yield "without_level", words, replace(request, required_level=None)
    if request.max_wait_for_level_s is not None and request.is_gang:
        yield "without_waiting", "without holding out for its level", replace(request, max_wait_for_level_s=None)
    if request.required_terms:
        yield "without_rule", "without its required rules", replace(request, affinity=request.preferred_terms)


Fits = Callable[[ResourceRequest], bool]


def spread(request: ResourceRequest) -> ResourceRequest | None:
    """The request of one node with its GPUs on any nodes; None where something that it asks for is against it."""
    if request.is_gang or request.allow_span or request.gpu_count == 1:
        return None
    bound = request.nvlink_required or request.required_level is not None
    return None if bound else replace(request, allow_span=True, max_wait_for_level_s=None)


def changes_that(
    room: Room, request: ResourceRequest, fits: Fits, *, over_nodes: bool
) -> Iterator[tuple[str, int, str, ResourceRequest]]:
    """The smallest change of each kind with which the request ``fits``, and the things less to ask of places.

    Counts and memory go down to the first that fits. Whatever fits with some GPUs does so with fewer.
    """
    yield from _of_fewer_nodes(request, fits) if request.is_gang else _of_fewer_gpus(request, fits)
    anywhere = spread(request) if over_nodes else None
    if anywhere is not None and fits(anywhere):
        yield "spread", 1, "GPUs spread over any nodes", anywhere
    for name, words, loose in loosened_topology(request):
        if fits(loose):
            yield name, int(name != "without_waiting"), words, loose
    for size in reversed([size for size in room.inventory.memory_sizes if size < request.gpu_memory_min_mib]):
        smaller = replace(request, gpu_memory_min_mib=size)
        if fits(smaller):
            yield "memory_at_most_mib", size, f"a need for at most {gb(size)} of memory per GPU", smaller
            break


def _of_fewer_gpus(request: ResourceRequest, fits: Fits) -> Iterator[tuple[str, int, str, ResourceRequest]]:
    def of(count: int) -> ResourceRequest:
        return replace(request, gpu_count=count, gpus_per_node=count)

    most = largest_that(lambda count: fits(of(count)), request.gpu_count - 1)
    if most:
        yield "gpus_at_most", most, f"at most {gpus_in_words(most)}", of(most)


def _of_fewer_nodes(request: ResourceRequest, fits: Fits) -> Iterator[tuple[str, int, str, ResourceRequest]]:
    """Fewer nodes, and fewer GPUs on each; where neither alone helps, the most GPUs with fewer of both."""
    nodes, each = request.node_count, request.gpus_per_node
    fewer_nodes = largest_that(lambda count: fits(_gang(request, count, each)), nodes - (not request.remainder))
    if fewer_nodes:
        words = f"at most {nodes_in_words(fewer_nodes)}"
        yield "nodes_at_most", fewer_nodes, words, _gang(request, fewer_nodes, each)
    fewer_gpus = _most_on_each(request, nodes, fits)
    if fewer_gpus:
        words = f"at most {gpus_in_words(fewer_gpus)} on each node"
        yield "gpus_at_most", fewer_gpus, words, _gang(request, nodes, fewer_gpus)
    if fewer_nodes or fewer_gpus:
        return
    both = [(nodes * each, nodes, each) for nodes, each in _steps(request, fits)]
    if both:
        _, fewer_nodes, fewer_gpus = max(both)
        words = f"at most {gpus_in_words(fewer_gpus)} on {'each of ' if fewer_nodes > 1 else ''}"
        words += nodes_in_words(fewer_nodes)
        yield "less_on_fewer_nodes", 0, words, _gang(request, fewer_nodes, fewer_gpus)


def _steps(request: ResourceRequest, fits: Fits) -> Iterator[tuple[int, int]]:
    """(nodes, GPUs on each): for each fewer nodes the most GPUs that fit. On fewer nodes there are no fewer."""
    each = 0
    for nodes in range(request.node_count - 1, 0, -1):
        while each < request.gpus_per_node - 1 and fits(_gang(request, nodes, each + 1)):
            each += 1
        if each:
            yield nodes, each


def _most_on_each(request: ResourceRequest, nodes: int, fits: Fits) -> int:
    """The most GPUs, fewer than it asks for, on each of so many nodes with which it fits; 0 for none."""
    return largest_that(lambda count: fits(_gang(request, nodes, count)), request.gpus_per_node - 1)


def _gang(request: ResourceRequest, nodes: int, each: int) -> ResourceRequest:
    return replace(request, node_count=nodes, gpus_per_node=each, gpu_count=nodes * each, remainder=0)


def usable_s(longest_ms: int) -> int:
    """The time limit to advise, in seconds, where so long a duration fits now; 0 for none.

    What fits shrinks with every second: a minute is left to read, to act and to be decided on. The rest is rounded
    down, to ten seconds and from an hour on to minutes, so that the advice is not another at every look.
    """
    seconds = longest_ms // 1000 - TO_ACT_S
    step = 60 if seconds >= 3600 else 10
    return max(0, seconds // step * step)
