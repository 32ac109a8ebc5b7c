"""A job that saves and leaves its GPUs says why, on its page and in REST, by who asked it to."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduling.core.lifecycle import GpuState
from scheduling.core.words import instant_in_words
from scheduling.models import Artifact, Attempt, AttemptNode, Gpu, Job, Queue
from scheduling.store.clock import to_ms
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.services.test_eviction import GRACE_S, World

pytestmark = pytest.mark.django_db

BY = instant_in_words(to_ms(b.later(100 + GRACE_S)))
UNSAVED = (
    f"It has until {BY} to save; then it is stopped. It has not said yet that it saved. It has no checkpoint: stopped "
    f"unsaved it would lose all its work since it started on {instant_in_words(to_ms(b.NOON))}."
)


def reasons(job: str) -> list[dict]:
    return queries.as_dict(queries.full(Job.objects.filter(pk=job)).get(), holds={})["reasons"]


def leaving(**attempt) -> World:
    """A job that was asked to leave as the row of its attempt says."""
    made = World()
    made.evicted()
    Attempt.objects.filter(pk=made.victim.attempt).update(**attempt)
    return made


def test_one_that_makes_way_says_for_which_level_and_queue_and_until_when_it_may_save():
    made = leaving()
    assert reasons(made.victim.job) == [
        {
            "code": "LEAVING",
            "message": f"Asked to leave its GPUs: they are needed by a Critical job of queue merge. {UNSAVED}",
            "numbers": {"why": "preempt", "until_ms": to_ms(b.later(100 + GRACE_S))},
        }
    ]


def test_its_page_and_rest_say_so():
    made, client = leaving(), Client()
    assert client.login(username="alice", password=b.PASSWORD)
    words = "they are needed by a Critical job of queue merge"
    page = client.get(f"/jobs/{made.victim.job}/").content.decode()
    assert (words in page, "Why it waits" in page) == (True, False)
    assert words in client.get(f"/api/v1/jobs/{made.victim.job}/").json()["reasons"][0]["message"]


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("drain", "a node of it is being emptied"),
        ("time_limit", "its time limit was reached"),
        ("peer", "another of its nodes has left it"),
        ("health", "a GPU is failing"),
    ],
)
def test_whoever_asked_is_told(why, words):
    made = leaving(why=why)
    assert reasons(made.victim.job)[0]["message"] == f"Asked to leave its GPUs: {words}. {UNSAVED}"


def test_a_failing_gpu_is_named():
    made = leaving(why="health")
    Gpu.objects.filter(uuid=made.victim.gpus[1]).update(state=GpuState.UNHEALTHY)
    assert reasons(made.victim.job)[0]["message"].startswith("Asked to leave its GPUs: GPU n1/1 is failing. ")


def test_the_node_that_has_left_it_is_named():
    made = leaving(why="peer")
    Attempt.objects.get(pk=made.victim.attempt).nodes.update(ended_at=b.later(101), outcome="FAILED")
    assert reasons(made.victim.job)[0]["message"].startswith("Asked to leave its GPUs: node n1 has left it (FAILED). ")


def test_of_a_lost_part_it_says_why_since_that_need_not_be_the_node():
    made, why = leaving(why="peer"), "its keeper hung for 5 s, so the agent ended it"
    parts = Attempt.objects.get(pk=made.victim.attempt).nodes
    parts.update(ended_at=b.later(101), outcome="LOST", end={"outcome": "LOST", "error": why})
    assert reasons(made.victim.job)[0]["message"].startswith(
        f"Asked to leave its GPUs: its part on node n1 was lost ({why}). "
    )


def test_a_job_that_runs_says_nothing():
    assert reasons(World().victim.job) == []


def message_of(made: World) -> str:
    return reasons(made.victim.job)[0]["message"].partition("merge. ")[2]


def saved(made: World, seconds: float) -> None:
    """It saved at step 40 so many seconds after noon."""
    checkpoint = Artifact.objects.get(pk=made.saves(seconds))
    Job.objects.filter(pk=made.victim.job).update(resume=checkpoint, resume_step=40, resume_saved_at=b.later(seconds))


def test_what_it_saved_before_is_told_and_what_it_would_lose():
    made = leaving()
    saved(made, 60)
    at = instant_in_words(to_ms(b.later(60)))
    assert message_of(made).endswith(
        f"Its newest checkpoint is step 40: stopped unsaved it would lose its work since {at}."
    )


def test_one_that_has_saved_since_loses_nothing():
    made = leaving()
    saved(made, 110)
    assert message_of(made) == f"It has saved step 40 since, and stops by {BY}."


def test_one_whose_checkpoint_is_on_its_way_says_so():
    made = leaving()
    AttemptNode.objects.filter(attempt=made.victim.attempt).update(
        transfer=dict.fromkeys(("files", "of_files", "bytes", "of_bytes"), 1) | {"what": "saving checkpoint"}
    )
    with_stop = f"It has until {BY} to save; then it is stopped. Its checkpoint is being stored."
    assert reasons(made.victim.job)[0]["message"].endswith(with_stop)


def test_one_that_may_not_be_stopped_unsaved_is_told_that_it_runs_on_and_of_no_loss():
    made = leaving()
    Queue.objects.update(never_without_checkpoint=True)
    assert message_of(made) == (
        f"It has until {BY} to save; if it has not saved by then, it runs on. It has not said yet that it saved. "
        "It has no checkpoint."
    )


def test_one_that_has_lost_a_node_is_stopped_though_its_queue_spares_its_jobs():
    made = leaving()
    Queue.objects.update(never_without_checkpoint=True)
    Attempt.objects.get(pk=made.victim.attempt).nodes.update(ended_at=b.later(101), outcome="LOST")
    assert message_of(made) == UNSAVED


def test_one_that_is_killed_is_told_that_and_what_it_loses():
    made = leaving(why="health", action="kill")
    (reason,) = reasons(made.victim.job)
    assert reason["message"] == (
        "Asked to leave its GPUs: a GPU is failing. It is being stopped at once. It has no checkpoint: it loses all "
        f"its work since it started on {instant_in_words(to_ms(b.NOON))}."
    )
    assert reason["numbers"] == {"why": "health"}


def test_one_that_is_killed_after_it_has_saved_loses_nothing():
    made = leaving(action="kill")
    saved(made, 110)
    assert message_of(made) == "It has saved step 40 since, and is being stopped at once."


def test_an_operators_drain_stops_that_one_too():
    made = leaving(why="drain")
    Queue.objects.update(never_without_checkpoint=True)
    assert f"It has until {BY} to save; then it is stopped." in reasons(made.victim.job)[0]["message"]
