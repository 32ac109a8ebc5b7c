"""Could the pool as installed ever hold this request? The refusals of D14, each with the largest that would pass.

Installed counts, busy or free, healthy or not: health comes back, and a job should not be refused for a blip.
"""

from __future__ import annotations

from dataclasses import replace

from scheduling.core.feasibility import spelled, suitable
from scheduling.core.placement import fits
from scheduling.core.pool import Pool
from scheduling.core.resources import FieldError, ResourceRequest
from scheduling.core.units import as_memory, gb


def memory_errors(memory: int, pool: Pool) -> tuple[FieldError, ...]:
    """The refusal of a ``gpu_memory_min`` (MiB) that no installed GPU has; none while no node is registered."""
    largest = pool.largest_memory()
    if not pool.nodes or memory <= largest:
        return ()
    message = (
        f"no GPU has {gb(memory)} ({memory} MiB); the largest has {gb(largest)} ({largest} MiB): "
        f"ask for at most {as_memory(largest)}"
    )
    return (FieldError("gpu_memory_min", "no_such_memory", message, as_memory(largest)),)


def place_errors(request: ResourceRequest, pool: Pool, *, count_field: str) -> tuple[FieldError, ...]:
    """The refusals of a count or of rules that no place in the pool could hold; none while no node is registered.

    A memory that no GPU has is left out of account, so that a count too large for any memory is told at once.
    """
    if not pool.nodes:
        return ()
    if request.gpu_memory_min_mib > pool.largest_memory():
        return _count_errors(request, pool, memory=0, count_field=count_field)
    errors = _count_errors(request, pool, memory=request.gpu_memory_min_mib, count_field=count_field)
    return errors or _rule_errors(request, pool)


def _count_errors(request: ResourceRequest, pool: Pool, *, memory: int, count_field: str) -> tuple[FieldError, ...]:
    with_memory = f" with at least {gb(memory)}" if memory else ""
    if request.nvlink_required:
        most, code, place = pool.largest_group(memory), "no_nvlink_group", "NVLink group"
    else:
        most, code, place = pool.largest_node(memory), "no_node", "node"
    if request.gpus_per_node <= most:
        return ()
    if most == 0:
        message = f"the pool has no {place} with GPUs{with_memory}; ask without nvlink_required"
        if not request.nvlink_required:
            message = f"the pool has no GPU{with_memory}"
        return (FieldError(count_field, code, message, 0),)
    message = (
        f"no {place} has {request.gpus_per_node} GPUs{with_memory}; the largest has {most}: ask for at most {most} "
        "(jobs over several nodes are not supported yet)"
    )
    return (FieldError(count_field, code, message, most),)


def _rule_errors(request: ResourceRequest, pool: Pool) -> tuple[FieldError, ...]:
    """The refusal when the counts and the memory are there, but not where the required rules hold."""
    installed = frozenset(pool.cell_index)
    if fits(pool, request, free=installed, eligible=suitable(pool, request)):
        return ()
    bare = replace(request, affinity=())
    if not fits(pool, bare, free=installed, eligible=suitable(pool, bare)):
        message = "no NVLink group lies wholly on one node, so none can be taken whole; ask without nvlink_exclusive"
        return (FieldError("nvlink_exclusive", "no_nvlink_group", message, None),)
    rules = "; ".join(spelled(term) for term in request.required_terms)
    message = f"nothing installed could hold the job where its required rules hold ({rules}); loosen them"
    return (FieldError("affinity.required", "unsatisfiable_rule", message, None),)
