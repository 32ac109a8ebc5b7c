"""How shares will go on, as sentences: what is foreseen of each, when who is ahead falls behind, what is assumed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduling.services.share_ahead import ASSUMED, DAYS, WITHIN_DAYS, Foreseen

ASSUMES = f"No promise: it is so if {ASSUMED}. Whoever starts a job goes up by all that it may use, at once."


def foreseen(found: Iterable[Foreseen]) -> list[dict[str, Any]]:
    """Of each project a sentence in parts, of which some are instants."""
    return [{"name": each.name, "parts": parts(each)} for each in found if not each.project]


def parts(found: Foreseen) -> list[dict[str, Any]]:
    """The sentence of one, as texts and instants: ``{"text": ...}`` and ``{"at": ...}``."""
    now, then = found.points[0], found.points[-1]
    goes = (
        f"{found.name} goes from {_percent(now.used_of_target)} of its target now to "
        f"{_percent(then.used_of_target)} in {DAYS} days"
    )
    if found.ahead is None:
        return [{"text": f"{goes}. Nobody is ahead of it."}]
    if found.falls_behind_at is None:
        return [{"text": f"{goes}. {found.ahead}, just ahead, does not fall behind it within {WITHIN_DAYS} days."}]
    return [
        {"text": f"{goes}. {found.ahead}, just ahead, falls behind it at about"},
        {"at": found.falls_behind_at},
    ]


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"
