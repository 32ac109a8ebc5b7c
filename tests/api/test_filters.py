"""Filters of lists: a value that can't be is refused with those that can, and tells nothing of other projects."""

from __future__ import annotations

import pytest

from scheduling.core.lifecycle import JobState
from tests import builders as b
from tests.api.calls import error, problem, world

pytestmark = pytest.mark.django_db

STATES = [*(state.value for state in JobState), "waiting", "live", "ended"]
KINDS_OF_ARTIFACTS = ["model", "checkpoint", "dataset", "eval", "output", "log"]


@pytest.mark.parametrize(
    ("query", "field", "limit"),
    [
        ("jobs/?state=FOO", "state", STATES),
        ("jobs/?state=QUEUED,FOO", "state", STATES),
        ("jobs/?kind=mreg", "kind", ["command", "evaluate", "evolve", "infer", "merge"]),
        ("jobs/?queue=merg", "queue", ["merge", "eval", "inference"]),
        ("jobs/?project=alhpa", "project", ["alpha"]),
        ("jobs/?user=alise", "user", ["me", "alice"]),
        ("artifacts/?kind=modell", "kind", KINDS_OF_ARTIFACTS),
        ("artifacts/?project=alhpa", "project", ["alpha"]),
    ],
)
def test_a_value_that_no_row_can_have_is_refused_with_those_that_can(query, field, limit):
    found = error(world(node=False).alice.get(query), 400, field, f"unknown_{field}")
    assert found["limit"] == limit
    assert f"give one of {', '.join(limit)}, or leave {field} out" in found["message"]


def test_everything_wrong_with_a_filter_is_told_at_once():
    answer = world(node=False).alice.get("jobs/?state=FOO&kind=x&user=nobody")
    assert [each["field"] for each in problem(answer, 400)["errors"]] == ["state", "kind", "user"]


@pytest.mark.parametrize("query", ["project=beta", "user=bob"])
def test_what_one_may_not_know_of_reads_like_what_there_is_not(query):
    w = world()
    b.node("n2")
    b.submitted(w.who["bob"], b.command_body(project="beta"))
    field, _, name = query.partition("=")
    known, unknown = (w.alice.get(f"jobs/?{field}={word}") for word in (name, "zzz"))
    messages = [error(answer, 400, field, f"unknown_{field}")["message"] for answer in (known, unknown)]
    assert messages[0].split(";")[1] == messages[1].split(";")[1]
    assert w.caller("admin").get(f"jobs/?{query}").json()["results"][0]["user"] == "bob"


def test_jobs_of_somebody_who_has_left_the_project_are_still_found():
    w = world()
    b.submitted(w.who["admin"], w.body(name="of admin"))
    assert [job["name"] for job in w.alice.get("jobs/?user=admin").json()["results"]] == ["of admin"]


@pytest.mark.parametrize(
    "query", ["state=queued,live", "kind=command", "queue=eval", "project=alpha", "user=me", "user="]
)
def test_a_value_that_a_row_can_have_is_taken_though_no_row_has_it(query):
    assert world(node=False).alice.get(f"jobs/?{query}").json()["results"] == []


def test_where_no_parameter_is_taken_the_sentence_says_so():
    found = error(world().alice.get("pool/windows/?x=1"), 400, "x", "unknown_parameter")
    assert found["message"] == "there is no parameter 'x'; none is taken here: remove it"
