"""A search is refused before it waits for all that headers, configuration and names of files can tell."""

from __future__ import annotations

import json

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from scheduling.services.jobs import Refused
from scheduling.services.same_work import Work, is_same, key_of
from tests import builders as b

pytestmark = pytest.mark.django_db
SIZES = (4, 6, 3)
MERGE = {"strategy": "slerp", "models": ["one", "two"]}
LAYERS = [{"name": "t", "low": 0, "high": 1, "per": "layer"}]
BY_GROUP = {"name": "t", "low": 0, "high": 1, "per": "group"}


@pytest.fixture
def who():
    found = b.people()
    for seed, name in enumerate(("one", "two", "base")):
        b.mlp(found["alice"], name, seed, sizes=SIZES)
    b.dataset(found["alice"], "search", content=b"a")
    b.dataset(found["alice"], "test", content=b"b")
    return found


def faults(actor, **params) -> list[tuple[str, str]]:
    """(field, code) of everything that is wrong."""
    result = jobs.submit(b.evolve_body(["one", "two"], "search", params=params), actor, b.NOON)
    assert isinstance(result, Refused), result
    return [(e["field"], e["code"]) for e in result.errors]


def accepted(actor, **params) -> Job:
    return Job.objects.get(pk=b.submitted(actor, b.evolve_body(["one", "two"], "search", params=params)))


def test_a_search_waits_in_the_merge_queue_with_its_models_and_data_sets(who):
    body = b.evolve_body(["one", "two"], "search", params={"test": {"dataset": "test"}, "space": LAYERS})
    job = Job.objects.get(pk=b.submitted(who["alice"], {n: v for n, v in body.items() if n != "queue"}))
    assert (job.state, job.queue.name) == ("QUEUED", "merge")
    assert [(i["as"], i["name"]) for i in job.spec["inputs"]] == [
        ("model-0", "one"), ("model-1", "two"), ("dataset", "search"), ("test-dataset", "test"),
    ]  # fmt: skip


def test_models_and_data_sets_are_artifacts_of_their_kinds(who):
    assert faults(who["alice"], merge={**MERGE, "models": ["oen", "search"]}, objective={"dataset": "two"},
                  test={"dataset": "tset"}) == [
        ("params.merge.models.0", "no_such_artifact"), ("params.merge.models.1", "not_a_model"),
        ("params.objective.dataset", "not_a_dataset"), ("params.test.dataset", "no_such_artifact"),
    ]  # fmt: skip


def test_everything_is_told_at_once_also_of_models_that_do_not_match(who):
    b.mlp(who["alice"], "wide", 9, sizes=(4, 7, 3))
    found = faults(who["alice"], merge={**MERGE, "models": ["one", "wide"]}, budget=0, sigma=9)
    assert found[:2] == [("params.budget", "out_of_range"), ("params.sigma", "out_of_range")]
    assert set(found[2:]) == {("params.merge.models", "shape_mismatch")}


def test_models_that_differ_are_searched_as_on_mismatch_says(who):
    """What candidates have is told by all models together: with first only what the first has."""
    b.mlp(who["alice"], "deep", 9, sizes=(4, 6, 6, 3))
    groups = [{**BY_GROUP, "groups": ["4."]}]
    both = {**MERGE, "models": ["one", "deep"], "on_mismatch": "first"}
    assert accepted(who["alice"], merge=both, space=LAYERS).state == "QUEUED"
    assert faults(who["alice"], merge=both, space=groups) == [("params.space.0.groups.0", "fits_no_tensor")]
    turned = {**both, "models": ["deep", "one"]}
    assert accepted(who["alice"], merge=turned, space=groups).state == "QUEUED"
    assert {field for field, _ in faults(who["alice"], merge={**both, "on_mismatch": "error"})} == {
        "params.merge.models"
    }  # fmt: skip


def test_what_is_left_of_models_that_differ_is_what_the_architecture_has_to_fit(who):
    b.mlp(who["alice"], "more", 9, sizes=(4, 6, 5))
    merge = {**MERGE, "models": ["more", "one"], "on_mismatch": "min"}
    assert set(faults(who["alice"], merge=merge)) == {("params.merge.models", "shape_mismatch")}
    fits = {"dataset": "search", "architecture": {"model_type": "mlp", "layer_sizes": list(SIZES)}}
    assert accepted(who["alice"], merge=merge, objective=fits).state == "QUEUED"
    assert accepted(who["alice"], merge={**merge, "models": ["one", "more"]}).state == "QUEUED"


def test_a_rule_for_models_that_differ_that_is_none_is_refused(who):
    assert faults(who["alice"], merge={**MERGE, "on_mismatch": "frist"}) == [
        ("params.merge.on_mismatch", "not_a_rule")
    ]  # fmt: skip


@pytest.mark.parametrize("params", [3, ["x"], None])
def test_parameters_that_are_no_object_are_refused(who, params):
    result = jobs.submit({**b.evolve_body(["one"], "search"), "params": params}, who["alice"], b.NOON)
    assert isinstance(result, Refused), result
    assert {e["field"].split(".")[0] for e in result.errors} == {"params"}


def test_groups_and_budgets_are_told_by_the_names_of_the_tensors(who):
    groups = [{**BY_GROUP, "groups": ["0.", "attn"]}]
    assert faults(who["alice"], space=groups) == [("params.space.0.groups.1", "fits_no_tensor")]
    assert faults(who["alice"], space=LAYERS, budget=18) == [("params.budget", "out_of_range")]
    assert accepted(who["alice"], space=LAYERS, budget=19).state == "QUEUED"


def test_the_model_that_is_carried_says_what_the_candidates_are_unless_the_objective_does(who):
    b.mlp(who["alice"], "dumb", 9, sizes=SIZES, config=b"{}")
    merge = {**MERGE, "models": ["dumb", "one"]}
    assert faults(who["alice"], merge=merge) == [("params.merge.models", "required")]
    told = {"model_type": "mlp", "layer_sizes": list(SIZES)}
    assert accepted(who["alice"], merge=merge, objective={"dataset": "search", "architecture": told}).state == "QUEUED"


def test_an_architecture_that_does_not_fit_and_metrics_of_another_task_are_refused(who):
    objective = {"dataset": "search", "metrics": ["perplexity"],
                 "architecture": {"model_type": "mlp", "layer_sizes": [4, 3]}}  # fmt: skip
    found = faults(who["alice"], objective=objective)
    assert ("params.objective.metrics", "mismatch") in found
    assert ("params.merge.models", "unknown_tensor") in found


def test_the_files_of_both_data_sets_are_told_each_by_its_own_name(who):
    b.artifact(who["alice"], "both", {"a.csv": b"a", "b.jsonl": b"b"}, kind="dataset")
    b.artifact(who["alice"], "none", {"a.txt": b"a"}, kind="dataset")
    assert faults(who["alice"], objective={"dataset": "both"}, test={"dataset": "none"}) == [
        ("params.objective.file", "required"), ("params.test.dataset", "unsupported_format"),
    ]  # fmt: skip
    assert faults(who["alice"], objective={"dataset": "both", "file": "a.csv"},
                  test={"dataset": "both", "file": "a.csv"}) == [("params.test.dataset", "same_data")]  # fmt: skip
    job = accepted(who["alice"], objective={"dataset": "both", "file": "a.csv"},
                   test={"dataset": "both", "file": "b.jsonl"})  # fmt: skip
    assert job.state == "QUEUED"


def test_the_base_is_none_of_the_models(who):
    merge = {"strategy": "ties", "models": ["one", "two"], "base_model": "one", "density": 0.5}
    space = [{"name": "density", "low": 0.1, "high": 1}]
    assert faults(who["alice"], merge=merge, space=space) == [("params.merge.base_model", "base_among_models")]


def test_a_data_set_of_another_project_reads_as_one_that_does_not_exist(who):
    b.dataset(who["bob"], "secret", content=b"c", project="beta")
    assert faults(who["alice"], test={"dataset": "secret"}) == [("params.test.dataset", "no_such_artifact")]


def work(job: Job, **changed) -> Work:
    return Work("evolve", {**job.params, **changed}, job.spec["inputs"])


def test_by_the_ids_of_its_artifacts_it_is_the_same_work_and_with_another_seed_it_is_not(who):
    job = accepted(who["alice"])
    ids = [row["artifact"] for row in job.spec["inputs"]]
    named = json.loads(json.dumps(job.params))
    named["merge"]["models"], named["objective"]["dataset"] = ids[:2], ids[2]
    assert is_same(work(job), Work("evolve", named, job.spec["inputs"]))
    assert key_of(work(job)) == key_of(Work("evolve", named, job.spec["inputs"])) != ""
    assert not is_same(work(job), work(job, seed=1))
    assert job.params["merge"]["models"] == ["one", "two"], "what is compared stays as it was"


def test_models_of_hugging_face_are_no_candidates_of_a_search(who):
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 8}
    files = {"config.json": json.dumps(config).encode(), "tokenizer.json": b"{}"}
    for seed, name in enumerate(("red", "blue")):
        b.artifact(who["alice"], name, {**files, "model.safetensors": b.tensors(seed, {"model.w": (4, 3)})})
    merge = {**MERGE, "models": ["red", "blue"]}
    assert faults(who["alice"], merge=merge) == [("params.objective.architecture", "not_searched")]
