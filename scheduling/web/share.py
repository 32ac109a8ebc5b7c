"""Why is someone ahead of me?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from scheduling.services import now
from scheduling.store.queries import share as queries
from scheduling.store.queries.access import Actor
from scheduling.web.access import signed_in


@signed_in
def share(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The three ledgers: what is owed, what was consumed, and the deficit that orders the queue."""
    found = queries.share(actor, now())
    ledgers = [
        {"title": title, "rows": [_row(r) for r in found[key]]}
        for title, key in (("Projects", "projects"), ("Queues", "queues"), ("People in projects", "users"))
    ]
    context = {"ledgers": ledgers, "days": found["half_life_s"] / 86_400, "sentence": _sentence(found["projects"])}
    return render(request, "share.html", context)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    used = row["consumed_gpu_h"] + row["in_flight_gpu_h"]
    target = row["target_gpu_h"]
    return {**row, "used": used, "percent": 100 * used / target if target else None}


def _sentence(projects: list[dict[str, Any]]) -> str:
    ranked = sorted((p for p in projects if p["deficit"] is not None), key=lambda p: -p["deficit"])
    if not ranked:
        return "Nobody is ahead: no project has work waiting or running."
    if len(ranked) == 1:
        return f"Only {ranked[0]['name']} has work, so nobody is ahead of it."
    first, last = ranked[0], ranked[-1]
    if first["deficit"] == last["deficit"]:
        return "All projects with work have had the same part of their share: submission time decides."
    least = f"{first['name']} is first: it has had the least of its share"
    return f"Within a priority, {least}; {last['name']} has had the most."
