"""What would help? Changes of a request under which it would start now, each of them tried on the free GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from scheduling.core.backfill import longest_now
from scheduling.core.best_rung import best_rung
from scheduling.core.bookings import Bookings
from scheduling.core.groups import Groups
from scheduling.core.halving import largest_by_halves, largest_that
from scheduling.core.placement import fits
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Pins, Room, Wanted
from scheduling.core.units import gb
from scheduling.core.waiting import Queued
from scheduling.core.words import RUNGS_IN_WORDS, duration_in_words, gpus_in_words, nodes_in_words

# Of a duration that fits now a quarter is left to read, to act and to be decided on; so many seconds at least and at
# most.
TO_ACT_S = (10, 60)


@dataclass(frozen=True, slots=True)
class Alternative:
    """A changed request that would start at once, or at ``starts_ms`` at the soonest: the change in words, by name, and
    the changed number (of a gang the GPUs on each node, or the nodes; 0 where no single number tells it). ``expected``:
    ``starts_ms`` is not the soonest, but when it starts if nothing else comes and all runs to its time limit."""

    name: str
    value: int
    words: str
    request: ResourceRequest
    duration_s: int
    starts_ms: int | None = None
    expected: bool = False

    @property
    def phrase(self) -> str:
        """The change as the end of "It would start now"."""
        return self.words if self.words.startswith("without ") else f"with {self.words}"


def hint(changes: Iterable[Alternative]) -> str:
    """The changes as a sentence that follows another; nothing when none would help."""
    phrases = ", or ".join(change.phrase for change in changes)
    return f" It would start now {phrases}." if phrases else ""


class _Now:
    """Which changed requests of a job would start now, past the ``pins``."""

    def __init__(self, room: Room, queued: Queued, pins: Pins, *, groups: Groups, all_exclusive: bool) -> None:
        self._room, self._queued, self._pins, self._groups = room, queued, pins, groups
        self._all_exclusive = all_exclusive
        self._is_confined = queued.shape.wanted.confined is not None or queued.job.is_careful

    def starts(self, changed: ResourceRequest) -> bool:
        """Whether the job would start so."""
        return self.starts_in(changed, self._queued.job.group)

    def starts_in(self, changed: ResourceRequest, group: str | None) -> bool:
        """Whether the job would start so if it was of that group."""
        room, job, wanted = self._room, self._queued.job, self._queued.shape.wanted
        if changed.gpu_count > room.free_count:
            return False
        is_moved = (changed.near, changed.apart, group) != (job.request.near, job.request.apart, job.group)
        if (is_moved or self._is_confined) and not fits(room, Wanted(changed)):  # where it may lie is dear to find
            return False
        tried = Wanted(
            changed, avoid_gpus=wanted.avoid_gpus, avoid_nodes=wanted.avoid_nodes, all_exclusive=self._all_exclusive
        )
        tried.confined = wanted.confined
        tried.strict = wanted.strict and changed.is_gang and changed.max_wait_for_level_s is not None
        if tried.strict:  # fewer nodes, or none of its rules, may have a better rung to hold out for
            tried.best_rung = best_rung(room.pool, changed)
        if is_moved:
            tried.confined = self._groups.confined(changed, group)
        return fits(room, tried, self._pins)


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
    now = _Now(room, queued, pins, groups=groups, all_exclusive=all_exclusive)
    shorter = longest_now(room, bookings, wanted, queued.owner[1])
    limit = usable_s(shorter)
    if shorter < queued.duration_ms and limit:
        words = f"a time limit of at most {duration_in_words(limit)}"
        yield Alternative("duration_at_most_s", limit, words, request, limit)
    reaches = now.starts if is_easier_with_less(request) else None
    kinds = changes_that(room, request, now.starts, over_nodes=over_nodes, reaches=reaches)
    for name, value, words, changed in kinds:
        yield Alternative(name, value, words, changed, seconds)
    if wanted.confined is None:
        return
    loosened = [each for each in loosened_neighbours(request) if now.starts(each[2])]
    least = [each for each in loosened if each[0] != "without_neighbours"] or loosened
    for name, words, changed in least:
        yield Alternative(name, 1, words, changed, seconds)
    if loosened or queued.job.group is None:
        return
    alone = f"without being of group {queued.job.group}"
    if now.starts_in(request, None):
        yield Alternative("without_group", 1, alone, request, seconds)
        return
    for name, words, changed in loosened_neighbours(request):
        if now.starts_in(changed, None):
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


def is_easier_with_less(request: ResourceRequest) -> bool:
    """Whether places that hold the request hold it with fewer GPUs or nodes as well.

    A gang may hold out for a better rung with less, or as a job of one node need a whole group.
    """
    return not request.is_gang or (request.max_wait_for_level_s is None and not request.nvlink_required)


def changes_that(
    room: Room, request: ResourceRequest, fits: Fits, *, over_nodes: bool, reaches: Fits | None = None
) -> Iterator[tuple[str, int, str, ResourceRequest]]:
    """The smallest change of each kind with which the request ``fits``, and the things less to ask of places.

    Counts and memory go down to the first that fits. Whatever fits with some GPUs does so with fewer. ``reaches``: what
    is true of all requests that fit, and, where it is true of one, of every smaller one: with it few are tried, and
    what fits is the largest that it is true of, or none.
    """
    tries = _Tries(fits, reaches)
    yield from _of_fewer_nodes(request, tries) if request.is_gang else _of_fewer_gpus(request, tries)
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


@dataclass(frozen=True, slots=True)
class _Tries:
    """Which requests fit, as :func:`changes_that` has it."""

    fits: Fits
    reaches: Fits | None

    def largest(self, of: Callable[[int], ResourceRequest], most: int) -> int:
        """The largest number up to ``most`` whose request fits; 0 for none."""
        reaches = self.reaches
        if reaches is None:
            return largest_that(lambda number: self.fits(of(number)), most)
        found = largest_by_halves(lambda number: reaches(of(number)), most)
        return found if found and self.fits(of(found)) else 0


def _of_fewer_gpus(request: ResourceRequest, tries: _Tries) -> Iterator[tuple[str, int, str, ResourceRequest]]:
    def of(count: int) -> ResourceRequest:
        return replace(request, gpu_count=count, gpus_per_node=count)

    most = tries.largest(of, request.gpu_count - 1)
    if most:
        yield "gpus_at_most", most, f"at most {gpus_in_words(most)}", of(most)


def _of_fewer_nodes(request: ResourceRequest, tries: _Tries) -> Iterator[tuple[str, int, str, ResourceRequest]]:
    """Fewer nodes, and fewer GPUs on each; where neither alone helps, the most GPUs with fewer of both."""
    nodes, each = request.node_count, request.gpus_per_node
    if tries.reaches is not None and not tries.reaches(_gang(request, 1, 1)):
        return
    fewer_nodes = tries.largest(lambda count: _gang(request, count, each), nodes - (not request.remainder))
    if fewer_nodes:
        words = f"at most {nodes_in_words(fewer_nodes)}"
        yield "nodes_at_most", fewer_nodes, words, _gang(request, fewer_nodes, each)
    fewer_gpus = tries.largest(lambda count: _gang(request, nodes, count), each - 1)
    if fewer_gpus:
        words = f"at most {gpus_in_words(fewer_gpus)} on each node"
        yield "gpus_at_most", fewer_gpus, words, _gang(request, nodes, fewer_gpus)
    if fewer_nodes or fewer_gpus:
        return
    both = [(nodes * each, nodes, each) for nodes, each in _steps(request, tries.fits)]
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


def _gang(request: ResourceRequest, nodes: int, each: int) -> ResourceRequest:
    return replace(request, node_count=nodes, gpus_per_node=each, gpu_count=nodes * each, remainder=0)


def usable_s(longest_ms: int) -> int:
    """The time limit to advise, in seconds, where so long a duration fits now; 0 for none.

    What fits shrinks with every second, so some is left to act in. The rest is rounded down, to ten seconds and from an
    hour on to minutes, so that the advice is not another at every look.
    """
    least, most = TO_ACT_S
    seconds = longest_ms // 1000 - min(most, max(least, longest_ms // 4000))
    step = 60 if seconds >= 3600 else 10
    return max(0, seconds // step * step)
