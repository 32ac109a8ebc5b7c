"""What was an artifact made from, all the way up, and what came of it, all the way down? With how each was made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from scheduling.models import Artifact, ArtifactParent, Job
from scheduling.store.queries.access import Actor
from scheduling.store.queries.artifacts import as_dict, visible
from scheduling.store.queries.called import Called, first, others, with_names

MAX_DEPTH = 20
MAX_NODES = 500
AT_ONCE = 500
DIRECTIONS = ("both", "up", "down")
SHOWN = (
    "id", "name", "also", "kind", "project", "size", "sha256", "job", "user", "created_at", "meta", "corrupt",
    "deleted",
)  # fmt: skip


def lineage(actor: Actor, artifact: Artifact, *, direction: str = "both", depth: int = MAX_DEPTH) -> dict[str, Any]:
    """The artifact with its ancestors (``up``) and descendants (``down``), so many steps away, as nodes and edges.

    ``generation`` of a node is below 0 for an ancestor, above for a descendant, and further from 0 than that of every
    node between it and the artifact. Those of projects that the actor may not know of are left out, with all behind
    them, and counted in ``hidden``; ``cut``: there is more than ``depth`` steps or 500 nodes away.
    """
    walk = _Walk(actor, artifact)
    if direction != "down":
        walk.up(depth)
    if direction != "up":
        walk.down(depth)
    rows = sorted(walk.found.values(), key=lambda a: (walk.generation[a.pk], a.created_at, str(a.pk)))
    recipes = _recipes(rows)
    nodes = [_node(a, walk.generation[a.pk], recipes) for a in rows]
    edges = [
        {"parent": str(parent), "child": str(child), "role": role}
        for parent, child, role in _links("child_id", sorted(walk.found))
        if parent in walk.found
    ]
    return {
        "artifact": str(artifact.pk), "nodes": nodes, "edges": edges, "hidden": len(walk.hidden), "cut": walk.cut,
    }  # fmt: skip


class _Walk:
    """Steps away from one artifact, a query or two each."""

    def __init__(self, actor: Actor, artifact: Artifact) -> None:
        self._actor, self._start = actor, artifact.pk
        self.found = {artifact.pk: artifact}
        self.generation = {artifact.pk: 0}
        self.hidden: set[UUID] = set()
        self.cut = False

    def up(self, depth: int) -> None:
        """The ancestors are found."""
        self._go("child_id", -1, depth)

    def down(self, depth: int) -> None:
        """The descendants are found."""
        self._go("parent_id", 1, depth)

    def _go(self, near: str, sign: int, depth: int) -> None:
        """From ``near``'s end of the links to the other one."""
        ways: dict[UUID, set[UUID]] = defaultdict(set)
        seen, frontier = {self._start}, [self._start]
        for step in range(depth + 1):
            links = _links(near, frontier)
            pairs = [(child, parent) if sign < 0 else (parent, child) for parent, child, _ in links]
            wanted = {there for _, there in pairs} - seen - self.hidden
            if step == depth or len(self.found) >= MAX_NODES:
                self.cut = self.cut or bool(wanted)
                break
            seen |= (new := self._take(wanted))
            for here, there in pairs:
                if there in seen:
                    ways[here].add(there)
            frontier = sorted(new)
            if not frontier:
                break
        self.generation |= {key: sign * steps for key, steps in _longest(self._start, ways).items()}

    def _take(self, keys: set[UUID]) -> set[UUID]:
        """Those of the keys that the actor may know of and there is room for; they are found from now on."""
        rows = {a.pk: a for part in _parts(keys) for a in with_names(visible(self._actor)).filter(pk__in=part)}
        self.hidden |= keys - rows.keys()
        room = MAX_NODES - len(self.found)
        taken = sorted(rows.values(), key=lambda a: (a.created_at, str(a.pk)))[:room]
        self.cut = self.cut or len(taken) < len(rows)
        self.found |= {a.pk: a for a in taken}
        return {a.pk for a in taken}


def _links(near: str, keys: Iterable[UUID]) -> list[tuple[UUID, UUID, str]]:
    """(parent, child, role) of the links of which ``near`` is among the keys."""
    found: list[tuple[UUID, UUID, str]] = []
    for part in _parts(keys):
        rows = ArtifactParent.objects.filter(**{f"{near}__in": part}).order_by("child_id", "role", "parent_id")
        found += rows.values_list("parent_id", "child_id", "role")
    return found


def _parts(keys: Iterable[UUID]) -> list[list[UUID]]:
    order = sorted(keys)
    return [order[first : first + AT_ONCE] for first in range(0, len(order), AT_ONCE)]


def _longest(start: UUID, steps: dict[UUID, set[UUID]]) -> dict[UUID, int]:
    """How many steps the longest way from ``start`` to each has. There is no way round: what was made is never among
    what it was made from."""
    length, level = {start: 0}, {start}
    for count in range(1, len(steps) + 1):
        level = {far for near in level for far in steps.get(near, ())}
        if not level:
            break
        length |= dict.fromkeys(level, count)
    return length


def _recipes(rows: list[Artifact]) -> dict[UUID, tuple[str, str, dict[str, Any]]]:
    """``{job: (name, kind, its parameters)}`` of the jobs that made them."""
    jobs = {each.job for a in rows for each in (first(a), *others(a)) if each.job is not None}
    found = Job.objects.filter(pk__in=jobs).values_list("pk", "name", "kind", "params")
    return {key: (name, kind, params) for key, name, kind, params in found}


def _node(a: Artifact, generation: int, jobs: dict[UUID, tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    told = {name: value for name, value in as_dict(a).items() if name in SHOWN}
    also = [_made_by(each, jobs) for each in others(a)]
    return {
        **told, "generation": generation, "made_by": _made_by(first(a), jobs),
        "also_made_by": [each for each in also if each is not None],
    }  # fmt: skip


def _made_by(called: Called, jobs: dict[UUID, tuple[str, str, dict[str, Any]]]) -> dict[str, Any] | None:
    """How it was made under that name; None where nobody's job made it."""
    if called.job is None or called.job not in jobs:
        return None
    name, kind, params = jobs[called.job]
    return {
        "job": str(called.job), "name": name, "kind": kind, "output": called.name,
        "recipe": called.meta.get("recipe", params), "derivation_key": _text(called.meta.get("derivation_key")),
        "attempt": called.made_with.get("attempt"), "code": _code(called),
    }  # fmt: skip


def _code(called: Called) -> dict[str, Any]:
    """With which code it was made, as far as that was told."""
    return {
        "agent_version": _text(called.made_with.get("agent_version")),
        "engine_version": _text(called.meta.get("engine_version")),
        "device_class": _text(called.meta.get("device_class")),
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
