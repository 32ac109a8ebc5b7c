"""What would help? Changes of a request under which it would start now, each of them tried on the free GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from scheduling.core.backfill import longest_now
from scheduling.core.bookings import Bookings
from scheduling.core.groups import Groups
from scheduling.core.placement import find
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Room, Wanted
from scheduling.core.units import gb
from scheduling.core.waiting import Queued
from scheduling.core.words import duration_in_words, gpus_in_words, nodes_in_words

_LEVELS = {"nvlink_group": "one NVLink group", "rack": "one rack"}


@dataclass(frozen=True, slots=True)
class Alternative:
    """A changed request that would start at once, or at ``starts_ms`` at the soonest: the changed number by name, and
    the change in words."""

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
    room: Room, bookings: Bookings, queued: Queued, *, groups: Groups, all_exclusive: bool
) -> Iterator[Alternative]:
    """Every kind of change that helps, as small as it can be. ``groups``: the jobs that run beside and apart now."""
    if not room.free_count:
        return
    request, seconds = queued.job.request, queued.duration_ms // 1000
    wanted = queued.shape.wanted
    pins = bookings.pins(queued.owner[1], queued.duration_ms)

    def starts(changed: ResourceRequest, group: str | None) -> bool:
        tried = Wanted(
            changed, avoid_gpus=wanted.avoid_gpus, avoid_nodes=wanted.avoid_nodes, all_exclusive=all_exclusive
        )
        tried.confined, tried.strict, tried.best_rung = wanted.confined, wanted.strict, wanted.best_rung
        if (changed.near, changed.apart, group) != (request.near, request.apart, queued.job.group):
            tried.confined = groups.confined(changed, group)
        return find(room, tried, pins) is not None

    shorter = longest_now(room, bookings, wanted, queued.owner[1])
    if shorter < queued.duration_ms and usable_s(shorter) > 0:
        limit = usable_s(shorter)
        words = f"a time limit of at most {duration_in_words(limit)}"
        yield Alternative("duration_at_most_s", limit, words, request, limit)
    for name, value, words, changed in _changes(room, request):
        if starts(changed, queued.job.group):
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
        words = f"no need for {_LEVELS[request.required_level]}"
        yield "without_level", words, replace(request, required_level=None)
    if request.required_terms:
        yield "without_rule", "without its required rules", replace(request, affinity=request.preferred_terms)


def _changes(room: Room, request: ResourceRequest) -> Iterator[tuple[str, int, str, ResourceRequest]]:
    """The smallest change of each kind that places the request on the free GPUs when nothing else is promised there.

    Counts and memory go down to the first that fits, since whatever fits with more fits with less.
    """

    def fits(changed: ResourceRequest) -> bool:
        return find(room, Wanted(changed)) is not None

    if request.is_gang:
        for count in range(request.node_count - 1, 0, -1):
            fewer = replace(request, node_count=count, gpu_count=count * request.gpus_per_node, remainder=0)
            if fits(fewer):
                yield "nodes_at_most", count, f"at most {nodes_in_words(count)}", fewer
                break
    else:
        for count in range(request.gpu_count - 1, 0, -1):
            fewer = replace(request, gpu_count=count, gpus_per_node=count)
            if fits(fewer):
                yield "gpus_at_most", count, f"at most {gpus_in_words(count)}", fewer
                break
    for name, words, loose in loosened_topology(request):
        yield name, 1, words, loose
    for size in reversed([size for size in room.inventory.memory_sizes if size < request.gpu_memory_min_mib]):
        smaller = replace(request, gpu_memory_min_mib=size)
        if fits(smaller):
            yield "memory_at_most_mib", size, f"a need for at most {gb(size)} of memory per GPU", smaller
            break


def usable_s(longest_ms: int) -> int:
    """Whole seconds of a duration that still fits when somebody has read it and acted: a minute less, if that is much.

    Rounded down to whole minutes above five of them, for people.
    """
    seconds = longest_ms // 1000
    return seconds if seconds <= 300 else (seconds - 60) // 60 * 60
