"""What is refused before a GPU is touched, with every reason at once; and what is kept of it."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from tests import builders as b

pytestmark = pytest.mark.django_db
WAY_OUT = "; on_mismatch says what becomes of tensors that differ"


@pytest.fixture
def who():
    people = b.people()
    b.node("n1")
    return people


def refusal(actor, body):
    result = jobs.submit(body, actor, b.NOON)
    assert isinstance(result, jobs.Refused), result
    return result


def codes(result):
    return {(e["field"], e["code"]) for e in result.errors}


def test_every_reason_is_told_at_once(who):
    body = b.merge_body(["nothing", "void"], gpu_count=0, queue="marge", max_duration="4 parsecs", params={"t": 2})
    found = {field for field, _ in codes(refusal(who["alice"], body))}
    assert {"gpu_count", "queue", "max_duration", "params.t"} <= found


def test_a_model_that_does_not_exist_is_named_with_the_nearest_one(who):
    b.model(who["alice"], "digits", 1)
    result = refusal(who["alice"], b.merge_body(["digits", "digit"]))
    assert codes(result) == {("params.models.1", "no_such_artifact")}
    assert "did you mean 'digits'?" in result.errors[0]["message"]


def test_another_projects_model_reads_exactly_like_a_missing_one(who):
    theirs = b.model(who["bob"], "secret", 1, project="beta")
    mine = b.model(who["alice"], "mine", 2)
    foreign = refusal(who["alice"], b.merge_body([mine, theirs])).errors[0]
    missing = refusal(who["alice"], b.merge_body([mine, "5f0f7f0e-0000-4000-8000-000000000000"])).errors[0]
    assert foreign["code"] == missing["code"] == "no_such_artifact"
    assert foreign["message"].replace(theirs, "X") == missing["message"].replace(
        "5f0f7f0e-0000-4000-8000-000000000000", "X"
    )


def test_models_that_differ_in_shape_name_the_tensor_and_both_models(who):
    models = [
        b.model(who["alice"], "small", 1),
        b.model(who["alice"], "large", 2, shapes={"fc.weight": (5, 3), "fc.bias": (4,)}),
    ]
    error = refusal(who["alice"], b.merge_body(models)).errors[0]
    assert error["code"] == "shape_mismatch"
    assert error["message"] == "tensor 'fc.weight' is 4 x 3 in 'small' and 5 x 3 in 'large'" + WAY_OUT


def test_models_that_differ_in_names_name_the_tensor_and_both_models(who):
    models = [
        b.model(who["alice"], "one", 1),
        b.model(who["alice"], "two", 2, shapes={"fc.weight": (4, 3), "fc.bais": (4,)}),
    ]
    messages = [e["message"] for e in refusal(who["alice"], b.merge_body(models)).errors]
    assert messages == [
        "'two' lacks fc.bias, which 'one' has (did you mean 'fc.bais'?)" + WAY_OUT,
        "'one' lacks fc.bais, which 'two' has (did you mean 'fc.bias'?)" + WAY_OUT,
    ]


def test_an_artifact_that_is_no_model_is_refused(who):
    mine = b.model(who["alice"], "mine", 1)
    table = b.artifact(who["alice"], "table", {"rows.csv": b"1"}, kind="dataset")
    assert codes(refusal(who["alice"], b.merge_body([mine, table]))) == {("params.models.1", "not_a_model")}


def test_a_refused_job_is_kept_for_the_audit(who):
    result = refusal(who["alice"], b.merge_body(["a", "b"]))
    job = Job.objects.get(pk=result.job_id)
    assert (job.state, job.user.username, job.project.name, len(job.errors)) == ("REJECTED", "alice", "alpha", 2)


def test_nothing_is_kept_of_a_request_to_a_project_one_may_not_know_of(who):
    result = refusal(who["bob"], b.merge_body(["a", "b"]))
    assert result.job_id is None
    assert not Job.objects.exists()
    assert ("project", "unknown_project") in codes(result)


def test_critical_without_the_permission_is_refused(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    body = b.merge_body(models, priority="Critical", purpose="regression_gate")
    assert ("priority", "priority_not_permitted") in codes(refusal(who["alice"], body))


def test_both_researchers_may_ask_for_high(who):
    models = [b.model(who["bob"], "a", 1, project="beta"), b.model(who["bob"], "b", 2, project="beta")]
    job = b.submitted(who["bob"], b.merge_body(models, project="beta", priority="High"))
    assert Job.objects.get(pk=job).level.name == "High"


def test_a_cloned_body_makes_an_equal_job(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    first = b.submitted(who["alice"], b.merge_body(models))
    again = b.submitted(who["alice"], jobs.body_again(first, who["alice"]))
    one, two = (Job.objects.get(pk=j) for j in (first, again))
    assert (one.params, one.spec, one.shape, one.gpu_count) == (two.params, two.spec, two.shape, two.gpu_count)


def test_somebody_with_one_project_need_not_name_it(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    body = b.merge_body(models)
    del body["project"]
    assert Job.objects.get(pk=b.submitted(who["alice"], body)).project.name == "alpha"


def test_a_job_with_a_whole_group_to_itself_computes_on_its_own_gpus_and_holds_all(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    run = b.running(who["alice"], models, nvlink_exclusive=True)
    assert len(run.gpus) == 2
    assert Job.objects.get(pk=run.job).attempts.get().allocations.count() == 4


def test_an_unknown_project_is_the_only_fault_told(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    assert codes(refusal(who["alice"], b.merge_body(models, project="alpa"))) == {("project", "unknown_project")}


def test_a_missing_model_is_told_beside_a_wrong_count(who):
    found = codes(refusal(who["alice"], b.merge_body(["ghost"])))
    assert found == {("params.models", "wrong_count"), ("params.models.0", "no_such_artifact")}


def test_a_refused_body_can_be_mended_and_sent_again(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    body = b.merge_body(models, gpu_count=9)
    result = refusal(who["alice"], body)
    again = jobs.body_again(str(result.job_id), who["alice"])
    assert again == body
    assert b.submitted(who["alice"], {**again, "gpu_count": 2})


def test_equal_results_of_two_jobs_can_each_be_named(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    made = []
    for n, name in enumerate(("first", "second")):
        run = b.running(who["alice"], models, now=b.later(n * 100), name=name)
        made.append(b.output(run, now=b.later(n * 100)))
        b.finished(run, artifacts=[made[-1]], now=b.later(n * 100 + 10))
    assert made[0] == made[1]
    assert [o.name for j in Job.objects.order_by("submitted_at") for o in j.outputs.all()] == ["first", "second"]
    for name in ("first", "second"):
        b.submitted(who["alice"], b.merge_body([name, models[0]], name=f"of {name}"))
    assert codes(refusal(who["alice"], b.merge_body(["first", "second"]))) == {("params.models.1", "counted_twice")}


def test_a_refused_body_with_numbers_that_json_lacks_is_kept_as_text(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    result = refusal(who["alice"], b.merge_body(models, params={"t": float("nan")}))
    assert Job.objects.get(pk=result.job_id).params["t"] == "NaN"


@pytest.mark.parametrize(
    ("asked", "field", "limit"),
    [
        ({"gpu_count": 5}, "gpu_count", 4),
        ({"gpu_count": 4, "node_count": 2}, "node_count", 1),
        ({"gpu_count": 4, "allow_span": True}, "allow_span", None),
    ],
)
def test_a_merge_over_several_nodes_is_refused(who, asked, field, limit):
    b.node("n2")
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    body = b.merge_body(models, nvlink_required=False, **asked)
    errors = refusal(who["alice"], body).errors
    assert [(e["field"], e["code"], e["limit"]) for e in errors] == [(field, "one_node_only", limit)]


@pytest.mark.parametrize(("kind", "most"), [("merge", 4), ("command", 8)])
def test_the_kind_decides_how_many_nodes_are_taken_and_told(who, kind, most):
    b.node("n2")
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    body = b.merge_body(models) if kind == "merge" else b.command_body()
    body |= {"nvlink_required": False, "gpu_count": 99}
    assert [error["limit"] for error in refusal(who["alice"], body).errors] == [most]
    assert (jobs.largest(kind), jobs.largest(kind, nvlink=True)) == (most, 4)
    b.submitted(who["alice"], {**body, "gpu_count": most})


def test_a_job_keeps_its_group_its_times_and_its_neighbours(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    body = b.merge_body(
        models, group="g", not_before="2026-03-02T14:00:00+01:00", start_by="2026-03-02T14:00:00Z",
        anti_affinity={"group": "g", "level": "node"},
    )  # fmt: skip
    job = Job.objects.get(pk=b.submitted(who["alice"], body))
    assert (job.group, job.not_before, job.start_by) == ("g", b.later(3600), b.later(7200))
    assert job.topology == {"apart": {"group": "g", "level": "node"}}


def test_a_job_of_another_shape_by_its_neighbours_has_another_shape(who):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    rule = {"group": "g", "level": "node"}
    jobs_ = [b.submitted(who["alice"], b.merge_body(models, **more)) for more in ({}, {"anti_affinity": rule})]
    assert len({Job.objects.get(pk=each).shape for each in jobs_}) == 2


@pytest.mark.parametrize(
    ("given", "written"), [(None, "null"), (True, "true"), ("half", "'half'"), ([[1]], "[1]"), (2, "2")]
)
def test_a_wrong_parameter_is_told_as_it_was_sent(who, given, written):
    models = [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]
    (error,) = refusal(who["alice"], b.merge_body(models, params={"t": given})).errors
    assert (error["field"], error["limit"]) == ("params.t", [0, 1])
    assert error["message"].endswith(f"not {written}")


@pytest.mark.parametrize("given", [None, "a", [], [1, 2]])
def test_models_that_are_no_list_are_told_how_many_there_may_be(who, given):
    errors = refusal(who["alice"], {**b.merge_body([]), "params": {"strategy": "linear", "models": given}}).errors
    assert ("params.models", [2, 32]) in [(e["field"], e["limit"]) for e in errors]


@pytest.mark.parametrize(
    ("asked", "fields"),
    [
        ({"gpu_count": 99, "node_count": -2, "max_duration": "30x"}, ["gpu_count", "node_count", "max_duration"]),
        ({"gpu_count": "99", "gpu_per_node": "x"}, ["gpu_count", "gpu_per_node"]),
        ({"gpu_count": "x", "node_count": 99}, ["gpu_count", "node_count"]),
        ({"gpu_count": None, "node_count": 99}, ["gpu_count", "node_count"]),
        ({"gpu_count": 99, "gpus_per_node": "x"}, ["gpu_count", "gpus_per_node"]),
        ({"gpu_count": 2, "node_count": -2}, ["node_count"]),
        ({"gpu_count": -1, "node_count": -2}, ["gpu_count", "node_count"]),
    ],
)
def test_a_count_that_can_not_be_read_hides_no_fault_of_another(asked, fields):
    lab = b.lab()
    found = jobs.check({**b.command_body(), **asked}, lab.who["alice"], b.NOON)[2]
    assert [error["field"] for error in found] == fields
