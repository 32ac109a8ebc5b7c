"""Is the pool healthy and busy, what runs where, what waits?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from scheduling.services import now
from scheduling.store.queries import events, pool
from scheduling.store.queries.access import Actor
from scheduling.web.access import signed_in
from scheduling.web.wording import duration


@signed_in
def board(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The pool by rack, node and NVLink group, the queues, and the scheduler's last tick."""
    seq, moment = events.newest(), now()
    nodes, queues, tick = pool.pool(actor), pool.queues(moment), pool.scheduler(moment)
    return render(
        request,
        "board.html",
        {
            "seq": seq,
            "headline": pool.headline(nodes, queues, tick, moment),
            "racks": [
                {"name": rack, "nodes": [shown(n) for n in members]}
                for rack, members in groupby(nodes, key=lambda n: n["rack_id"])
            ],
            "queues": [_queue(q) for q in queues],
            "tick": tick,
        },
    )


def shown(node: Mapping[str, Any]) -> dict[str, Any]:
    """The node with its GPUs by NVLink group, those of none last."""
    groups: dict[str | None, list[dict[str, Any]]] = {}
    for gpu in node["gpus"]:
        groups.setdefault(gpu["nvlink_group_id"], []).append(_tile(gpu))
    ordered = sorted(groups.items(), key=lambda pair: (pair[0] is None, pair[0] or ""))
    models = sorted({g["model"] for g in node["gpus"]})
    return {
        **node,
        "groups": [{"name": name, "gpus": gpus} for name, gpus in ordered],
        "summary": ", ".join(f"{sum(g['model'] == m for g in node['gpus'])} × {m}" for m in models),
    }


def _tile(gpu: Mapping[str, Any]) -> dict[str, Any]:
    used = gpu["memory_used_mib"]
    return {**gpu, "memory_gb": _gb(gpu["memory_mib"]), "used_gb": None if used is None else _gb(used)}


def _gb(mib: int) -> float:
    return round(mib * 2**20 / 1e9, 1)


def _queue(queue: Mapping[str, Any]) -> dict[str, Any]:
    levels = [{**level, "oldest": duration(level["oldest_wait_s"])} for level in queue["levels"]]
    return {**queue, "levels": levels}
