"""Why is someone ahead of me?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from scheduling.services import now, share_ahead
from scheduling.store.queries import pool
from scheduling.store.queries.access import Actor
from scheduling.web.access import signed_in
from scheduling.web.share_ahead_words import ASSUMES, foreseen
from scheduling.web.share_words import compared, example, headline, ledger, lost_words


@signed_in
def share(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The three ledgers in words and numbers: what is due, what was used, and the score that orders the queue."""
    moment = now()
    found, later = share_ahead.shares(actor, moment)
    levels = _levels(pool.queues(moment))
    context = {
        "ledgers": [
            ledger(
                "Projects",
                _with_statements(found["projects"]),
                levels,
                about="Over all queues. The score that a job shows first.",
            ),
            ledger("Queues", found["queues"], levels, about="Whatever the project."),
            ledger(
                "People in projects",
                _with_statements(found["users"]),
                levels,
                about="Each within the share of the project.",
            ),
        ],
        "compared": compared(found["ledgers"]),
        "lost": lost_words(found["lost"]),
        "days": found["half_life_s"] / 86_400,
        "sentence": headline(found["projects"]),
        "levels": levels,
        "foreseen": foreseen(later),
        "assumes": ASSUMES,
        "example": example(found["projects"], levels),
    }
    return render(request, "share.html", context)


def _with_statements(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with what asks for its statement."""
    asked = (
        {"project": row["project"], "user": row["name"]} if "project" in row else {"project": row["name"]}
        for row in rows
    )
    return [{**row, "statement": urlencode(query)} for row, query in zip(rows, asked, strict=True)]


def _levels(queues: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every priority's number once with its names, the lowest first."""
    names: dict[int, list[str]] = {}
    for queue in queues:
        for level in queue["levels"]:
            known = names.setdefault(level["value"], [])
            known += [level["name"]] if level["name"] not in known else []
    return [{"value": value, "names": "/".join(found)} for value, found in sorted(names.items())]
