"""Pipelines and sweeps over REST: submitted once, refused whole, listed, and cancelled together."""

from __future__ import annotations

import pytest

from scheduling.api.shapes import sets as shapes
from scheduling.models import Job, JobSet
from tests.api.calls import error, problem, world

pytestmark = pytest.mark.django_db

KINDS = {"pipeline": "pipelines", "sweep": "sweeps"}


@pytest.fixture
def w():
    return world()


def body(w, kind):
    if kind == "sweep":
        return {"job": w.body(), "over": {"gpu_count": [1, 2]}, "max_running": 1}
    return {"jobs": [{"key": "a", **w.body()}, {"key": "b", "after": ["a"], **w.body()}]}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_201_with_every_job_and_200_with_the_same_when_its_key_is_sent_again(w, kind):
    first = w.alice.post(f"jobs/{kind}/", body(w, kind), Idempotency_Key="k")
    made = first.json()
    assert (first.status_code, len(made["jobs"])) == (201, 2)
    assert {job[kind] for job in made["jobs"]} == {made["id"]}
    assert set(made) == set(shapes.SetShape().fields)
    again = w.alice.post(f"jobs/{kind}/", body(w, kind), Idempotency_Key="k")
    assert (again.status_code, again.json()["id"], Job.objects.count()) == (200, made["id"], 2)
    other = w.alice.post(f"jobs/{kind}/", {**body(w, kind), "x": 1}, Idempotency_Key="k")
    assert problem(other, 409)["code"] == "idempotency_conflict"


def test_a_key_of_a_pipeline_is_none_of_a_sweep_or_a_job(w):
    w.alice.post("jobs/pipeline/", body(w, "pipeline"), Idempotency_Key="k")
    problem(w.alice.post("jobs/sweep/", body(w, "sweep"), Idempotency_Key="k"), 409)
    problem(w.alice.post("jobs/", w.body(), Idempotency_Key="k"), 409)


@pytest.mark.parametrize("kind", KINDS)
def test_its_jobs_are_listed_by_its_id_and_nobody_elses_are(w, kind):
    made = w.alice.post(f"jobs/{kind}/", body(w, kind)).json()["id"]
    w.alice.post("jobs/", w.body())
    assert len(w.alice.get(f"jobs/?{kind}={made}").json()["results"]) == 2
    assert w.caller("bob").get(f"jobs/?{kind}={made}").json()["results"] == []
    assert w.alice.get(f"jobs/?{kind}=5f0f7f0e-0000-4000-8000-000000000000").json()["results"] == []
    error(w.alice.get(f"jobs/?{kind}=none"), 400, kind, f"no_{kind}_id")


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_them_are_cancelled_at_once_and_again(w, kind):
    made = w.alice.post(f"jobs/{kind}/", body(w, kind)).json()["id"]
    for _ in range(2):
        answer = w.alice.post(f"{KINDS[kind]}/{made}/cancel/")
        assert (answer.status_code, {job["state"] for job in answer.json()["jobs"]}) == (200, {"CANCELLED"})
    problem(w.caller("bob").post(f"{KINDS[kind]}/{made}/cancel/"), 404)
    problem(w.alice.post(f"{KINDS[kind]}/none/cancel/"), 404)
    error(w.alice.post(f"{KINDS[kind]}/{made}/cancel/", {"force": "yes"}), 422, "force", "not_a_boolean")


def test_a_faulty_pipeline_is_422_with_the_key_of_each_fault_and_nothing_is_stored(w):
    sent = body(w, "pipeline")
    sent["jobs"][1]["gpu_count"] = 0
    answer = w.alice.post("jobs/pipeline/", sent)
    assert problem(answer, 422)["code"] == "invalid_pipeline"
    assert error(answer, 422, "jobs.1.gpu_count", "out_of_range")["key"] == "b"
    assert (Job.objects.count(), JobSet.objects.count()) == (0, 0)


def test_a_circle_is_422_with_its_path(w):
    sent = body(w, "pipeline")
    sent["jobs"][0]["after"] = ["b"]
    assert error(w.alice.post("jobs/pipeline/", sent), 422, "jobs.0.after", "circle")["limit"] == ["a", "b", "a"]


def test_a_sweep_of_a_million_is_422_with_the_limit(w):
    sent = {"job": w.body(), "over": {"params.t": list(range(1000)), "params.seed": list(range(1000))}}
    answer = w.alice.post("jobs/sweep/", sent)
    assert error(answer, 422, "over", "too_many")["limit"] == 1000
    assert Job.objects.count() == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sent", [{}, {"jobs": None, "job": None, "over": None}, {"jobs": [[]], "job": [], "over": [7]},
                                  {"x": "\ud800"}, {"jobs": 10**400, "job": 10**400, "over": {"params.t": [10**400]}},
                                  {"jobs": [{"key": "a\x00"}], "job": {}, "over": {"params.t": ["\x00"]}}])  # fmt: skip
def test_what_is_none_is_422(w, kind, sent):
    assert problem(w.alice.post(f"jobs/{kind}/", sent), 422)["errors"]
    assert Job.objects.count() == 0


def test_a_value_that_no_database_could_keep_is_told_by_its_place(w):
    sent = {"job": w.body(), "over": {"params.dtype": ["float32", "a\x00b"]}}
    error(w.alice.post("jobs/sweep/", sent), 422, "over.params.dtype.1", "unusable")


def test_whoever_may_only_read_submits_none(w):
    for kind in KINDS:
        problem(w.caller("alice", "jobs:read").post(f"jobs/{kind}/", body(w, kind)), 403)


def test_the_event_of_each_job_says_that_it_was_submitted(w):
    made = w.alice.post("jobs/pipeline/", body(w, "pipeline")).json()["jobs"]
    told = [w.alice.get(f"jobs/{job['id']}/events/").json()["results"][0]["type"] for job in made]
    assert told == ["submitted", "submitted"]
