"""Windows: times in which nodes are closed. Whoever changes one writes the event that wakes the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from scheduling.models import Node, Project, Window
from scheduling.store import journal


@transaction.atomic
def add(
    name: str, nodes: Sequence[str], start: datetime, *, end: datetime, project: str | None, note: str, user_id: int,
    now: datetime, actor: str,
) -> int:  # fmt: skip
    """The window exists, for nodes and a project that do; returns its id."""
    window = Window.objects.create(
        name=name, start=start, end=end, note=note, created_by_id=user_id, created_at=now,
        project=Project.objects.get(name=project) if project else None,
    )  # fmt: skip
    window.nodes.set(Node.objects.filter(name__in=nodes))
    tell(window.pk, "window_added", now=now, actor=actor)
    return window.pk


@transaction.atomic
def remove(window_id: int, *, now: datetime, actor: str) -> bool:
    """The window is gone; False when there was none."""
    if not tell(window_id, "window_removed", now=now, actor=actor):
        return False
    Window.objects.filter(pk=window_id).delete()
    return True


def tell(window_id: int, kind: str, *, now: datetime, actor: str) -> bool:
    """An event row says what the window is; False when there is none."""
    window = Window.objects.select_related("project").prefetch_related("nodes").filter(pk=window_id).first()
    if window is None:
        return False
    names = sorted(node.name for node in window.nodes.all())
    whose = f"but to jobs of {window.project.name}" if window.project else "to all jobs"
    journal.write(
        [
            journal.Note(
                kind, "window", str(window.pk), actor=actor, project=window.project.name if window.project else "",
                message=f"{window.name}: {', '.join(names)} closed {whose} from {window.start:%Y-%m-%d %H:%M} to "
                f"{window.end:%Y-%m-%d %H:%M} UTC",
                data={"nodes": names, "start": window.start.isoformat(), "end": window.end.isoformat()},
            )
        ],
        now,
    )  # fmt: skip
    return True
