"""What the board warns of beside what the plan itself says: what keeps jobs from being preempted as they should."""

from __future__ import annotations

from datetime import datetime

from scheduling.core.plan import Reason
from scheduling.core.words import jobs_in_words, names_in_words
from scheduling.store import checks
from scheduling.store.queries import evictions


def alarms(now: datetime, *, can_store: bool) -> list[Reason]:
    """The alarms of the moment, each with what it means and what to do."""
    found = []
    if not can_store:
        found.append(
            Reason(
                "STORE_DOWN",
                "The artifact store takes nothing (its directory can't be written, its disk is full, or "
                "its bucket does not answer): no job is preempted until it does. Make room or mend its rights.",
            )
        )
    corrupt = checks.corrupt()
    if corrupt:
        found.append(
            Reason(
                "ARTIFACTS_DAMAGED",
                f"{'1 artifact is' if corrupt == 1 else f'{corrupt} artifacts are'} damaged: stored bytes no longer "
                "match their sha256. No job begins with them. Store the same bytes once more, make them again by their "
                "jobs, or delete them (Artifacts, State: damaged).",
                (("artifacts", corrupt),),
            )
        )
    looping = evictions.loops(now)
    loops = len(looping)
    if loops:
        found.append(
            Reason(
                "EVICTION_LOOP",
                f"{jobs_in_words(loops)} {'was' if loops == 1 else 'were'} to evict the same job from the same GPUs "
                "a third time within an hour and may evict nobody for an hour: look at why it does not stay on them "
                f"({names_in_words(looping)}).",
                (("jobs", loops),),
            )
        )
    return found
