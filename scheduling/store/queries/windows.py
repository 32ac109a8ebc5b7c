"""The windows as everyone sees them; whose they are is told to those who may know of the project."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from scheduling.models import Node, Project, Window
from scheduling.store.queries.access import Actor

# What a window is called before those who may not know whose it is.
RESERVED = "reserved"


def windows(actor: Actor, now: datetime) -> list[dict[str, Any]]:
    """The windows that have not ended, by their start."""
    rows = Window.objects.filter(end__gt=now).select_related("project", "created_by").prefetch_related("nodes")
    return [_as_dict(window, actor) for window in rows]


def window(window_id: int, actor: Actor) -> dict[str, Any] | None:
    """One window, or None."""
    row = Window.objects.select_related("project", "created_by").prefetch_related("nodes").filter(pk=window_id).first()
    return None if row is None else _as_dict(row, actor)


def _as_dict(window: Window, actor: Actor) -> dict[str, Any]:
    known = window.project is None or actor.sees(window.project.name)
    return {
        "id": window.pk,
        "name": window.name if known else RESERVED,
        "nodes": sorted(node.name for node in window.nodes.all()),
        "start": window.start,
        "end": window.end,
        "reserved": window.project is not None,
        "project": window.project.name if window.project and known else None,
        "note": window.note if known else "",
        "created_by": window.created_by.get_username() if window.created_by and known else None,
        "created_at": window.created_at,
    }


def fingerprint(now: datetime) -> str:
    """Another text whenever the pages would tell something else of the windows: one came, went, changed or began."""
    rows = (
        Window.objects.filter(end__gt=now)
        .order_by("pk", "nodes__name")
        .values_list("pk", "name", "start", "end", "project__name", "note", "nodes__name")
    )
    told = [(*row, row[2] <= now) for row in rows]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def node_names() -> list[str]:
    """The names of all nodes."""
    return list(Node.objects.order_by("name").values_list("name", flat=True))


def project_names(actor: Actor) -> list[str]:
    """The projects that the actor may know of."""
    names = Project.objects.order_by("name").values_list("name", flat=True)
    return [name for name in names if actor.sees(name)]
