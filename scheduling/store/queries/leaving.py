"""Why does a running job stop and leave its GPUs? In words, by who asked it to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from scheduling.core.lifecycle import GpuState
from scheduling.core.words import instant_in_words
from scheduling.models import Attempt, AttemptNode, Job
from scheduling.store.clock import to_ms
from scheduling.store.node_names import named
from scheduling.store.transfers import SAVING

SHORT = {
    "drain": "a node of it is being emptied",
    "time_limit": "its time limit was reached",
    "lost": "a node of it has failed",
}


def why_it_leaves(job: Job, attempt: Attempt) -> dict[str, Any]:
    """A reason like those of jobs that wait: code LEAVING, until when it may save (unless it is stopped at once), what
    happens then, whether it has saved, and what would be lost.

    ``attempt`` has its parts, its allocations, and the job that it leaves for; ``job`` its queue and its checkpoint.
    """
    numbers: dict[str, Any] = {"why": attempt.why}
    if attempt.stop_by is not None and attempt.action != "kill":
        numbers["until_ms"] = to_ms(attempt.stop_by)
    return {
        "code": "LEAVING",
        "message": " ".join(filter(None, [f"Asked to leave its GPUs: {_words(attempt)}.", *_saving(job, attempt)])),
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


def _saving(job: Job, attempt: Attempt) -> Iterator[str]:
    """Its time to save, and how far it is with that, in sentences."""
    resume = job.resume if job.resume is not None and not job.resume.corrupt else None
    saved_at = job.resume_saved_at if resume is not None else None
    saved = saved_at is not None and attempt.asked_at is not None and saved_at > attempt.asked_at
    of_which = f"step {job.resume_step}" if job.resume_step else "a checkpoint"
    killed = attempt.action == "kill"
    until = _instant(attempt.stop_by) if attempt.stop_by is not None and not killed else ""
    if saved:
        yield f"It has saved {of_which} since, and {_stops(until, killed=killed)}."
        return
    spared = not killed and _runs_on(job, attempt)
    if killed:
        yield "It is being stopped at once."
    elif until:
        then = "if it has not saved by then, it runs on" if spared else "then it is stopped"
        yield f"It has until {until} to save; {then}."
    if any((part.transfer or {}).get("what") == SAVING for part in attempt.nodes.all()):
        yield "Its checkpoint is being stored."
        return
    newest = f"Its newest checkpoint is {of_which}" if resume is not None else "It has no checkpoint"
    began = attempt.started_at
    if began is None:
        yield f"{newest}, and it has not begun to work."
        return
    since = saved_at if saved_at is not None and saved_at > began else None
    lost = f"its work since {_instant(since)}" if since else f"all its work since it started on {_instant(began)}"
    if killed:
        yield f"{newest}: it loses {lost}."
        return
    at_stake = "" if spared else f": stopped unsaved it would lose {lost}"
    yield f"It has not said yet that it saved. {newest}{at_stake}."


def _stops(until: str, *, killed: bool) -> str:
    if killed:
        return "is being stopped at once"
    return f"stops by {until}" if until else "stops"


def _runs_on(job: Job, attempt: Attempt) -> bool:
    """Whether it is not stopped where it does not save: of such a queue, and whole as yet."""
    careful = attempt.why == "preempt" and job.queue is not None and job.queue.never_without_checkpoint
    return careful and not any(part.ended_at for part in attempt.nodes.all())


def _instant(moment: datetime) -> str:
    return instant_in_words(to_ms(moment))


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
        return _left_by(first) if first else "another of its nodes has left it"
    return SHORT.get(attempt.why, "it was asked to")


def _left_by(part: AttemptNode) -> str:
    """How a node's part ended for which the others stop. A lost part may be its keeper's fault, so it says why."""
    if part.outcome != "LOST":
        return f"{named(part.node.name)} has left it ({part.outcome})"
    why = str(part.end.get("error") or "")[:300]
    return f"its part on {named(part.node.name)} was lost{f' ({why})' if why else ''}"
