"""How did some days go? Waits, GPUs held, shares and preemptions in one telling of them, and who fares otherwise in
another."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scheduling.simulation.past import Life
from scheduling.simulation.report import percentile

HOUR_MS = 3_600_000
MAX_MOVED = 200
MAX_PARTS = 400  # people, projects or priorities that are told of
# Figures that any group of jobs has, in the order in which they are told.
GROUP = ("jobs", "started", "mean_wait_s", "p95_wait_s", "preemptions", "gpu_hours")


def told(lives: Sequence[Life], *, from_ms: int, until_ms: int, gpus: int, parts: int) -> dict[str, Any]:
    """The figures of all jobs and by priority, queue, project and person, and the GPUs held over time.

    Waits are of jobs that had not started before ``from_ms``: from when they could start to their first start; for one
    that has not started, to ``until_ms``. ``gpus``: how many there are; ``parts``: into how many equal parts the time
    is cut for the series, of which each value is a mean number of GPUs.
    """
    width = max(1, (until_ms - from_ms) // parts)
    taken = [life for life in lives if not life.rejected]
    held = {life.id: _within(life, from_ms, until_ms) for life in taken}
    whole = sum(held.values())
    capacity = gpus * (until_ms - from_ms)
    group = _Group(held, from_ms, until_ms)
    return {
        **group.of(taken),
        "rejected": len(lives) - len(taken),
        "gpus": gpus,
        "utilization": round(whole / capacity, 6) if capacity else None,
        "priorities": group.by(taken, lambda life: life.level, order=lambda life: (-life.level_value, life.level)),
        "queues": group.by(taken, lambda life: life.queue),
        "projects": group.by(taken, lambda life: life.project, whole=whole),
        "users": group.by(taken, lambda life: f"{life.project}/{life.user}", whole=whole),
        "series": _series(taken, from_ms, width, parts),
    }


def moved(before: Iterable[Life], after: Iterable[Life], *, from_ms: int, until_ms: int) -> dict[str, Any]:
    """Who waited longer and who shorter in ``after``, by how many seconds, those that moved most first."""
    then = {life.id: life for life in before}
    rows = []
    for life in after:
        old = then[life.id]
        if _started_earlier(life, from_ms) or (old.rejected and life.rejected):
            continue
        waits = [None if each.rejected else wait_s(each, until_ms) for each in (old, life)]
        if waits[0] != waits[1] or old.preemptions != life.preemptions:
            rows.append(_moved(old, life, *waits))
    rows.sort(key=lambda row: (-abs(row["later_s"] if row["later_s"] is not None else math.inf), row["job"]))
    later = [row["later_s"] for row in rows if row["later_s"] is not None]
    return {
        "sooner": sum(1 for each in later if each < 0),
        "later": sum(1 for each in later if each > 0),
        "jobs": rows[:MAX_MOVED],
    }


def wait_s(life: Life, until_ms: int) -> float:
    """How long it waited for its first start, or up to the end of the days, in seconds."""
    return max(0, (until_ms if life.started_ms is None else life.started_ms) - life.due_ms) / 1000


def _moved(old: Life, new: Life, before: float | None, after: float | None) -> dict[str, Any]:
    return {
        "job": new.id, "project": new.project, "priority": new.level, "gpus": new.gpus,
        "wait_before_s": before, "wait_after_s": after,
        "later_s": None if before is None or after is None else round(after - before, 3),
        "started_before": old.started_ms is not None, "started_after": new.started_ms is not None,
        "preemptions_before": old.preemptions, "preemptions_after": new.preemptions,
    }  # fmt: skip


def _started_earlier(life: Life, from_ms: int) -> bool:
    return life.started_ms is not None and life.started_ms < from_ms


def _within(life: Life, from_ms: int, until_ms: int) -> int:
    """GPU-ms that it held in these days."""
    return life.gpus * sum(max(0, min(end, until_ms) - max(start, from_ms)) for start, end in life.held)


class _Group:
    """The figures of some of the jobs."""

    def __init__(self, held: Mapping[str, int], from_ms: int, until_ms: int) -> None:
        self._held, self._from_ms, self._until_ms = held, from_ms, until_ms

    def of(self, lives: Sequence[Life]) -> dict[str, Any]:
        """Those of these jobs."""
        waited = [life for life in lives if not _started_earlier(life, self._from_ms)]
        waits = [wait_s(life, self._until_ms) for life in waited if life.due_ms < self._until_ms]
        return {
            "jobs": len(waits),
            "started": sum(1 for life in waited if life.started_ms is not None),
            "mean_wait_s": round(math.fsum(waits) / len(waits), 3) if waits else None,
            "p95_wait_s": percentile(waits, 95),
            "preemptions": sum(life.preemptions for life in lives),
            "gpu_hours": round(sum(self._held[life.id] for life in lives) / HOUR_MS, 4),
        }

    def by(
        self, lives: Sequence[Life], key: Callable[[Life], str], *, order: Callable[[Life], Any] | None = None,
        whole: int | None = None,
    ) -> dict[str, dict[str, Any]]:  # fmt: skip
        """Those of each group; with ``whole``, all GPU-ms that were held, also which share of it the group held."""
        groups: dict[str, list[Life]] = defaultdict(list)
        for life in sorted(lives, key=order or key):
            groups[key(life)].append(life)
        found = {}
        for name, members in list(groups.items())[:MAX_PARTS]:
            found[name] = self.of(members)
            if whole is not None:
                had = sum(self._held[life.id] for life in members)
                found[name]["share"] = round(had / whole, 6) if whole else None
        return found


def _series(lives: Iterable[Life], from_ms: int, width: int, parts: int) -> dict[str, Any]:
    """Mean GPUs held in each part of the time, by project, and how many jobs waited in the mean."""
    held: dict[str, list[float]] = {}
    waiting = [0.0] * parts
    for life in lives:
        row = held.setdefault(life.project, [0.0] * parts)
        for start, end in life.held:
            _add(row, start - from_ms, end - from_ms, life.gpus, width)
        end = from_ms + width * parts if life.started_ms is None else life.started_ms
        _add(waiting, life.due_ms - from_ms, end - from_ms, 1, width)
    return {
        "part_s": width / 1000,
        "projects": {name: [round(value, 3) for value in row] for name, row in sorted(held.items())},
        "waiting": [round(value, 3) for value in waiting],
    }


def _add(row: list[float], start: int, end: int, much: int, width: int) -> None:
    """``much`` from ``start`` to ``end`` (ms from the beginning) is in the means of the parts that this touches."""
    start, end = max(0, start), min(end, width * len(row))
    place = start // width
    while start < end:
        until = min(end, (place + 1) * width)
        row[place] += much * (until - start) / width
        start, place = until, place + 1
