"""From what, by which job and code, into what: the lineage of an artifact as lines that read from top to bottom."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from scheduling.store.queries import artifacts as queries
from scheduling.store.queries.access import Actor
from scheduling.store.queries.lineage import lineage as family_of
from scheduling.web.access import signed_in
from scheduling.web.wording import amount, size

# So many lines run beside each other at most, for a phone; what more there is stands in the words of its row.
LANES = 8
STEP, TALL = 14, 64
SAID = 200


@signed_in
def lineage(request: HttpRequest, actor: Actor, artifact_id: UUID) -> HttpResponse:
    """Everything that the artifact was made from above it, and everything that was made of it below."""
    row = queries.one(actor, str(artifact_id))
    if row is None:
        raise Http404("there is no such artifact in your projects")
    family = family_of(actor, row)
    lines = drawn([node["id"] for node in family["nodes"]], family["edges"])
    names = {node["id"]: node["name"] for node in family["nodes"]}
    roles: dict[str, list[dict[str, str]]] = defaultdict(list)
    for edge in family["edges"]:
        roles[edge["child"]].append({"name": names[edge["parent"]], "id": edge["parent"], "role": edge["role"]})
    rows = [
        {**node, "line": line, "parents": roles[node["id"]], "read_size": size(node["size"]),
         "here": node["id"] == family["artifact"], "made": made_in_words(node["made_by"]),
         "others": [{**made, "made": made_in_words(made)} for made in node["also_made_by"]]}
        for node, line in zip(family["nodes"], lines, strict=True)
    ]  # fmt: skip
    width = STEP * max((line.lanes for line in lines), default=1)
    above = sum(node["generation"] < 0 for node in family["nodes"])
    below = sum(node["generation"] > 0 for node in family["nodes"])
    context = {
        "artifact": queries.as_dict(row), "rows": rows, "width": width, "tall": TALL, "hidden": family["hidden"],
        "cut": family["cut"], "sentence": _sentence(above, below),
    }  # fmt: skip
    return render(request, "lineage.html", context)


def _sentence(above: int, below: int) -> str:
    made_from = f"made from {amount(above, 'artifact')}" if above else "made from nothing on record"
    return f"{made_from[0].upper()}{made_from[1:]}, {amount(below, 'artifact')} made of it so far."


@dataclass(slots=True)
class Line:
    """What is drawn beside one row: ``paths`` of lines, the ``dot`` of its own, and how many ``lanes`` that takes."""

    paths: list[str] = field(default_factory=list)
    dot: int = 0
    lanes: int = 1


def drawn(order: Sequence[str], edges: Sequence[Mapping[str, str]]) -> list[Line]:
    """A line for each node of ``order``, in which parents come before their children, so that the lines of rows that
    follow each other meet: each edge leads from its parent's dot down to its child's."""
    children: dict[str, list[str]] = defaultdict(list)
    place = {key: number for number, key in enumerate(order)}
    for edge in edges:
        if edge["child"] not in children[edge["parent"]]:
            children[edge["parent"]].append(edge["child"])
    lanes: list[str | None] = []  # to whom each lane leads
    lines: list[Line] = []
    for key in order:
        line, mine = Line(), [number for number, to in enumerate(lanes) if to == key]
        column = mine[0] if mine else _free(lanes)
        line.dot = _x(column)
        for number, to in enumerate(lanes):
            if to == key:
                line.paths.append(f"M{_x(number)} 0L{line.dot} {TALL // 2}")
            elif to is not None:
                line.paths.append(f"M{_x(number)} 0V{TALL}")
        lanes = [None if to == key else to for to in lanes]
        for child in sorted(children[key], key=lambda each: place[each]):
            if child in lanes:
                number = lanes.index(child)
            else:
                number = column if column >= len(lanes) or lanes[column] is None else _free(lanes)
                lanes += [None] * (number + 1 - len(lanes))
                lanes[number] = child
            line.paths.append(f"M{line.dot} {TALL // 2}L{_x(number)} {TALL}")
        used = [number for number, to in enumerate(lanes) if to is not None]
        line.lanes = min(LANES, max([column, *mine, *used]) + 1)
        lines.append(line)
    return lines


def _free(lanes: Sequence[str | None]) -> int:
    return next((number for number, to in enumerate(lanes) if to is None), len(lanes))


def _x(lane: int) -> int:
    return STEP * min(lane, LANES - 1) + STEP // 2


def made_in_words(made_by: Mapping[str, Any] | None) -> dict[str, str]:
    """How it was made (``recipe``) and with what (``code``), each in a line; empty where nothing is on record."""
    if made_by is None:
        return {"recipe": "", "code": ""}
    code = made_by["code"]
    words = [
        f"attempt {made_by['attempt']}" if made_by["attempt"] else "",
        f"engine {code['engine_version']}" if code["engine_version"] else "",
        f"agent {code['agent_version']}" if code["agent_version"] else "",
        f"on {code['device_class']}" if code["device_class"] else "",
    ]
    return {"recipe": recipe_in_words(made_by["recipe"]), "code": ", ".join(filter(None, words))}


def recipe_in_words(recipe: Any) -> str:
    """``strategy slerp, t 0.5``: what tells one recipe from another, in a line; the artifacts it names stand beside."""
    if not isinstance(recipe, Mapping):
        return ""
    if isinstance(recipe.get("argv"), list):
        return " ".join(str(word) for word in recipe["argv"])[:SAID]
    if recipe.get("shell"):
        return str(recipe["shell"])[:SAID]
    order = sorted(recipe, key=lambda key: (key != "strategy", key))  # a database may keep them in any order
    said = [f"{key} {_value(recipe[key])}" for key in order if _tells(key, recipe[key])]
    return ", ".join(said)[:SAID]


def _tells(key: str, value: Any) -> bool:
    named = ("models", "base_model", "model", "dataset", "files", "inputs", "env", "tokenizer_source", "architecture")
    return key not in named and value not in (None, "", [], {})


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
