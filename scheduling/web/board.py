"""Is the pool healthy and busy, what runs where, what waits?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from scheduling.core.lifecycle import GpuState
from scheduling.core.reclaim import MASS_SILENCE
from scheduling.services import now
from scheduling.store.queries import events, pool, windows
from scheduling.store.queries.access import Actor
from scheduling.store.queries.kept import KEPT
from scheduling.store.queries.standing import UNHEARD
from scheduling.web.access import signed_in
from scheduling.web.window_words import closing, in_short
from scheduling.web.wording import duration

# The word on the GPUs of a node that is not heard of: their own state is what it was then.
UNREACHABLE = "UNREACHABLE"
# What comes before an instant, or before how far off it is; the page's script says the same.
ASKED, ELSE_FREE = "asked to leave; its time ends", "or free again"


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
                {"name": rack_name(rack), "nodes": [shown(n) for n in members]}
                for rack, members in groupby(nodes, key=lambda n: n["rack_id"])
            ],
            "queues": [_queue(q) for q in queues],
            "tick": tick,
            "windows": in_short(closing(actor, moment)),
            "windows_are": windows.fingerprint(moment),
            "silence": any(alarm["code"] == MASS_SILENCE for alarm in tick["alarms"]),
            "operator": actor.may_operate,
        },
    )


def rack_name(rack: str) -> str:
    """The rack as a heading: ``Rack r1``, and ``rack-1`` as it is."""
    if not rack:
        return "No rack"
    return rack if rack.lower().startswith("rack") else f"Rack {rack}"


def shown(node: Mapping[str, Any]) -> dict[str, Any]:
    """The node with its GPUs by NVLink group, those of none last."""
    groups: dict[str | None, list[dict[str, Any]]] = {}
    for gpu in node["gpus"]:
        groups.setdefault(gpu["nvlink_group_id"], []).append(tile(gpu, node["standing"]))
    ordered = sorted(groups.items(), key=lambda pair: (pair[0] is None, pair[0] or ""))
    models = sorted({g["model"] for g in node["gpus"]})
    return {
        **node,
        "groups": [{"name": name, "gpus": gpus} for name, gpus in ordered],
        "left_out": [_left_out(words) for words in node["left_out"]],
        "summary": ", ".join(f"{sum(g['model'] == m for g in node['gpus'])} × {m}" for m in models),
    }


def _left_out(words: str) -> str:
    """What an agent says of a GPU that it doesn't offer, beside a mark that says that it is left out."""
    return re.sub(r"^gpu (?=\d)", "GPU ", re.sub(r"( and)? is left out(?=:)", "", words, count=1))


def tile(gpu: Mapping[str, Any], standing: str) -> dict[str, Any]:
    """The GPU with its state as the tile tells it, which nobody knows while its node is not heard of."""
    unheard = standing in UNHEARD
    used = gpu["memory_used_mib"]
    return {
        **gpu,
        **_turn(gpu),
        "state": UNREACHABLE if unheard else gpu["state"],
        "trouble": "" if unheard or gpu["state"] == GpuState.HEALTHY else gpu["why"] or "",
        "memory_gb": _gb(gpu["memory_mib"]),
        "used_gb": None if used is None else _gb(used),
    }


def _turn(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the GPU only waits for the job that it is kept for, and the line that says what ends when."""
    is_kept = gpu["idle"] == KEPT
    if gpu["leaves_by"] is not None:
        return {"is_kept": is_kept, "turn": ASKED, "turn_at": gpu["leaves_by"]}
    return {"is_kept": is_kept, "turn": ELSE_FREE, "turn_at": gpu["kept_until"] if is_kept else None}


def _gb(mib: int) -> float:
    return round(mib * 2**20 / 1e9, 1)


def _queue(queue: Mapping[str, Any]) -> dict[str, Any]:
    levels = [{**level, "oldest": duration(level["oldest_wait_s"])} for level in queue["levels"]]
    return {**queue, "levels": levels}
