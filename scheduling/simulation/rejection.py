"""Why could the empty cluster never hold a job? One code and one sentence for each that is rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from scheduling.core.feasibility import could_hold
from scheduling.core.largest import rooms_for
from scheduling.core.pool import Pool
from scheduling.core.resources import ResourceRequest
from scheduling.core.rules import spelled
from scheduling.core.units import gb
from scheduling.core.words import agree, gpus_in_words, nodes_in_words, place_word, wanted_in_words


class Rejection(NamedTuple):
    """NO_SUCH_MEMORY, UNSATISFIABLE_RULE, NO_NODE (of one node) or NO_CAPACITY (of several), and why in a sentence."""

    code: str
    message: str


def rejection(pool: Pool, request: ResourceRequest) -> Rejection | None:
    """Why the pool as installed could never hold the request; None when it could. Rules about groups don't count."""
    if could_hold(pool, request):
        return None
    words, largest = wanted_in_words(request), pool.largest_memory()
    if request.gpu_memory_min_mib > largest:
        message = f"needs {words}; the largest GPU has {gb(largest)}"
        return Rejection("NO_SUCH_MEMORY", message)
    bare = replace(request, affinity=request.preferred_terms)
    if request.required_terms and could_hold(pool, bare):
        rules = "; ".join(spelled(term) for term in request.required_terms)
        return Rejection("UNSATISFIABLE_RULE", f"needs {words}, and not so many are where its rules hold ({rules})")
    rooms = rooms_for(pool, bare)
    if request.allow_span:
        has = f"the cluster has {gpus_in_words(rooms.most())} that suit"
        return Rejection("NO_CAPACITY", f"needs {words}; {has}")
    if not request.is_gang:
        largest_room = rooms.most_per_node(1)
        return Rejection("NO_NODE", f"needs {words}; the largest {place_word(request)} has {largest_room} that suit")
    ready = rooms.most_nodes(request.gpus_per_node)
    has = f"{nodes_in_words(ready)} {agree(ready, 'has', 'have')} {request.gpus_per_node} that suit"
    return Rejection("NO_CAPACITY", f"needs {words}; {has}")
