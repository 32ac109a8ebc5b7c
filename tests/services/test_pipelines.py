"""Jobs that are submitted together and wait for each other by their keys: all of them, or none."""

from __future__ import annotations

from uuid import uuid4

import pytest

from scheduling.models import IdempotencyKey, Job, JobSet
from scheduling.services import jobs, pipelines, sets
from scheduling.services.jobs import KeyConflict
from scheduling.services.sets import Made, SetRefused
from tests import builders as b

pytestmark = pytest.mark.django_db
UNKNOWN = "5f0f7f0e-0000-4000-8000-000000000000"


@pytest.fixture
def made():
    """People, a node with 4 GPUs, and two models."""
    return b.lab()


def chain(made, **of_evaluation):
    """merge -> evaluate -> keep the best, as one body."""
    program = {"argv": ["evaluate.py", "@merge"], "inputs": {"net": "@merge"}}
    return {
        "jobs": [
            {"key": "keep", "after": ["evaluate", "merge"],
             **b.command_body(name="keep", params={"argv": ["keep.py"], "inputs": {"scores": "@evaluate/scores"}})},
            {"key": "evaluate", "after": ["merge"], **b.command_body(params=program, name="evaluate"), **of_evaluation},
            {"key": "merge", **b.merge_body(made.models, name="merge")},
        ]
    }  # fmt: skip


def submitted(made, body, now=b.NOON, **kw):
    """The jobs of the pipeline by their keys."""
    result = pipelines.submit(body, made.who["alice"], now, **kw)
    assert isinstance(result, Made), result
    return {job.key: job for job in Job.objects.filter(member_of=result.set_id)}


def refused(made, body):
    result = pipelines.submit(body, made.who["alice"], b.NOON)
    assert isinstance(result, SetRefused), result
    assert (Job.objects.count(), JobSet.objects.count()) == (0, 0)
    return [(each["field"], each["code"]) for each in result.errors], result.errors


def test_a_chain_is_stored_whole_and_each_waits_for_those_before(made):
    found = submitted(made, chain(made))
    assert {key: (job.state, job.awaits) for key, job in found.items()} == {
        "merge": ("QUEUED", 0), "evaluate": ("QUEUED", 1), "keep": ("QUEUED", 2),
    }  # fmt: skip
    merge, evaluate = str(found["merge"].pk), str(found["evaluate"].pk)
    assert found["keep"].spec["after"] == [evaluate, merge]
    assert found["keep"].params["inputs"] == {"scores": f"@{evaluate}/scores"}
    assert found["evaluate"].params["inputs"] == {"net": f"@{merge}"}
    assert JobSet.objects.get().kind == "pipeline"


def test_a_word_of_a_command_line_is_no_reference(made):
    assert submitted(made, chain(made))["evaluate"].params["argv"] == ["evaluate.py", "@merge"]


def test_it_runs_from_end_to_end(made):
    found = submitted(made, chain(made))
    for key, kind, name in (
        ("merge", "model", "merged"),
        ("evaluate", "dataset", "scores"),
        ("keep", "dataset", "kept"),
    ):
        run = claimed(str(found[key].pk))
        output = b.output(run, name, b.tensors(4) if kind == "model" else name.encode(), kind=kind)
        assert b.finished(run, artifacts=[output])["ok"]
    assert set(Job.objects.values_list("state", flat=True)) == {"SUCCEEDED"}


def claimed(job):
    """The job's attempt, which is granted, claimed and started."""
    from scheduling.models import Attempt
    from scheduling.services import pool

    b.ticked()
    attempt = Attempt.objects.get(job_id=job)
    launch = pool.claim("n1", str(attempt.pk), attempt.epoch, b.NOON)
    b.beat(reports=[{"type": "started", "attempt": str(attempt.pk), "epoch": attempt.epoch, "pid": 1}])
    return b.Running(job, str(attempt.pk), attempt.epoch, "n1", launch["gpus"])


def test_when_the_first_fails_the_rest_is_cancelled(made):
    found = submitted(made, chain(made))
    b.finished(claimed(str(found["merge"].pk)), "FAILED", exit_code=1, error="boom")
    states = dict(Job.objects.values_list("key", "state"))
    assert states == {"merge": "FAILED", "evaluate": "CANCELLED", "keep": "CANCELLED"}


def test_a_job_there_is_already_may_be_waited_for_too(made):
    other = b.submitted(made.who["alice"], b.command_body())
    found = submitted(made, {"jobs": [{"key": "a", "after": [other], **b.command_body()}]})
    assert found["a"].awaits == 1


def test_a_recipe_as_text_names_keys_too(made):
    recipe = "merge_method: linear\nmodels:\n- model: '@merge'\n  parameters: {weight: 1}\n- model: a\n"
    recipe += "  parameters: {weight: 1}\n"
    body = chain(made)
    merge = {k: v for k, v in b.merge_body([]).items() if k != "params"}
    body["jobs"].append({"key": "again", "after": ["merge"], **merge, "params": {"recipe": recipe}})
    found = submitted(made, body)
    assert found["again"].params["recipe"]["models"][0]["model"] == f"@{found['merge'].pk}"


def test_an_earlier_key_of_the_same_user_gives_the_same_pipeline(made):
    body = chain(made)
    first = pipelines.submit(body, made.who["alice"], b.NOON, key="k")
    again = pipelines.submit(body, made.who["alice"], b.later(5), key="k")
    assert (again, Job.objects.count()) == (Made(first.set_id, fresh=False), 3)
    other = pipelines.submit(chain(made, name="other"), made.who["alice"], b.later(5), key="k")
    assert isinstance(other, KeyConflict)
    assert isinstance(jobs.submit(b.command_body(), made.who["alice"], b.later(5), key="k"), KeyConflict)
    assert IdempotencyKey.objects.count() == 1


# Refused


def test_every_fault_of_every_job_is_told_at_once_with_its_key(made):
    body = chain(made, gpu_count=0, after=["merge", str(uuid4())])
    body["jobs"][2]["params"]["t"] = 7
    body["jobs"][0]["max_duration"] = "long"
    where, errors = refused(made, body)
    assert where == [
        ("jobs.0.max_duration", "bad_duration"), ("jobs.1.gpu_count", "out_of_range"),
        ("jobs.1.after.1", "unknown_job"), ("jobs.2.params.t", "out_of_range"),
    ]  # fmt: skip
    assert [each["key"] for each in errors] == ["keep", "evaluate", "evaluate", "merge"]


def test_a_circle_is_refused_with_its_path(made):
    body = chain(made)
    body["jobs"][2]["after"] = ["keep"]
    where, errors = refused(made, body)
    assert where == [("jobs.0.after", "circle")]
    assert errors[0]["limit"] == ["keep", "evaluate", "merge", "keep"]
    assert "keep -> evaluate -> merge -> keep" in errors[0]["message"]


def test_a_job_that_waits_for_itself_is_a_circle(made):
    where, errors = refused(made, {"jobs": [{"key": "a", "after": ["a"], **b.command_body()}]})
    assert (where, errors[0]["limit"]) == ([("jobs.0.after", "circle")], ["a", "a"])


def test_an_unknown_key_is_refused_with_the_nearest(made):
    body = chain(made)
    body["jobs"][0]["after"] = ["evaluat"]
    where, errors = refused(made, body)
    assert where == [("jobs.0.after.0", "unknown_key")]
    assert "'evaluat' (did you mean 'evaluate'?), and it is no id; remove it" in errors[0]["message"]


@pytest.mark.parametrize("key", [None, "", "-a", "a b", "a/b", "@a", "x" * 65, 7, ["a"], "\ud800", UNKNOWN])
def test_a_key_that_is_none_is_refused(made, key):
    where, errors = refused(made, {"jobs": [{"key": key, **b.command_body()}]})
    assert where == [("jobs.0.key", "bad_key")]
    assert "1 to 64 letters, digits, dots, dashes and underscores" in errors[0]["message"]


def test_a_key_that_is_there_twice_is_refused(made):
    where, errors = refused(made, {"jobs": [{"key": "a", **b.command_body()}] * 2})
    assert (where, errors[0]["key"]) == ([("jobs.1.key", "duplicate_key")], "a")
    assert errors[0]["message"] == "a is the key of jobs.0 too; give each job one of its own"


@pytest.mark.parametrize("given", [None, [], {}, "x", 7])
def test_without_jobs_it_is_refused(made, given):
    assert refused(made, {"jobs": given})[0] == [("jobs", "required")]


@pytest.mark.parametrize("row", [None, 7, "x", [], True])
def test_what_is_no_object_is_refused(made, row):
    assert refused(made, {"jobs": [row]})[0] == [("jobs.0", "not_an_object")]


def test_a_hundred_are_taken_and_one_more_is_refused_with_the_limit(made):
    many = [{"key": f"k{i}", **b.command_body(), **({"after": [f"k{i - 1}"]} if i else {})} for i in range(101)]
    where, errors = refused(made, {"jobs": many})
    assert (where, errors[0]["limit"]) == ([("jobs", "too_many")], 100)
    found = submitted(made, {"jobs": many[:100]})
    assert max(job.depth for job in found.values()) == 99


def test_an_unknown_field_beside_the_jobs_is_refused(made):
    assert refused(made, {"jbos": [], **chain(made)})[0] == [("jbos", "unknown_field")]


def test_a_job_of_a_pipeline_replaces_none(made):
    other = b.submitted(made.who["alice"], b.command_body(gpu_count=4))
    result = pipelines.submit({"jobs": [{"key": "a", **b.command_body(replaces=other)}]}, made.who["alice"], b.NOON)
    assert [(each["field"], each["code"]) for each in result.errors] == [("jobs.0.replaces", "not_here")]
    assert Job.objects.get().state == "QUEUED"


def test_a_reference_to_a_job_that_is_not_waited_for_names_its_key(made):
    body = chain(made)
    body["jobs"][1]["after"] = []
    where, errors = refused(made, body)
    assert where == [("jobs.1.params.inputs.net", "not_after")]
    assert errors[0]["message"] == "job merge is not waited for: add its id to after, or name an artifact"


def test_another_name_than_its_merge_will_give_is_refused(made):
    body = chain(made)
    body["jobs"][1]["params"]["inputs"] = {"net": "@merge/other"}
    assert refused(made, body)[0] == [("jobs.1.params.inputs.net", "no_such_output")]


@pytest.mark.parametrize("after", ["merge", {"a": 1}, 7])
def test_an_after_that_is_no_list_is_refused_with_the_rest(made, after):
    body = chain(made, after=after, params={"argv": ["true"]})
    assert refused(made, body)[0] == [("jobs.1.after", "not_a_list")]


def test_when_a_write_fails_nothing_is_stored(made, monkeypatch):
    from scheduling.store.commit import jobs as commit

    create, calls = commit.create, []

    def fails_later(*args, **kw):
        calls.append(kw)
        if len(calls) == 3:
            raise OSError("the disk is full")
        return create(*args, **kw)

    monkeypatch.setattr(commit, "create", fails_later)
    with pytest.raises(OSError, match="the disk is full"):
        pipelines.submit(chain(made), made.who["alice"], b.NOON)
    assert (Job.objects.count(), JobSet.objects.count()) == (0, 0)


def test_cancelling_all_ends_what_waits_and_stops_what_runs(made):
    found = submitted(made, chain(made))
    run = claimed(str(found["merge"].pk))
    set_id = str(found["merge"].member_of_id)
    assert sets.cancel(set_id, "pipeline", made.who["alice"], b.later(1)) == 3
    assert dict(Job.objects.values_list("key", "state")) == {
        "merge": "CANCELLING", "evaluate": "CANCELLED", "keep": "CANCELLED",
    }  # fmt: skip
    b.finished(run, "CANCELLED", why="cancel")
    assert sets.cancel(set_id, "pipeline", made.who["alice"], b.later(2)) == 0
    assert sets.cancel(set_id, "sweep", made.who["alice"], b.later(2)) is None
    assert sets.cancel(set_id, "pipeline", made.who["bob"], b.later(2)) is None
