"""A job that saves and leaves its GPUs says why, on its page and in REST, by who asked it to."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduling.core.lifecycle import GpuState
from scheduling.models import Attempt, Gpu, Job
from scheduling.store.clock import to_ms
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.services.test_eviction import GRACE_S, World

pytestmark = pytest.mark.django_db


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
            "message": "It saves a checkpoint and leaves its GPUs: they are needed by a Critical job of queue merge.",
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
    assert reasons(made.victim.job)[0]["message"] == f"It saves a checkpoint and leaves its GPUs: {words}."


def test_a_failing_gpu_is_named():
    made = leaving(why="health")
    Gpu.objects.filter(uuid=made.victim.gpus[1]).update(state=GpuState.UNHEALTHY)
    assert reasons(made.victim.job)[0]["message"].endswith("leaves its GPUs: GPU n1/1 is failing.")


def test_the_node_that_has_left_it_is_named():
    made = leaving(why="peer")
    Attempt.objects.get(pk=made.victim.attempt).nodes.update(ended_at=b.later(101), outcome="LOST")
    assert reasons(made.victim.job)[0]["message"].endswith("leaves its GPUs: node n1 has left it (LOST).")


def test_a_job_that_runs_says_nothing():
    assert reasons(World().victim.job) == []
