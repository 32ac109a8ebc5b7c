"""Can I trust this machine?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from scheduling.core.lifecycle import GpuState, NodeEvent, NodeState, node_sources_of
from scheduling.services import health, now
from scheduling.services import pool as verbs
from scheduling.store.queries import events, pages, pool, windows
from scheduling.store.queries.access import Actor
from scheduling.store.queries.standing import Standing, sentence
from scheduling.web.access import posted, signed_in
from scheduling.web.board import shown, tile
from scheduling.web.people_words import parts
from scheduling.web.window_words import closing

MAY = {"cordon": NodeEvent.CORDON, "drain": NodeEvent.DRAIN, "return": NodeEvent.RETURN}


@signed_in
def node(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """The node's state with its reasons, its GPUs, its jobs, and what an operator may do."""
    seq, moment, found = events.newest(), now(), pool.pool(actor, [name])
    if not found:
        raise Http404(f"there is no node {name[:60]}")
    one, wanted = shown(found[0]), request.GET.get("gpu", "")
    retired = [tile(g, one["standing"]) for g in pool.retired(name)]
    gpus = [*(g for group in one["groups"] for g in group["gpus"]), *retired]
    return render(
        request,
        "node.html",
        {
            "seq": seq,
            "node": one,
            "sentence": sentence(found[0]),
            "why": _why(one),
            "reason_max": verbs.REASON_MAX,
            "windows": closing(actor, moment, node=name),
            "windows_are": windows.fingerprint(moment),
            "gpus": [_gpu(g) for g in sorted(gpus, key=lambda g: (g["index"], g["uuid"]))],
            "wanted": next((g for g in gpus if g["uuid"] == wanted), None),
            "history": [_event(e) for e in pool.node_events(name, gpu=wanted or None)],
            "attempts": pages.attempts_on(name, actor),
            "may": {verb: one["state"] in node_sources_of(event) for verb, event in MAY.items()}
            | {"deadline": one["state"] == NodeState.DRAINING},
            "operator": actor.may_operate,
        },
    )


@posted
@signed_in
def operate(request: HttpRequest, actor: Actor, name: str, verb: str) -> HttpResponse:
    """The node is cordoned, draining or back in service; only operators may."""
    if not actor.may_operate:
        raise PermissionDenied("cordon, drain and return need the permission operate_pool, which operators have")
    try:
        typed = request.POST.get("deadline", "").strip()
        deadline_s = verbs.deadline_s(typed or None) if verb == "drain" else None
        reason = verbs.reason_of(request.POST.get("reason")) if verb in verbs.WITH_REASON else ""
    except ValueError as wrong:
        messages.error(request, f"{str(wrong)[:1].upper()}{str(wrong)[1:]}; nothing was changed.")
        return redirect("node", name=name)
    result = verbs.operate(name, verb, actor, now(), deadline_s=deadline_s, reason=reason) if verb in MAY else None
    if result is None:
        raise Http404(f"there is no node {name[:60]}")
    lawful, state = result
    if not lawful:
        messages.error(request, f"A node that is {state.lower()} can't be asked to {verb}; nothing was changed.")
    return redirect("node", name=name)


@posted
@signed_in
def operate_gpu(request: HttpRequest, actor: Actor, name: str, uuid: str, verb: str) -> HttpResponse:
    """The GPU is asked back into service by way of its test, or retired; only operators may."""
    if not actor.may_operate:
        raise PermissionDenied("returning and retiring a GPU need the permission operate_pool, which operators have")
    result = health.operate(uuid, verb, actor, now()) if verb in health.VERBS else None
    if result is None:
        raise Http404(f"there is no GPU {uuid[:80]}")
    if not result[0]:
        messages.error(request, "A job holds this GPU: wait for its end, or cancel it; nothing was changed.")
    return redirect("node", name=name)


@posted
@signed_in
def confirm_silence(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The many silent nodes are gone, an operator says, and their work is taken back."""
    if not actor.may_operate:
        raise PermissionDenied("saying that nodes are gone needs the permission operate_pool, which operators have")
    if verbs.confirm_silence(actor, now()) is None:
        messages.error(request, "Too few nodes are silent for that; nothing was changed.")
    return redirect("board")


def _why(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Why it takes no new work, piece by piece; windows that close it are told apart."""
    told = node["why"] and node["standing"] not in (Standing.CLOSED, Standing.RESERVED)
    return list(parts(node["why"])) if told else []


def _gpu(one: Mapping[str, Any]) -> dict[str, Any]:
    state = one["state"]
    may = {
        "return": one["may_return"] and state != GpuState.UNHEALTHY,
        "retire": state != GpuState.RETIRED and not one["busy"],
    }
    return {**one, "may": may}


def _event(one: Mapping[str, Any]) -> dict[str, Any]:
    """The event in words: a change of state names the state, which its message begins with."""
    moved = one["type"] == "gpu_state" and ": " in one["message"]
    state, _, words = one["message"].partition(": ")
    return {
        **one,
        "word": one["type"].replace("_", " "),
        "state": state if moved else "",
        "message": words if moved else one["message"],
        "index": one["data"].get("index"),
    }
