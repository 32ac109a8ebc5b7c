"""Which waiting job is to give way to a new one, may it, and does the new one keep its place in the queue?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.core.fields import shown
from scheduling.core.lifecycle import LIVE, JobState
from scheduling.core.naming import is_job_id
from scheduling.core.resources import Submission
from scheduling.core.words import duration_in_words
from scheduling.services.same_work import Work, is_same
from scheduling.store.commit.replacing import is_replaceable
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.access import Actor

FIELD = "replaces"
UNKNOWN = "unknown_job"
OR_NOT = "submit it without replaces to have it beside what there is"


def find(value: Any, actor: Actor) -> tuple[Any, tuple[dict[str, Any], ...]]:
    """(the row of the job that ``replaces`` names, errors): none of either where it names none.

    Whom the actor may cancel he may replace: the jobs of his projects that wait and never had GPUs.
    """
    if not is_job_id(value):
        return None, ()  # it names none, or what it is has been refused as no id
    row = queries.one(actor, value)
    if row is None:
        wrong = f"there is no job {shown(value)} that you may replace: give the id of a waiting job, or {OR_NOT}"
        return None, (_refusal(UNKNOWN, wrong),)
    if not is_replaceable(row):
        return None, (_too_late(row),)
    return row, ()


def is_same_work(row: Any, submission: Submission, resolved: Mapping[str, Any]) -> bool:
    """Whether the new job, with its ``resolved`` parameters and inputs, goes on with a checkpoint of the row's job."""
    return is_same(
        Work(row.kind, row.params, row.spec.get("inputs", ())),
        Work(submission.kind, resolved["params"], resolved["inputs"]),
    )


def begins_anew(row: Any, submission: Submission, resolved: Mapping[str, Any]) -> str:
    """Why the new job gives up the checkpoint with which the row's job, a retry, would begin; "" when it does not."""
    if row.retry_of_id is None or row.resume_id is None or is_same_work(row, submission, resolved):
        return ""
    return f"its kind or params are not those of {row.name}, which would go on at step {row.resume_step}"


def told(row: Any, submission: Submission, actor: Actor) -> str:
    """What a future says in which the submission has taken the place of the row's job."""
    why = new_place(row, submission, actor)
    place = f"at a new place: {why}" if why else "at its place"
    words = f"{row.name} (job {row.pk}) is cancelled for the job, which stands {place}"
    return words + ("; it is held, and so the job would be: played out is as if it were released" * is_held(row))


def _too_late(row: Any) -> dict[str, Any]:
    """Why a job that there is can't be replaced, and what to do."""
    state = JobState(row.state)
    if (newest := queries.newest_in_place_of(row)) is not None:
        by = f"{newest.name} (job {newest.pk})"
        to_do = f": replace that one, or {OR_NOT}"
        if not is_replaceable(newest):
            to_do = f", which {_stands(newest)}; {OR_NOT}"
        message = f"job {row.pk} was already replaced, now by {by}{to_do}"
        return _refusal("already_replaced", message, str(newest.pk))
    if state is JobState.REJECTED:
        return _refusal("not_waiting", f"job {row.pk} was refused and has no place in the queue; {OR_NOT}")
    if not row.attempt_number:
        return _refusal("not_waiting", f"job {row.pk} {_stands(row)}; {OR_NOT}")
    if state in LIVE:
        to_do = "cancel it first if its work may be lost"
    else:
        to_do = (
            "there is nothing to take the place of" if row.is_terminal else "cancel it yourself if its work may be lost"
        )
    return _refusal("already_started", f"job {row.pk} {_stands(row)}: {to_do}; {OR_NOT}")


def _stands(row: Any) -> str:
    """How far the job is that can't be replaced any more, as the end of a sentence."""
    if not row.attempt_number:
        return f"is {row.state} and waits no more"
    if row.state in LIVE:
        return "has started"
    return f"has run and is {row.state}" if row.is_terminal else f"has run before and is {row.state} again"


def _refusal(code: str, message: str, limit: str | None = None) -> dict[str, Any]:
    return {"field": FIELD, "code": code, "message": message, "limit": limit}


def is_held(row: Any) -> bool:
    """Whether the job is held, as the one in its place will be."""
    return bool(row.state == JobState.HELD)


def new_place(row: Any, submission: Submission, actor: Actor) -> str:
    """Why the new job can't stand where the one of the row stands; "" when it does, as nobody behind is worse off."""
    request = submission.request
    if submission.project != row.project.name:
        return "it belongs to another project"
    if actor.user_id != row.user_id:
        return f"the place was {row.user.get_username()}'s"
    if submission.queue != row.queue.name:
        return f"it goes to another queue than {row.queue.name}"
    if submission.level != row.level.name:
        return f"it has another priority than {row.level.name}"
    if request.gpu_count > row.gpu_count:
        return f"it asks for {request.gpu_count} GPUs instead of {row.gpu_count}"
    if request.max_duration_s > row.max_duration_s:
        was, is_ = duration_in_words(row.max_duration_s), duration_in_words(request.max_duration_s)
        return f"it asks for {is_} instead of {was}"
    return ""
