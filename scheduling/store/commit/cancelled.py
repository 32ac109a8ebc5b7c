"""Who cancelled a job, and where would a retry of it begin? In words for its timeline."""

from __future__ import annotations

from scheduling.models import Event, Job
from scheduling.store.clock import past_in_words
from scheduling.store.commit.resuming import Beginning

DONE = "it was done by then, and its results are dropped"


def by_whom(job: Job) -> str:
    """``alice cancelled it``, by the event of the cancel; without a name where there is none."""
    asked = Event.objects.filter(object="job", object_id=str(job.pk), type="cancelling").order_by("-id")
    actor = asked.values_list("actor", flat=True).first()
    return f"{actor.removeprefix('user ')} cancelled it" if actor else "it was cancelled"


def where_a_retry_begins(newest: Beginning) -> str:
    """``a retry begins at step 30, saved 2 Mar 2026, 14:00 UTC``."""
    if newest.artifact is None:
        return "it saved nothing: a retry begins from the beginning"
    where = f"at step {newest.step}" if newest.step else "with its checkpoint"
    return f"a retry begins {where}" + (f", saved {past_in_words(newest.saved_at)}" if newest.saved_at else "")
