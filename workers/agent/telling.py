"""What waits to be told of an attempt, when more of it comes than the server needs to hear?"""

from __future__ import annotations

from typing import Any

from workers.agent.messages import StopAsked

MAX_QUEUE = 2000
# Of these only the newest says anything, and what has come to its end.
NEWEST_ONLY = ("progress", "ready", "transfer")
AT_ONCE = ("ready", "started", "stopping", "finished")
# What a node asks of a job by itself, so that nobody else can tell of it.
OF_THE_NODE = ("drain", "time_limit")


def with_report(queue: list[dict[str, Any]], report: dict[str, Any]) -> list[dict[str, Any]]:
    """The queue with the report at its end; the oldest metric makes room in a full one."""
    if report["type"] in NEWEST_ONLY:
        queue = [r for r in queue if r["type"] != report["type"] or r.get("over")]
    queue = [*queue, report]
    return queue if len(queue) <= MAX_QUEUE else _without_oldest_metric(queue)


def is_urgent(queue: list[dict[str, Any]], *, alive: bool) -> bool:
    """Whether something waits that should be told at once; of a job that is not alive its log, too."""
    return any(r["type"] in AT_ONCE or (r["type"] == "logs" and not alive) for r in queue)


def stopping(stop: StopAsked) -> list[dict[str, Any]]:
    """The report that the node asks its job to stop; none of what the server has asked for."""
    if stop.why not in OF_THE_NODE or stop.kill_at is None:
        return []
    return [{"type": "stopping", "why": stop.why, "had_s": stop.kill_at - stop.at, "asked_at": stop.at}]


def as_told(n: int, report: dict[str, Any], now: float) -> dict[str, Any]:
    """The report as number ``n`` of a message that is sent at ``now``: no clock of a node means anything elsewhere."""
    if "asked_at" not in report:
        return {"n": n, **report}
    rest = {name: value for name, value in report.items() if name != "asked_at"}
    return {"n": n, **rest, "ago_s": round(now - report["asked_at"], 3)}


def _without_oldest_metric(queue: list[dict[str, Any]]) -> list[dict[str, Any]]:
    oldest = next((i for i, r in enumerate(queue) if r["type"] == "metric"), None)
    return queue if oldest is None else queue[:oldest] + queue[oldest + 1 :]
