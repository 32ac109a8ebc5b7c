"""Jobs over REST: submitted once, listed in pages, moved by verbs, with their record."""

from __future__ import annotations

import threading
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from scheduling.api.shapes.jobs import JobShape
from scheduling.models import Attempt, Gpu, Job, MetricPoint
from tests import builders as b
from tests.api.calls import Caller, busy_world, error, problem, token, world

pytestmark = pytest.mark.django_db


def test_a_submission_is_201_with_the_job_and_its_address():
    w = world()
    answer = w.alice.post("jobs/", w.body())
    job = answer.json()
    assert (answer.status_code, job["state"], job["user"], job["gpu_count"]) == (201, "QUEUED", "alice", 2)
    assert w.alice.get(answer["Location"]).json()["id"] == job["id"]


def test_the_job_has_exactly_the_documented_members():
    w = world()
    assert w.alice.post("jobs/", w.body()).json().keys() == JobShape().fields.keys()


def test_the_same_key_and_body_again_is_200_with_the_same_job():
    w = world()
    first, again = (w.alice.post("jobs/", w.body(), Idempotency_Key="k1") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]


def test_the_same_key_and_body_again_is_the_same_job_even_when_it_would_now_be_refused():
    w = world()
    first = w.alice.post("jobs/", w.body(), Idempotency_Key="k1")
    b.node("n1", gpus=1)
    again = w.alice.post("jobs/", w.body(), Idempotency_Key="k1")
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


def test_the_same_key_with_another_body_is_409_and_names_the_job():
    w = world()
    made = w.alice.post("jobs/", w.body(), Idempotency_Key="k1").json()["id"]
    answer = w.alice.post("jobs/", w.body(name="other"), Idempotency_Key="k1")
    assert problem(answer, 409, "idempotency_conflict")["job"] == made


def test_two_people_may_use_the_same_key():
    w = world()
    admin = w.caller("admin")
    assert [c.post("jobs/", w.body(), Idempotency_Key="k").status_code for c in (w.alice, admin)] == [201, 201]


@pytest.mark.django_db(transaction=True)
def test_posts_at_the_same_time_with_one_key_make_one_job():
    w = world()
    caller_token, answers, together = token(w.who["alice"]), [], threading.Barrier(4)

    def post() -> None:
        try:
            together.wait(10)
            answers.append(Caller(caller_token).post("jobs/", w.body(), Idempotency_Key="k"))
        finally:
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert sorted(a.status_code for a in answers) == [200, 200, 200, 201]
    assert len({a.json()["id"] for a in answers}) == Job.objects.count() == 1


def test_without_a_key_the_same_body_makes_two_jobs():
    w = world()
    assert len({w.alice.post("jobs/", w.body()).json()["id"] for _ in range(2)}) == 2


def test_a_token_without_the_submit_scope_is_403_and_leaves_no_record():
    w = world()
    answer = w.caller("alice", "jobs:read").post("jobs/", w.body(gpu_count=0))
    assert problem(answer, 403, "scope_missing")["scope"] == "jobs:submit"
    assert not Job.objects.exists()


def test_submissions_are_throttled_with_a_time_to_wait(monkeypatch):
    from scheduling.api.jobs import SubmitThrottle

    monkeypatch.setattr(SubmitThrottle, "THROTTLE_RATES", {"submit": "2/min"})
    w = world()
    answers = [w.alice.post("jobs/", w.body()) for _ in range(3)]
    assert [a.status_code for a in answers] == [201, 201, 429]
    problem(answers[2], 429, "throttled")
    assert 1 <= int(answers[2]["Retry-After"]) <= 61
    assert w.alice.get("jobs/").status_code == 200


# ---------------------------------------------------------------- as of when


def test_a_waiting_job_tells_the_instant_of_its_reasons_estimate_and_alternatives(monkeypatch):
    w = world()
    b.running(w.who["alice"], w.models, gpu_count=2)
    job = b.submitted(w.who["alice"], w.body(gpu_count=4))
    monkeypatch.setattr("scheduling.api.door.now", lambda: b.later(90))
    found = w.alice.get(f"jobs/{job}/").json()
    assert (found["as_of"], found["estimated_start"]["as_of"]) == ("2026-03-02T12:01:30Z", "2026-03-02T12:01:30Z")
    assert [row["as_of"] for row in w.alice.get("jobs/?state=waiting").json()["results"]] == [None]


def test_a_job_that_has_no_place_in_the_pool_tells_as_of_when_that_is_true(monkeypatch):
    w = world()
    job = b.submitted(w.who["alice"], w.body(gpu_count=4))
    Gpu.objects.filter(index=0).update(state="RETIRED")
    answers = []
    for seconds in (1, 2):  # the second is told from what was seen for the first
        monkeypatch.setattr("scheduling.api.door.now", lambda at=seconds: b.later(at))
        answers.append(w.alice.get(f"jobs/{job}/").json())
    assert [each["estimated_start"] for each in answers] == [None, None]
    assert [each["as_of"] for each in answers] == ["2026-03-02T12:00:01Z"] * 2


def test_a_job_that_does_not_wait_is_told_as_of_no_instant():
    w, run = busy_world()
    assert w.alice.get(f"jobs/{run.job}/").json()["as_of"] is None


# ---------------------------------------------------------------- lists


def names(page: dict[str, Any]) -> list[str]:
    return [job["name"] for job in page["results"]]


def test_pages_run_from_the_newest_to_the_oldest_and_back():
    w = world()
    for i in range(5):
        b.submitted(w.who["alice"], w.body(name=f"j{i}"), now=b.later(i // 2))
    first = w.alice.get("jobs/?limit=2").json()
    second = w.alice.get(first["next"].split("testserver")[1]).json()
    third = w.alice.get(second["next"].split("testserver")[1]).json()
    assert sorted(names(first) + names(second) + names(third)) == [f"j{i}" for i in range(5)]
    assert names(first)[0] == "j4"
    assert (first["previous"], third["next"]) == (None, None)
    assert w.alice.get(third["previous"].split("testserver")[1]).json()["results"] == second["results"]
    back = w.alice.get(second["previous"].split("testserver")[1]).json()
    assert (back["results"], back["previous"]) == (first["results"], None)


def test_a_page_does_not_shift_when_a_newer_job_comes():
    w = world()
    for i in range(3):
        b.submitted(w.who["alice"], w.body(name=f"j{i}"), now=b.later(i))
    first = w.alice.get("jobs/?limit=2").json()
    b.submitted(w.who["alice"], w.body(name="newer"), now=b.later(9))
    assert names(w.alice.get(first["next"].split("testserver")[1]).json()) == ["j0"]


def test_filters_narrow_the_list():
    w = world()
    ours, theirs = (b.submitted(w.who[n], w.body(name=f"of {n}")) for n in ("alice", "admin"))
    w.alice.post(f"jobs/{theirs}/cancel/")
    assert names(w.alice.get("jobs/?state=waiting").json()) == ["of alice"]
    assert names(w.alice.get("jobs/?state=CANCELLED").json()) == ["of admin"]
    assert names(w.alice.get("jobs/?user=me").json()) == ["of alice"]
    assert names(w.alice.get("jobs/?q=of adm").json()) == ["of admin"]
    assert names(w.alice.get(f"jobs/?q={ours}").json()) == ["of alice"]
    assert names(w.alice.get("jobs/?queue=eval").json()) == []
    assert len(names(w.alice.get("jobs/?kind=merge&project=alpha").json())) == 2


def test_one_does_not_see_the_jobs_of_other_projects():
    w = world()
    b.submitted(w.who["alice"], w.body())
    assert w.caller("bob").get("jobs/").json()["results"] == []


def test_an_unknown_filter_names_the_nearest():
    w = world(node=False)
    assert (
        "did you mean 'state'" in error(w.alice.get("jobs/?stat=QUEUED"), 400, "stat", "unknown_parameter")["message"]
    )


@pytest.mark.parametrize(
    ("query", "field", "code"),
    [
        ("state=QUEUD", "state", "unknown_state"),
        ("cursor=nonsense", "cursor", "bad_cursor"),
        ("cursor=%00", "cursor", "bad_character"),
        ("limit=0", "limit", "bad_parameter"),
        ("limit=1000", "limit", "bad_parameter"),
        ("limit=ten", "limit", "bad_parameter"),
        ("kind=merge&kind=eval", "kind", "given_twice"),
        ("q=%00", "q", "bad_character"),
    ],
)
def test_a_bad_filter_value_is_400(query: str, field: str, code: str):
    w = world(node=False)
    error(w.alice.get(f"jobs/?{query}"), 400, field, code)


# ---------------------------------------------------------------- verbs


def test_a_job_is_held_released_and_cancelled_and_each_twice_is_the_same():
    w = world()
    job = b.submitted(w.who["alice"], w.body())
    for verb, state in (("hold", "HELD"), ("release", "QUEUED"), ("cancel", "CANCELLED")):
        for _ in range(2):
            answer = w.alice.post(f"jobs/{job}/{verb}/")
            assert (answer.status_code, answer.json()["state"]) == (200, state)


def test_a_verb_that_makes_no_sense_is_409_with_the_state():
    w, run = busy_world()
    assert problem(w.alice.post(f"jobs/{run.job}/hold/"), 409, "wrong_state")["state"] == "RUNNING"
    b.finished(run, "FAILED", exit_code=1)
    assert problem(w.alice.post(f"jobs/{run.job}/cancel/"), 409, "wrong_state")["state"] == "FAILED"


@pytest.mark.parametrize(("query", "body"), [("?force=true", None), ("", {"force": True})], ids=["query", "body"])
def test_a_cancel_by_force_leaves_no_grace(query: str, body: Any):
    w, run = busy_world()
    assert w.alice.post(f"jobs/{run.job}/cancel/{query}", body).json()["state"] == "CANCELLING"
    wanted = b.beat(now=b.later(1))["desired"][0]
    assert wanted["action"] == "kill"


def test_a_force_that_is_no_boolean_is_422():
    w = world(node=False)
    job = b.submitted(w.who["alice"], w.body())
    error(w.alice.post(f"jobs/{job}/cancel/", {"force": "yes"}), 422, "force", "not_a_boolean")


def test_a_clone_is_a_new_job_of_the_same_request():
    w = world()
    job = b.submitted(w.who["alice"], w.body(name="twin"))
    answer = w.alice.post(f"jobs/{job}/clone/")
    clone = answer.json()
    assert (answer.status_code, clone["name"], clone["params"]["t"]) == (201, "twin", 0.5)
    assert clone["id"] != job


def test_a_clone_takes_no_fields():
    w = world()
    job = b.submitted(w.who["alice"], w.body())
    answer = w.alice.post(f"jobs/{job}/clone/", {"priority": "High", "name": "other"})
    assert "POST /api/v1/jobs/" in error(answer, 422, "priority", "unknown_field")["message"]
    error(answer, 422, "name", "unknown_field")
    assert Job.objects.count() == 1


def test_a_clone_takes_an_empty_object():
    w = world()
    job = b.submitted(w.who["alice"], w.body())
    assert w.alice.post(f"jobs/{job}/clone/", {}).status_code == 201


def test_a_refused_job_can_not_be_cloned():
    w = world()
    job = problem(w.alice.post("jobs/", w.body(gpu_count=0)), 422)["job"]
    assert problem(w.alice.post(f"jobs/{job}/clone/"), 409)["state"] == "REJECTED"


# ---------------------------------------------------------------- record


def test_the_timeline_is_paged_oldest_first():
    w, run = busy_world()
    events = w.alice.get(f"jobs/{run.job}/events/").json()
    assert events["results"][0]["type"] == "submitted"
    assert events["next"] is None
    first = w.alice.get(f"jobs/{run.job}/events/?limit=1").json()
    rest = w.alice.get(first["next"].split("testserver")[1].replace("limit=1&", "")).json()
    assert first["results"] + rest["results"] == events["results"] or len(rest["results"]) == 1


def test_the_runs_and_series_of_a_job():
    w, run = busy_world()
    b.beat(
        reports=[
            {"type": "metric", "attempt": run.attempt, "epoch": run.epoch, "name": "loss", "step": 1, "value": 0.5}
        ]
    )
    runs = w.alice.get(f"jobs/{run.job}/attempts/").json()["results"]
    assert [(r["id"], r["number"], len(r["gpus"])) for r in runs] == [(run.attempt, 1, 2)]
    assert w.alice.get(f"jobs/{run.job}/metrics/").json() == {"loss": [[1, 0.5]]}


def with_log(text: str) -> tuple[Caller, str]:
    w, run = busy_world()
    b.beat(reports=[{"type": "logs", "attempt": run.attempt, "epoch": run.epoch, "offset": 0, "text": text}])
    return w.alice, run.job


def test_a_log_is_followed_by_offset():
    alice, job = with_log("one\ntwö\n")
    assert alice.get(f"jobs/{job}/logs/").json() == {
        "attempt": 1,
        "offset": 0,
        "next": 9,
        "text": "one\ntwö\n",
        "eof": False,
    }
    assert alice.get(f"jobs/{job}/logs/?offset=4&attempt=1&node=n1").json()["text"] == "twö\n"


def test_a_log_as_text_is_plain_whole_and_takes_a_range():
    alice, job = with_log("one\n<script>\n")
    whole = alice.get(f"jobs/{job}/logs/", Accept="text/plain")
    assert (whole["Content-Type"], whole["X-Content-Type-Options"]) == ("text/plain; charset=utf-8", "nosniff")
    assert whole.content == b"one\n<script>\n"
    part = alice.get(f"jobs/{job}/logs/?format=text&download=1", Range="bytes=4-")
    assert (part.status_code, part.content, part["Content-Range"]) == (206, b"<script>\n", "bytes 4-12/13")
    assert part["Content-Disposition"].startswith("attachment")


def test_the_log_of_a_node_without_a_part_in_the_job_is_404():
    alice, job = with_log("x")
    problem(alice.get(f"jobs/{job}/logs/?node=n9"), 404)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"gpu_count": 3}, (3, 1, 3, 0)),
        ({"gpu_count": 8}, (8, 2, 4, 0)),
        ({"gpu_count": 7}, (7, 2, None, 3)),
        ({"node_count": 2, "gpus_per_node": 3}, (6, 2, 3, 0)),
        ({"gpu_count": 7, "allow_span": True}, (7, None, None, 0)),
    ],
)
def test_a_job_tells_the_nodes_that_it_spans_and_never_numbers_that_contradict_its_count(asked, told):
    w = world()
    b.node("n2")
    made = w.alice.post("jobs/", {**b.command_body(), "gpu_count": None, **asked}).json()
    assert (made["gpu_count"], made["node_count"], made["gpus_per_node"], made["remainder"]) == told


def test_a_refused_job_tells_the_numbers_that_were_sent():
    w = world()
    sent = {"gpu_count": 9, "node_count": 2, "gpus_per_node": 4}
    job = problem(w.alice.post("jobs/", {**b.command_body(), **sent}), 422)["job"]
    found = w.alice.get(f"jobs/{job}/").json()
    assert {name: found[name] for name in sent} == sent


def test_of_a_step_that_two_attempts_have_told_the_last_word_counts():
    w, run = busy_world()
    first, second = Attempt.objects.get(pk=run.attempt), uuid4()
    Attempt.objects.create(id=second, job=first.job, number=2, epoch=first.epoch + 1, granted_at=b.later(50),
                           remaining_s=10, ended_at=b.later(60))  # fmt: skip
    for attempt, step, value in ((first.pk, 0, 3.0), (second, 1, 7.0), (first.pk, 1, 2.0), (second, 2, 6.0)):
        MetricPoint.objects.create(attempt_id=attempt, name="best", step=step, value=value)
    assert w.alice.get(f"jobs/{run.job}/metrics/").json() == {"best": [[0, 3.0], [1, 7.0], [2, 6.0]]}
