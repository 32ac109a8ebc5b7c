"""Can I trust this machine?"""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from scheduling.core.lifecycle import GpuState, NodeEvent, NodeState, node_sources_of
from scheduling.services import now
from scheduling.services import pool as verbs
from scheduling.store.queries import events, pages, pool
from scheduling.store.queries.access import Actor
from scheduling.web.access import posted, signed_in
from scheduling.web.board import shown
from scheduling.web.wording import amount

MAY = {"cordon": NodeEvent.CORDON, "drain": NodeEvent.DRAIN, "return": NodeEvent.RETURN}


@signed_in
def node(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """The node's state with its reasons, its GPUs, its jobs, and what an operator may do."""
    seq, found = events.newest(), pool.pool(actor, node=name)
    if not found:
        raise Http404(f"there is no node {name[:60]}")
    one = shown(found[0])
    return render(
        request,
        "node.html",
        {
            "seq": seq,
            "node": one,
            "sentence": _sentence(one),
            "history": [{**e, "word": e["type"].replace("_", " ")} for e in pool.node_events(name)],
            "attempts": pages.attempts_on(name, actor),
            "may": {verb: one["state"] in node_sources_of(event) for verb, event in MAY.items()},
            "operator": actor.may_operate,
        },
    )


@posted
@signed_in
def operate(request: HttpRequest, actor: Actor, name: str, verb: str) -> HttpResponse:
    """The node is cordoned, draining or back in service; only operators may."""
    if not actor.may_operate:
        raise PermissionDenied("cordon, drain and return need the permission to operate the pool")
    result = verbs.operate(name, verb, actor, now()) if verb in MAY else None
    if result is None:
        raise Http404(f"there is no node {name[:60]}")
    lawful, state = result
    if not lawful:
        messages.error(request, f"A node that is {state.lower()} can't be asked to {verb}; nothing was changed.")
    return redirect("node", name=name)


def _sentence(one: dict[str, object]) -> str:
    gpus: list[dict[str, object]] = one["gpus"]  # type: ignore[assignment]
    good = sum(g["state"] == GpuState.HEALTHY for g in gpus)
    busy = sum(bool(g["busy"]) for g in gpus)
    what = {
        NodeState.READY: "takes work",
        NodeState.CORDONED: "takes no new work; what runs on it goes on",
        NodeState.DRAINING: "is being emptied: its jobs save a checkpoint and move",
        NodeState.LOST: "has not been heard of; its work was taken back",
    }[NodeState(str(one["state"]))]
    return f"{one['name']} {what}: {good} of {amount(len(gpus), 'GPU')} healthy, {busy} busy."
