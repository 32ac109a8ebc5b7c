"""The verbs of windows: an operator closes nodes for a time, for maintenance or but for one project, or opens them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduling.core.fields import Fields, nearest, shown
from scheduling.core.instants import as_instant, read_instant
from scheduling.core.naming import read_name
from scheduling.store.clock import to_ms
from scheduling.store.commit import windows as commit
from scheduling.store.queries import windows as queries
from scheduling.store.queries.access import Actor

FIELDS = ("name", "nodes", "start", "end", "project", "note")
MAX_NOTE = 400
MAX_NODES = 10_000


def add(body: Mapping[str, Any], actor: Actor, now: datetime) -> int | tuple[dict[str, Any], ...]:
    """The id of the new window, or everything that is wrong with what was sent.

    Jobs that run on its nodes when it begins are not stopped; none starts there that would still run then.
    """
    fields = Fields(body)
    fields.refuse_unknown(FIELDS)
    name = read_name(fields, "name", default=None)
    if fields.value("name") is None:
        fields.refuse("name", "required", "give the window a name: text of 1 to 100 characters")
    nodes = _nodes(fields)
    start, end = _times(fields, to_ms(now))
    project, note = _project(fields, actor), _note(fields)
    if fields.errors or name is None or nodes is None or start is None or end is None:
        return tuple(asdict(error) for error in fields.errors)
    return commit.add(
        name, nodes, _moment(start), end=_moment(end), project=project, note=note, user_id=actor.user_id, now=now,
        actor=actor.label,
    )  # fmt: skip


def remove(window_id: int, actor: Actor, now: datetime) -> bool:
    """The window's nodes are open again; False when there is no such window."""
    return commit.remove(window_id, now=now, actor=actor.label)


def announce(window_id: int, kind: str, actor: Actor, now: datetime) -> None:
    """The scheduler and the record hear of a window that the admin has ``kind`` (added, changed, removed)."""
    commit.tell(window_id, f"window_{kind}", now=now, actor=actor.label)


def _moment(instant_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant_ms)


def _nodes(fields: Fields) -> list[str] | None:
    known = queries.node_names()
    value = fields.value("nodes")
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_NODES:
        message = f'nodes must be a list of at least one and at most {MAX_NODES} names of nodes, like ["n1"]'
        fields.refuse("nodes", "not_a_list" if fields.given("nodes") else "required", message, MAX_NODES)
        return None
    found: list[str] = []
    for place, name in enumerate(value):
        if not isinstance(name, str) or name not in known:
            message = f"there is no node {shown(name)}{nearest(name, known)}"
            fields.refuse(f"nodes.{place}", "unknown_node", message)
        elif name in found:
            fields.refuse(f"nodes.{place}", "given_twice", f"nodes.{place} names {name} again; name each node once")
        else:
            found.append(name)
    return sorted(found) if len(found) == len(value) else None


def _times(fields: Fields, now_ms: int) -> tuple[int | None, int | None]:
    start, end = read_instant(fields, "start"), read_instant(fields, "end")
    for name in ("start", "end"):
        if fields.value(name) is None:
            fields.refuse(name, "required", f"say when the window {name}s: an instant like {as_instant(now_ms)}")
    if end is not None and end <= now_ms:
        message = f"end must lie in the future, and it is {as_instant(now_ms)}; give a later instant"
        fields.refuse("end", "in_the_past", message)
    elif start is not None and end is not None and end <= start:
        message = f"end ({as_instant(end)}) must be after start ({as_instant(start)}); give a later one"
        fields.refuse("end", "before_start", message)
    return start, end


def _project(fields: Fields, actor: Actor) -> str | None:
    value = fields.value("project")
    if value is None:
        return None
    known = queries.project_names(actor)
    if not isinstance(value, str) or value not in known:
        message = f"there is no project {shown(value)} that you may know of{nearest(value, known)}"
        fields.refuse("project", "unknown_project", message, tuple(known))
        return None
    return value


def _note(fields: Fields) -> str:
    value = fields.value("note")
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MAX_NOTE or not value.isprintable():
        fields.refuse("note", "bad_note", f"note must be text of at most {MAX_NOTE} printable characters", MAX_NOTE)
        return ""
    return value
