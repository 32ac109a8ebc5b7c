"""What waits to be told of an attempt, when more of it comes than the server needs to hear?"""

from __future__ import annotations

from typing import Any

MAX_QUEUE = 2000
# Of these only the newest says anything, and what has come to its end.
NEWEST_ONLY = ("progress", "ready", "transfer")


def with_report(queue: list[dict[str, Any]], report: dict[str, Any]) -> list[dict[str, Any]]:
    """The queue with the report at its end; the oldest metric makes room in a full one."""
    if report["type"] in NEWEST_ONLY:
        queue = [r for r in queue if r["type"] != report["type"] or r.get("over")]
    queue = [*queue, report]
    return queue if len(queue) <= MAX_QUEUE else _without_oldest_metric(queue)


def _without_oldest_metric(queue: list[dict[str, Any]]) -> list[dict[str, Any]]:
    oldest = next((i for i, r in enumerate(queue) if r["type"] == "metric"), None)
    return queue if oldest is None else queue[:oldest] + queue[oldest + 1 :]
