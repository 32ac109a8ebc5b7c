"""Of what are a refusal's limits told? Of the request without what nothing installed has, which is its own refusal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduling.core.counts import NAMES, Counts
from scheduling.core.fields import ALIASES
from scheduling.core.largest import rooms_for
from scheduling.core.pool import Pool
from scheduling.core.resources import FieldError, ResourceRequest
from scheduling.core.rules import spelled, strange_labels
from scheduling.core.units import as_memory, gb

RULES_REFUSED = ("affinity.required", "unsatisfiable_rule")  # field and code
LOOSEN = "; loosen them"  # how their refusal ends
WITHOUT_RULES = "; the limits that are told beside this are without them"


def counted(wanted: ResourceRequest, pool: Pool) -> ResourceRequest:
    """The request as the limits of its counts are told: with no more memory than the pool has for it, and without its
    required rules where they leave nothing. Each of these is refused by itself."""
    if not pool.nodes:
        return wanted
    asked = wanted
    if wanted.gpu_memory_min_mib > pool.largest_memory():
        asked = replace(wanted, gpu_memory_min_mib=most_memory(wanted, pool))
    if has_no_whole_group(asked, pool):
        asked = replace(asked, nvlink_exclusive=False)
    return replace(asked, affinity=()) if rules_leave_nothing(asked, pool) else asked


def as_it_lies(wanted: ResourceRequest, counts: Counts, *, over_nodes: bool) -> ResourceRequest:
    """The request on so many nodes: over several, where that is taken, it shares the NVLink groups, since a whole one
    is of one node."""
    several = over_nodes and counts.asked is not None and counts.asked.nodes > 1
    return replace(wanted, nvlink_exclusive=False) if several else wanted


def beside(
    errors: Sequence[FieldError], wanted: ResourceRequest, counts: Counts, pool: Pool, *, over_nodes: bool
) -> tuple[ResourceRequest, Counts]:
    """What the next limit is told of, once all that was told so far is taken: the request without what is refused, and
    its numbers with the limits in their place.

    Required rules that are refused are left out altogether, not loosened: every limit told beside them is without them.
    """
    told = counts.at_most({ALIASES.get(error.field, error.field): error.limit for error in errors})
    memory = counted(as_it_lies(wanted, counts, over_nodes=over_nodes), pool).gpu_memory_min_mib
    asked = replace(as_it_lies(wanted, told, over_nodes=over_nodes), gpu_memory_min_mib=memory, near=None)
    if any((error.field, error.code) == RULES_REFUSED for error in errors):
        asked = replace(asked, affinity=())
    return counted(asked, pool), told


def with_rules_apart(errors: Sequence[FieldError]) -> list[FieldError]:
    """The errors, of which that of required rules says so where limits are told beside it: they are without them."""
    limited = any(
        error.limit and (ALIASES.get(error.field, error.field) in NAMES or error.code == "bad_memory")
        for error in errors
    )
    return [
        replace(error, message=error.message.removesuffix(WITHOUT_RULES) + WITHOUT_RULES)
        if limited and (error.field, error.code) == RULES_REFUSED
        else error
        for error in errors
    ]


def has_no_whole_group(wanted: ResourceRequest, pool: Pool) -> bool:
    """Whether a whole NVLink group is asked for and none lies wholly on one node, though there are groups: of GPUs with
    the memory, or of any where none has that."""
    if not wanted.nvlink_exclusive:
        return False
    bare = replace(wanted, affinity=())
    for asked in (bare, replace(bare, gpu_memory_min_mib=0)):
        if rooms_for(pool, asked).scopes:
            return False
        if rooms_for(pool, _shared(asked)).scopes:
            return True
    return False


def rules_leave_nothing(wanted: ResourceRequest, pool: Pool) -> bool:
    """Whether the required rules alone leave no GPU of what is installed with the memory, and in such a topology; one
    that the pool has nowhere is left out of account."""
    if not wanted.required_terms:
        return False
    for asked in (wanted, _shared(wanted), _anywhere(wanted)):
        if rooms_for(pool, replace(asked, affinity=())).scopes:
            return not rooms_for(pool, asked).scopes
    return False


def most_memory(wanted: ResourceRequest, pool: Pool) -> int:
    """The most memory, in MiB, that a GPU has where the required rules and the topology hold; 0 without any GPU. Of
    these only what leaves something of the pool counts, whatever memory is asked for."""
    asked = replace(wanted, gpu_memory_min_mib=0)
    if rules_leave_nothing(asked, pool):
        asked = replace(asked, affinity=())
    tried = (asked, _shared(asked), _anywhere(asked))
    base = next((each for each in tried if rooms_for(pool, each).scopes), None)
    if base is None:
        return 0
    sizes = reversed(pool.inventory.memory_sizes)
    return next(size for size in sizes if rooms_for(pool, replace(base, gpu_memory_min_mib=size)).scopes)


def memory_errors(memory: int, wanted: ResourceRequest, pool: Pool) -> tuple[FieldError, ...]:
    """The refusal of a ``gpu_memory_min`` (MiB) that no installed GPU has; none while no GPU is installed, when that is
    the fault. The limit is of where the rules and the topology of ``wanted`` hold."""
    if memory <= pool.largest_memory() or not pool.largest_memory():
        return ()
    largest = most_memory(wanted, pool)
    where = "" if largest == pool.largest_memory() else " where the required rules and the topology hold"
    message = (
        f"no GPU has {gb(memory)} ({memory} MiB); the largest{where} has {gb(largest)} ({largest} MiB): "
        f"ask for at most {as_memory(largest)}"
    )
    return (FieldError("gpu_memory_min", "no_such_memory", message, as_memory(largest)),)


def rule_error(wanted: ResourceRequest, pool: Pool, *, apart: bool = False) -> FieldError:
    """The refusal of required rules. ``apart``: a limit of the memory is told beside it, for which the rules don't
    count."""
    strange = strange_labels(pool, wanted.required_terms)
    if strange:
        message = f"the required rules hold nowhere: {strange}; mend the key, or leave the rule out"
    else:
        rules = "; ".join(spelled(term) for term in wanted.required_terms)
        message = f"nothing installed could hold the job where its required rules hold ({rules}){LOOSEN}"
    return FieldError(*RULES_REFUSED, message + (WITHOUT_RULES if apart else ""), None)


def _shared(wanted: ResourceRequest) -> ResourceRequest:
    return replace(wanted, nvlink_exclusive=False)


def _anywhere(wanted: ResourceRequest) -> ResourceRequest:
    return replace(wanted, nvlink_exclusive=False, nvlink_required=False, required_level=None)
