"""Fair share as sentences: who is ahead of whom, and by which numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Rows = Sequence[Mapping[str, Any]]
_WORDS = {"queue": "queues", "project": "projects", "user": "people in a project"}


def compared(ledgers: Sequence[str]) -> str:
    """What decides between two jobs of one priority, in the order in which it is asked."""
    return f"{', then '.join(_WORDS[name] for name in ledgers)}, then the time of submission"


CAUSES = {
    "preempt": "preempted for jobs of higher priority",
    "health": "on GPUs that failed",
    "drain": "on nodes that were emptied",
    "lost": "on nodes that failed or whose keeper did",
}


def lost_words(rows: Rows) -> list[dict[str, Any]]:
    """What was lost and given back, with each cause as words."""
    return [{**row, "words": f"{CAUSES[row['cause']]}{_in_vain(row)}"} for row in rows]


def _in_vain(row: Mapping[str, Any]) -> str:
    return f" ({row['in_vain']} of them in vain: the GPUs were not taken then)" if row["in_vain"] else ""


def headline(projects: Rows) -> str:
    """Who is first, in one sentence."""
    ranked = _ranked(projects)
    if not ranked:
        return "Nobody is ahead: no project has work waiting or running."
    if len(ranked) == 1:
        return f"Only {ranked[0]['name']} has work, so nobody is ahead of it."
    first, last = ranked[0], ranked[-1]
    if first["deficit"] == last["deficit"]:
        return "All projects with work have had the same part of their share: submission time decides."
    least = f"{first['name']} is first: it has had the least of its share"
    return f"Within a priority, {least}; {last['name']} has had the most."


def ledger(title: str, rows: Rows, levels: Rows, *, about: str) -> dict[str, Any]:
    """One table: its rows, those that go first on top and those without work at the end, each with its sentence."""
    groups = sorted({row.get("project", "") for row in rows})
    shown: list[dict[str, Any]] = []
    for group in groups:
        peers = [row for row in rows if row.get("project", "") == group]
        ranked = _ranked(peers)
        others = [row for row in peers if row["deficit"] is None]
        shown += [_row(row, ranked, levels) for row in [*ranked, *others]]
    return {"title": title, "about": about, "rows": shown}


def example(projects: Rows, levels: Rows) -> dict[str, Any] | None:
    """The formula with the numbers of the project that is first; None while none has work."""
    ranked = _ranked(projects)
    if not ranked or not levels:
        return None
    row = ranked[0]
    level = next((each for each in levels if "Normal" in each["names"]), levels[0])
    return {
        "name": row["name"], "level": level["names"], "value": level["value"], "target": row["target_gpu_h"],
        "used": _used(row), "score": _score(level["value"], row),
    }  # fmt: skip


def _ranked(rows: Rows) -> list[Mapping[str, Any]]:
    """Those that have a score, whoever has had least of its share first."""
    return sorted((row for row in rows if row["deficit"] is not None), key=lambda row: -row["deficit"])


def _used(row: Mapping[str, Any]) -> float:
    return float(row["consumed_gpu_h"] + row["in_flight_gpu_h"])


def _score(value: int, row: Mapping[str, Any]) -> float:
    return float(value * (1 + row["deficit"]))


def _row(row: Mapping[str, Any], ranked: Rows, levels: Rows) -> dict[str, Any]:
    target, used = row["target_gpu_h"], _used(row)
    counts = row["deficit"] is not None
    return {
        **row,
        "used": used,
        "percent": 100 * used / target if counts else None,
        "sentence": _sentence(row, ranked),
        "scores": [{"level": each["names"], "score": _score(each["value"], row)} for each in levels] if counts else [],
    }


def _sentence(row: Mapping[str, Any], ranked: Rows) -> str:
    """What the row's place comes from."""
    used, name = _used(row), row["name"]
    if row["deficit"] is None:
        if row["active"]:
            return f"{name} has weight 0: nothing is due to it, so its jobs go last in their priority."
        had = f" It has {used:,.2f} GPU-hours on its account." if used else ""
        return f"No work of {name} waits or runs, so nothing is due to it now.{had}"
    said = f"{name} has used {used:,.2f} of its {row['target_gpu_h']:,.2f} GPU-hours"
    place = ranked.index(row)
    ahead, behind = ranked[:place], ranked[place + 1 :]
    if behind and behind[0]["deficit"] < row["deficit"]:
        return f"{said}, so it goes before {_names(behind, row['deficit'])}."
    if ahead and ahead[-1]["deficit"] > row["deficit"]:
        return f"{said}, so it goes after {_names(ahead, row['deficit'])}."
    if ahead or behind:
        return f"{said}, the same part as {_names([*ahead, *behind], None)}: submission time decides between them."
    return f"{said}; nobody else here has work."


def _names(rows: Rows, deficit: float | None) -> str:
    """The names of those that differ, at most three of them."""
    names = [str(row["name"]) for row in rows if row["deficit"] != deficit]
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
