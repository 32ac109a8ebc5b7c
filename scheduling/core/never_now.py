"""Would even the empty pool not do, as it is installed or as it is in service? Then why not, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling.core.feasibility import could_hold, empty_room
from scheduling.core.out_of_service import out_of_service
from scheduling.core.placement import fits
from scheduling.core.plan import Reason
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Room, Wanted
from scheduling.core.rules import all_spelled, strange_labels
from scheduling.core.scarcity import most_in_one_place, ready_nodes
from scheduling.core.shortfalls import Numbers
from scheduling.core.words import agree, gpus_in_words, nodes_in_words, wanted_in_words

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


def never_now(scheduler: Scheduler, request: ResourceRequest) -> Reason | None:
    """NO_NODES, NO_INVENTORY, RULE or UNHEALTHY_CAPACITY when even an empty pool would not do; None when it would."""
    words = wanted_in_words(request)
    if not scheduler.pool.nodes:
        return Reason("NO_NODES", f"No node is registered. The job wants {words} and waits for the first nodes.")
    if not could_hold(scheduler.pool, request):
        bare = replace(request, affinity=request.preferred_terms)
        if request.required_terms and could_hold(scheduler.pool, bare):
            return _no_such_labels(scheduler, request, words)
        numbers: Numbers = (("need", request.gpu_count), ("installed", _installed(scheduler, request)))
        return Reason("NO_INVENTORY", f"The pool no longer has {words} installed; more must be added.", numbers)
    if not fits(scheduler.usable_room, Wanted(request)):
        return _out_of_service(scheduler, request, words)
    return None


def _no_such_labels(scheduler: Scheduler, request: ResourceRequest, words: str) -> Reason:
    strange, rules = strange_labels(scheduler.pool, request.required_terms), all_spelled(request.required_terms)
    more = f" {strange[0].upper()}{strange[1:]}." if strange else ""
    message = f"The pool has {words}, but none where the required rules hold: {rules}.{more}"
    return Reason("RULE", message, (("rules", rules),))


def _out_of_service(scheduler: Scheduler, request: ResourceRequest, words: str) -> Reason:
    """UNHEALTHY_CAPACITY: what is installed would do. Of several nodes it is nodes that are counted."""
    room, wanted = scheduler.usable_room, Wanted(request)
    most = most_in_one_place(room, wanted)
    numbers: Numbers = (
        ("need", request.gpu_count), ("healthy", most), ("installed", _installed(scheduler, request)),
    )  # fmt: skip
    if request.is_gang:
        message, told = _too_few_nodes(room, wanted, words)
        numbers = (*numbers, *told)
    else:
        message = (
            f"The pool would have {words} if all of it were in service, but too few GPUs are healthy and on nodes that "
            f"take work: {most} at most."
        )
    return Reason("UNHEALTHY_CAPACITY", f"{message} {out_of_service(room, wanted)}".rstrip(), numbers)


def _too_few_nodes(room: Room, wanted: Wanted, words: str) -> tuple[str, Numbers]:
    ready, need = ready_nodes(room, wanted), wanted.nodes
    numbers: Numbers = (("need_nodes", need), ("ready_nodes", ready), ("short_nodes", max(0, need - ready)))
    such = f"{nodes_in_words(ready)} with {gpus_in_words(wanted.need)} or more"
    if ready < need:
        return f"Needs {words}, and {such} {agree(ready, 'is', 'are')} in service.", numbers
    return f"Needs {words}; {such} are in service, but not all that it needs together.", numbers


def _installed(scheduler: Scheduler, request: ResourceRequest) -> int:
    """The most suitable GPUs that one place has, or for several nodes all of them."""
    return most_in_one_place(empty_room(scheduler.pool), Wanted(request))
