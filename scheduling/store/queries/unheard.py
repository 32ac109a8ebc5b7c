"""Is a job on nodes that nobody hears of, and what follows from that? In words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduling.core.aftermath import Ended, aftermath
from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.words import MAX_NAMED, agree, instant_in_words
from scheduling.models import Attempt, Job
from scheduling.models.jobs import LIVE
from scheduling.store.clock import now, past_in_words
from scheduling.store.queries.silence import Silence, silences

UNHEARD = "UNHEARD"


def unheard(
    job: Job, attempt: Attempt | None, silent: Mapping[str, Silence] | None = None, at: datetime | None = None
) -> dict[str, Any] | None:
    """A reason like those of jobs that wait: code UNHEARD, which nodes of a live job are silent, since when, and what
    follows when; None while all are heard of.

    ``attempt`` is the job's newest, with its parts; ``job`` has its checkpoint. ``silent``: the nodes that are silent,
    if that is known; else they are looked up as of ``at``, or of now.
    """
    if attempt is None or job.state not in LIVE:
        return None
    silent = silences(at or now()) if silent is None else silent
    parts = attempt.nodes.all()
    quiet = [part.node.name for part in parts if part.ended_at is None and part.node.name in silent]
    if not quiet:
        return None
    ends = [end for name in quiet if (end := silent[name].until_ms) is not None]
    guarded = all(silent[name].guarded for name in quiet)
    numbers: dict[str, Any] = {"nodes": quiet, "guarded": guarded}
    if ends:
        numbers["until_ms"] = min(ends)
    told = [
        _who(quiet, len(parts), silent),
        "What the job does there is not known.",
        _what_follows(job, len(quiet), min(ends, default=None), guarded=guarded),
    ]
    return {"code": UNHEARD, "message": " ".join(told), "numbers": numbers}


def _who(quiet: Sequence[str], parts: int, silent: Mapping[str, Silence]) -> str:
    since = {name: past_in_words(silent[name].since) for name in quiet}
    if len(quiet) == 1:
        return f"{quiet[0]} has not been heard of since {since[quiet[0]]}."
    shown = quiet if len(quiet) <= MAX_NAMED + 1 else quiet[:MAX_NAMED]
    named = ", ".join(f"{name} since {since[name]}" for name in shown)
    rest = f" and {len(quiet) - len(shown)} more" if len(shown) < len(quiet) else ""
    return f"{len(quiet)} of its {parts} nodes have not been heard of: {named}{rest}."


def _what_follows(job: Job, quiet: int, until_ms: int | None, *, guarded: bool) -> str:
    they, are, them = (agree(quiet, *words) for words in (("it", "they"), ("is", "are"), ("it", "them")))
    if until_ms is None:
        return (
            f"So many nodes fell silent together that nothing is taken back from {them} until {they} "
            f"{agree(quiet, 'returns', 'return')} or an operator confirms that {they} {are} gone."
        )
    sooner = f", or as soon as an operator confirms that {they} {are} gone" if guarded else ""
    return f"Unless {they} {are} heard of by {instant_in_words(until_ms)}, the job {_becomes(job)}{sooner}."


def _becomes(job: Job) -> str:
    """What becomes of a job that loses a node, as the end of a sentence."""
    lost = Ended(JobState(job.state), "LOST", infra_failures=job.infra_failures)
    event = aftermath(lost, DEFAULT_POLICY).event  # the budget of lost infrastructure is nobody's to set
    if event is JobEvent.STOPPED:
        return "counts as cancelled"
    if event is JobEvent.FAIL:
        return "fails: it was lost to the infrastructure as often before as it may be"
    if job.resume is None or job.resume.corrupt:
        return "is taken back and starts again from its beginning, since it has no checkpoint"
    step = f", step {job.resume_step}" if job.resume_step else ""
    return f"is taken back and starts again from its newest checkpoint{step}"
