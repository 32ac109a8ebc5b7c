"""Why does a running job stop and leave its GPUs? In words, by who asked it to."""

from __future__ import annotations

from typing import Any

from scheduling.core.lifecycle import GpuState
from scheduling.models import Attempt
from scheduling.store.clock import to_ms
from scheduling.store.node_names import named

SHORT = {
    "drain": "a node of it is being emptied",
    "time_limit": "its time limit was reached",
    "lost": "a node of it was lost",
}


def why_it_leaves(attempt: Attempt) -> dict[str, Any]:
    """A reason like those of jobs that wait: code LEAVING, a sentence, and until when it may save, in ms.

    ``attempt`` has its parts, its allocations, and the job that it leaves for.
    """
    numbers: dict[str, Any] = {"why": attempt.why}
    if attempt.stop_by is not None:
        numbers["until_ms"] = to_ms(attempt.stop_by)
    return {
        "code": "LEAVING",
        "message": f"It saves a checkpoint and leaves its GPUs: {_words(attempt)}.",
        "numbers": numbers,
    }


def how_it_is_cancelled(attempt: Attempt) -> dict[str, Any]:
    """The reason of a job that is being cancelled: code CANCELLING, whether by force, and until when it may take."""
    force = attempt.action == "kill"
    numbers: dict[str, Any] = {"force": force}
    if attempt.stop_by is not None and not force:
        numbers["until_ms"] = to_ms(attempt.stop_by)
    where = "its nodes were" if len(attempt.nodes.all()) > 1 else "its node was"
    message = (
        f"Being cancelled: {where} told to kill it at once, by force."
        if force
        else f"Being cancelled: {where} asked to stop it."
    )
    return {"code": "CANCELLING", "message": message, "numbers": numbers}


def _words(attempt: Attempt) -> str:
    wants = attempt.evicted_for
    if attempt.why == "preempt":
        whose = f"a {wants.level.name} job of queue {wants.queue.name}" if wants and wants.level and wants.queue else ""
        return f"they are needed by {whose or 'a job of a higher level'}"
    if attempt.why == "health":
        bad = [held.gpu for held in attempt.allocations.all() if held.gpu.state != GpuState.HEALTHY]
        names = ", ".join(f"{gpu.node.name}/{gpu.index}" for gpu in sorted(bad, key=lambda gpu: gpu.uuid))
        return (
            f"GPU {names} is failing" if len(bad) == 1 else f"GPUs {names} are failing" if bad else "a GPU is failing"
        )
    if attempt.why == "peer":
        left = [part for part in attempt.nodes.all() if part.ended_at is not None and part.outcome]
        first = min(left, key=lambda part: (part.ended_at, part.rank), default=None)
        return (
            f"{named(first.node.name)} has left it ({first.outcome})" if first else "another of its nodes has left it"
        )
    return SHORT.get(attempt.why, "it was asked to")
