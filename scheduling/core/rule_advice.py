"""What would be taken where the required rules hold? The end of their refusal, in which all the numbers go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scheduling.core.capacity import judge, largest_there, rooms_at_door
from scheduling.core.counts import NAMES, Counts
from scheduling.core.limits import LOOSEN, RULES_REFUSED, as_it_lies, beside
from scheduling.core.patience import why_idle
from scheduling.core.pool import Pool
from scheduling.core.refusal_words import ask_for
from scheduling.core.resources import FieldError, Limit, ResourceRequest
from scheduling.core.units import as_memory, gb, parse_memory


@dataclass(frozen=True, slots=True)
class _There:
    """A request with its rules, beside which all else is as it was told, and which numbers it may be asked with."""

    asked: ResourceRequest
    told: Counts
    pool: Pool
    over_nodes: bool

    def sizes(self, memory: int) -> list[int]:
        """The amounts of memory, ``memory`` and the sizes below it in MiB, with which the rules leave anything."""
        below = [size for size in reversed(self.pool.inventory.memory_sizes) if size < memory]
        return [size for size in (memory, *below) if self._leaves_any(size)]

    def _leaves_any(self, size: int) -> bool:
        lies = as_it_lies(self._with(size), self.told, over_nodes=self.over_nodes)
        return bool(rooms_at_door(self.pool, lies, over_nodes=self.over_nodes).scopes)

    def _with(self, size: int) -> ResourceRequest:
        return replace(self.asked, gpu_memory_min_mib=size)

    def _fewer(self, size: int) -> Counts:
        return self.told.at_most(largest_there(self._with(size), self.told, self.pool, over_nodes=self.over_nodes))

    def tries(self, memory: int, sizes: Sequence[int]) -> Iterator[tuple[int, Counts]]:
        """What to try, the best first: the memory as it is, then the counts as they are, then less of both."""
        if memory in sizes:
            yield memory, self.told
            yield memory, self._fewer(memory)
        yield from ((size, self.told) for size in sizes)
        yield from ((size, self._fewer(size)) for size in sizes)

    def taken(self, size: int, counts: Counts) -> ResourceRequest | None:
        """The request on its nodes if it is taken so."""
        return judge(self._with(size), counts, self.pool, over_nodes=self.over_nodes).request


def with_advice(
    errors: Sequence[FieldError], wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool
) -> list[FieldError]:
    """The errors, of which that of required rules ends with what to ask for where they hold, beside loosening them.

    ``errors`` are all others of the resources. Named are all numbers of memory and counts, as they go together, that
    differ from those that were sent or from those that the other errors ask for; where nothing would be taken, none.
    They are its ``limits``, too.
    """

    def advised(error: FieldError) -> FieldError:
        if (error.field, error.code) != RULES_REFUSED or not error.message.endswith(LOOSEN):
            return error
        words, limits = _advice(errors, wanted, counts, pool, over_nodes=over_nodes)
        return replace(error, message=error.message.removesuffix(LOOSEN) + words, limits=limits)

    return [advised(error) for error in errors]


def _advice(
    errors: Sequence[FieldError], wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool
) -> tuple[str, dict[str, Limit] | None]:
    """The end of the sentence, and the fields that it names."""
    shared = any(error.code == "no_nvlink_group" and error.field == "nvlink_exclusive" for error in errors)
    asked = replace(wanted, near=None, nvlink_exclusive=wanted.nvlink_exclusive and not shared)
    there = _There(asked, beside(errors, wanted, counts, pool, over_nodes=over_nodes)[1], pool, over_nodes)
    limits = [error.limit for error in errors if error.field == "gpu_memory_min" and error.limit]
    memory = parse_memory(limits[0]) if limits else wanted.gpu_memory_min_mib
    sizes = there.sizes(memory)
    for size, numbers in there.tries(memory, sizes):
        request = there.taken(size, numbers)
        if request is not None:
            break
    else:
        return LOOSEN, None
    named: dict[str, Limit] = {"gpu_memory_min": as_memory(size)} if limits or size != memory else {}
    places = zip(NAMES, counts.numbers, there.told.numbers, numbers.numbers, strict=True)
    named |= {name: number for name, *known, number in places if number is not None and known != [number, number]}
    if not named:
        return LOOSEN, None
    is_idle = bool(wanted.max_wait_for_level_s and why_idle(request, pool))
    idle = " and leave max_wait_for_level out" if is_idle else ""
    words = f"; {_memory_there(size, memory, sizes[0])}{ask_for(named)}{idle}, or loosen them"
    return words, {**named, **({"max_wait_for_level": None} if is_idle else {})}


def _memory_there(size: int, memory: int, most: int) -> str:
    """Why less than ``memory`` is to be asked for, as the beginning of a sentence; nothing where it isn't."""
    if size == memory:
        return ""
    enough = "" if size == most else f", and only with {gb(size)} are there enough"
    return f"the largest GPU there has {gb(most)}{enough}: "
