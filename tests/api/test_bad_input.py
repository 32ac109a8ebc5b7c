"""Each bad input of a submission: the status, the field, the code, and the limit that would be accepted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from scheduling.core.fields import KNOWN
from scheduling.models import Job
from tests import builders as b
from tests.api.calls import error, problem, world

pytestmark = pytest.mark.django_db

GROUP = 4


@pytest.mark.parametrize(
    ("changed", "field", "code", "limit"),
    [
        ({"gpu_count": 0}, "gpu_count", "out_of_range", GROUP),
        ({"gpu_count": -1}, "gpu_count", "out_of_range", GROUP),
        ({"gpu_count": 1.5}, "gpu_count", "not_a_whole_number", GROUP),
        ({"gpu_count": "two"}, "gpu_count", "not_a_whole_number", GROUP),
        ({"gpu_count": 10**30}, "gpu_count", "out_of_range", GROUP),
        ({"gpu_count": 10**400}, "gpu_count", "out_of_range", GROUP),
        ({"gpu_count": "9" * 5000}, "gpu_count", "out_of_range", GROUP),
        ({"gpu_count": ""}, "gpu_count", "not_a_whole_number", GROUP),
        ({"max_duration": 10**30}, "max_duration", "above_cap", 604800),
        ({"max_duration": ""}, "max_duration", "bad_duration", 604800),
        ({"retries": 10**30}, "retries", "out_of_range", 10),
        ({"retries": ""}, "retries", "not_a_whole_number", 10),
        ({"params": {"t": 10**400}}, "params.t", "out_of_range", [0, 1]),
        ({"queue": "merg"}, "queue", "unknown_queue", ["merge", "eval", "inference"]),
        ({"priority": "Hihg"}, "priority", "unknown_level", ["Critical", "High", "Normal", "Low"]),
        ({"kind": "merg"}, "kind", "unknown_kind", ["command", "evaluate", "evolve", "infer", "merge"]),
        ({"project": "alpah"}, "project", "unknown_project", ["alpha"]),
        (
            {"priority": "Critical", "purpose": "regression_gate"},
            "priority",
            "priority_not_permitted",
            ["High", "Normal", "Low"],
        ),
        ({"node_count": 1, "gpus_per_node": 3}, "gpu_count", "mismatch", 3),
        ({"max_duration": 604801}, "max_duration", "above_cap", 604800),
        ({"max_duration": 0}, "max_duration", "bad_duration", 604800),
        ({"max_duration": -5}, "max_duration", "bad_duration", 604800),
        ({"max_duration": "4 parsecs"}, "max_duration", "bad_duration", 604800),
        ({"params": {"t": 1.01}}, "params.t", "out_of_range", [0, 1]),
        ({"params": {"t": -0.01}}, "params.t", "out_of_range", [0, 1]),
        ({"name": "x" * 10_000}, "name", "too_long", 100),
    ],
)
def test_a_bad_value_is_refused_with_its_limit(changed: dict[str, Any], field: str, code: str, limit: Any):
    w = world()
    assert error(w.alice.post("jobs/", w.body(**changed)), 422, field, code)["limit"] == limit


def test_more_gpus_than_every_node_has_are_refused_with_the_largest_place():
    w = world()
    found = problem(w.alice.post("jobs/", w.body(gpu_count=10**9, nvlink_required=False)), 422)["errors"]
    assert [(e["field"], e["limit"]) for e in found] == [("gpu_count", GROUP)]


def test_an_nvlink_job_larger_than_every_group_is_refused_with_the_largest_group():
    w = world()
    found = problem(w.alice.post("jobs/", w.body(gpu_count=5)), 422)["errors"]
    assert [(e["field"], e["limit"]) for e in found] == [("gpu_count", GROUP)]


def test_memory_above_every_gpu_is_refused_with_the_largest_memory():
    w = world()
    found = problem(w.alice.post("jobs/", w.body(gpu_memory_min="200GiB")), 422)["errors"]
    assert [e["field"] for e in found] == ["gpu_memory_min"]
    assert found[0]["limit"]


def test_an_unknown_field_names_the_nearest_known_one():
    w = world()
    assert (
        "'gpu_count'" in error(w.alice.post("jobs/", w.body(gpu_cuont=2)), 422, "gpu_cuont", "unknown_field")["message"]
    )


def test_an_unknown_queue_names_the_nearest_one():
    w = world()
    assert (
        "did you mean 'merge'"
        in error(w.alice.post("jobs/", w.body(queue="merg")), 422, "queue", "unknown_queue")["message"]
    )


@pytest.mark.parametrize(
    ("name", "code"),
    [("two\nlines", "bad_character"), ("../up", "bad_character"), ("‮live", "bad_character"), ("  \t ", "empty")],
    ids=["newline", "parent", "bidi", "blank"],
)
def test_a_name_that_deceives_is_refused(name: str, code: str):
    w = world()
    error(w.alice.post("jobs/", w.body(name=name)), 422, "name", code)


@pytest.mark.parametrize("name", ["merge 🧬", "מיזוג", "合并"], ids=["emoji", "rtl", "han"])
def test_a_name_in_any_script_is_taken_as_it_is(name: str):
    w = world()
    answer = w.alice.post("jobs/", w.body(name=name))
    assert (answer.status_code, answer.json()["name"]) == (201, name)


def test_models_that_do_not_exist_are_refused_one_by_one():
    w = world()
    answer = w.alice.post("jobs/", w.body(params={"models": ["nothing", w.models[0]]}))
    error(answer, 422, "params.models.0", "no_such_artifact")


def test_a_model_of_another_project_reads_like_one_that_does_not_exist():
    w = world()
    theirs = b.model(w.who["bob"], "secret", 3, project="beta")
    missing = "00000000-0000-4000-8000-000000000000"
    said = [
        error(
            w.alice.post("jobs/", w.body(params={"models": [r, w.models[0]]})),
            422,
            "params.models.0",
            "no_such_artifact",
        )
        for r in (theirs, missing)
    ]
    assert said[0]["message"].replace(theirs, "ID") == said[1]["message"].replace(missing, "ID")


def test_models_whose_shapes_differ_are_named_both_with_the_tensor():
    w = world()
    other = b.model(w.who["alice"], "wide", 4, shapes={"fc.weight": (5, 3), "fc.bias": (4,)})
    answer = w.alice.post("jobs/", w.body(params={"models": [w.models[0], other]}))
    said = error(answer, 422, "params.models", "shape_mismatch")["message"]
    assert all(word in said for word in ("'fc.weight'", "4 x 3", "'a'", "5 x 3", "'wide'"))


def test_models_whose_tensor_names_differ_are_named_both():
    w = world()
    other = b.model(w.who["alice"], "renamed", 4, shapes={"fc.weights": (4, 3), "fc.bias": (4,)})
    answer = w.alice.post("jobs/", w.body(params={"models": [w.models[0], other]}))
    said = [e["message"] for e in problem(answer, 422)["errors"] if e["code"] == "missing_tensor"]
    assert len(said) == 2
    assert all("'a'" in s and "'renamed'" in s for s in said)


def test_every_fault_is_told_at_once():
    w = world()
    answer = w.alice.post("jobs/", w.body(gpu_count=0, queue="x", max_duration="soon", colour="red", params={"t": 7}))
    assert {e["field"] for e in problem(answer, 422)["errors"]} >= {
        "gpu_count",
        "queue",
        "max_duration",
        "colour",
        "params.t",
    }


@pytest.mark.parametrize("value", [None, True, False, [None, True], {"required": [None], "group": None, "level": True}])
def test_no_refusal_speaks_python(value: Any):
    errors = problem(world().alice.post("jobs/plan/", dict.fromkeys(KNOWN, value)), 422)["errors"]
    assert not re.search(r"\b(None|True|False)\b", " ".join(e["message"] for e in errors))


def test_an_empty_body_is_refused_with_the_limit_of_each_field_that_is_missing():
    found = problem(world().alice.post("jobs/", {}), 422)["errors"]
    assert [(e["field"], e["limit"]) for e in found] == [
        ("kind", ["command", "evaluate", "evolve", "infer", "merge"]),
        ("gpu_count", GROUP),
    ]
    assert found[1]["message"] == "say how many GPUs the job needs, a whole number from 1 to 4"


def test_a_refused_job_is_stored_and_its_id_is_told():
    w = world()
    document = problem(w.alice.post("jobs/", w.body(gpu_count=0)), 422, "invalid_job")
    row = Job.objects.get(pk=document["job"])
    assert (row.state, json.loads(row.raw)["gpu_count"]) == ("REJECTED", 0)
    seen = w.alice.get(f"jobs/{row.pk}/").json()
    assert (seen["state"], seen["errors"][0]["field"]) == ("REJECTED", "gpu_count")


def test_a_job_for_a_project_one_may_not_know_of_leaves_no_record():
    w = world()
    assert problem(w.alice.post("jobs/", w.body(project="beta")), 422)["job"] is None
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"kind": ', "bad_json"),
        ("", "bad_json"),
        ("[1, 2]", "not_an_object"),
        ('"merge"', "not_an_object"),
        ('{"kind": "merge", "kind": "merge"}', "duplicate_key"),
        ('{"params": {"t": NaN}}', "not_a_number"),
        ('{"params": {"t": -Infinity}}', "not_a_number"),
        ('{"a": ' * 40 + "1" + "}" * 40, "too_deep"),
        ("[" * 100_000, "too_deep"),
        ('{"params": {"\\u0000": 1}}', "bad_character"),
        ('{"\\ud800": 1}', "bad_character"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_body_that_is_no_clear_json_object_is_400(text: str, code: str):
    w = world(node=False)
    problem(w.alice.post("jobs/", text), 400, code)
    assert not Job.objects.exists()


def test_a_body_that_is_no_utf8_is_400():
    w = world(node=False)
    problem(w.alice.post("jobs/", b'{"name": "\xff"}', Content_Type="application/json"), 400, "not_utf8")


def test_another_media_type_is_415():
    w = world(node=False)
    assert problem(w.alice.post("jobs/", "kind=merge", Content_Type="application/x-www-form-urlencoded"), 415)[
        "errors"
    ][0]["limit"] == ("application/json")


class Unread:
    """A body that must not be read."""

    def read(self, *_: object) -> bytes:
        raise AssertionError("the body was read")


def test_a_body_of_50_mb_is_413_with_the_limit_and_is_not_read(rf, settings):
    from scheduling.api.jobs import JobList
    from tests.api.calls import token

    w = world(node=False)
    request = rf.generic(
        "POST", "/api/v1/jobs/", b"", "application/json", headers={"Authorization": f"Bearer {token(w.who['alice'])}"}
    )
    request.META["CONTENT_LENGTH"] = str(50 * 2**20)
    request._stream = Unread()
    assert (
        problem(JobList.as_view()(request), 413, "too_large")["errors"][0]["limit"]
        == settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    )


def test_a_body_that_hides_its_length_is_read_no_further_than_the_limit(rf, settings):
    from io import BytesIO

    from scheduling.api.jobs import JobList
    from tests.api.calls import token

    w = world(node=False)
    request = rf.generic(
        "POST", "/api/v1/jobs/", b"", "application/json", headers={"Authorization": f"Bearer {token(w.who['alice'])}"}
    )
    request.META.pop("CONTENT_LENGTH", None)
    request._stream = BytesIO(b" " * (50 * 2**20))
    problem(JobList.as_view()(request), 413, "too_large")
    assert request._stream.tell() == settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there", "schlüssel"], ids=["empty", "long", "tab", "umlaut"])
def test_an_idempotency_key_that_is_no_plain_text_is_400(key: str):
    w = world(node=False)
    assert (
        error(w.alice.post("jobs/", w.body(), Idempotency_Key=key), 400, "Idempotency-Key", "bad_idempotency_key")[
            "limit"
        ]
        == 200
    )
