"""The form of an evaluation makes the job that REST would make, and refuses what REST refuses, beside the field."""

from __future__ import annotations

import html as entities
import json
import re

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from scheduling.web import evaluate_form
from tests import builders as b
from tests.services.test_evaluations import LLAMA
from tests.web.pages import beside, browser, text

pytestmark = pytest.mark.django_db
FORM = "/jobs/new/evaluate/"
SIZES = (4, 3)
ARCHITECTURE = {"model_type": "mlp", "layer_sizes": list(SIZES)}


@pytest.fixture
def world(lab):
    """The lab with a classifier and two data sets, one of them with two files."""
    b.mlp(lab.who["alice"], "net", sizes=SIZES)
    b.dataset(lab.who["alice"], "tests")
    b.artifact(lab.who["alice"], "both", {"a.csv": b"a", "b.jsonl": b"b"}, kind="dataset")
    return lab


def typed(**changed):
    """What the form posts when it is filled rightly."""
    texts = dict.fromkeys(evaluate_form.TEXTS, "")
    return {**texts, "key": "1" * 36, "name": "digits", "project": "alpha", "queue": "eval", "priority": "Normal",
            "gpu_count": "1", "max_duration": "1h", "model": "net", "dataset": "tests", **changed}  # fmt: skip


def refused(field: str, **changed) -> str:
    """What is said beside the field of the refused form."""
    response = browser().post(FORM, typed(**changed))
    assert response.status_code == 422
    return entities.unescape(re.sub(r"<[^>]+>", "", beside(text(response), field)))


def test_a_rightly_filled_form_makes_the_job_that_rest_would_make(world):
    response = browser().post(FORM, typed(
        dataset="both", metrics=["loss", "accuracy"], batch_size="64", limit="100", file="b.jsonl",
        architecture=json.dumps(ARCHITECTURE), retries="1", nvlink_required="on",
    ))  # fmt: skip
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert jobs.body_again(str(job.pk), world.who["alice"]) == {
        "kind": "evaluate", "name": "digits", "project": "alpha", "queue": "eval", "priority": "Normal",
        "gpu_count": "1", "max_duration": "1h", "retries": "1", "nvlink_required": True,
        "params": {"model": "net", "dataset": "both", "metrics": ["accuracy", "loss"], "batch_size": 64, "limit": 100,
                   "file": "b.jsonl", "architecture": {**ARCHITECTURE, "activation": "relu"}},
    }  # fmt: skip


def test_what_is_left_empty_is_not_said(world):
    browser().post(FORM, typed())
    assert Job.objects.get().params == {"model": "net", "dataset": "tests", "batch_size": 32}


def test_the_form_shows_models_data_sets_and_metrics_and_begins_in_the_eval_queue(world):
    page = text(browser().get(FORM))
    assert re.search(r'<option value="[0-9a-f-]{36}" >net \(alpha, [0-9a-f]{8}\)', page)
    assert len(re.findall(r"<option value=\"[0-9a-f-]{36}\" >(?:tests|both) \(alpha", page)) == 2
    assert re.findall(r'name="metrics" value="(\w+)"', page) == ["accuracy", "loss", "perplexity", "bits_per_byte"]
    assert '<option value="eval" selected>' in page
    assert '<a href="/jobs/new/evaluate/" aria-current="page">Evaluate a model</a>' in page


@pytest.mark.parametrize("path", ["/jobs/new/", "/jobs/new/command/"])
def test_the_other_forms_lead_to_it(world, path):
    assert '<a href="/jobs/new/evaluate/" >Evaluate a model</a>' in text(browser().get(path))


def test_from_the_page_of_a_model_or_a_data_set_it_is_chosen(world):
    for name, reference in (("model", "net"), ("dataset", "tests")):
        page = text(browser().get(f"{FORM}?{name}={reference}"))
        assert re.findall(r'<option value="[0-9a-f-]{36}" selected>(\w+)', page) == [reference]


def test_without_a_data_set_the_form_says_how_one_comes_to_be(lab):
    assert "There is no data set in your projects yet." in text(browser().get(FORM))


def test_a_preset_fills_it(world):
    assert 'name="limit" value="100"' in text(browser().get(f"{FORM}?preset=try"))


@pytest.mark.parametrize(
    ("field", "changed", "words"),
    [
        ("model", {"model": ""}, "Model is missing: give the id or name of a model"),
        ("model", {"model": "nett"}, "there is no artifact 'nett' in your projects (did you mean 'net'?)"),
        ("model", {"model": "tests"}, "'tests' is a dataset, not a model"),
        ("model", {"model": "a"}, "config.json of 'a': model_type is missing"),
        ("dataset", {"dataset": ""}, "Data set is missing: give the id or name of a data set"),
        ("dataset", {"dataset": "a"}, "'a' is a model, not a dataset"),
        ("metrics", {"metrics": ["perplexity"]}, "perplexity can't be told of the architecture mlp"),
        ("metrics", {"metrics": ["acuracy"]}, "there is no metric 'acuracy' (did you mean 'accuracy'?)"),
        ("metrics", {"metrics": ["accuracy", "perplexity"]}, "are of no one kind of model"),
        ("batch_size", {"batch_size": "0"}, "Samples at a time must be a whole number from 1 to 65536, not 0"),
        ("batch_size", {"batch_size": "many"}, "Samples at a time must be a whole number from 1 to 65536, not 'many'"),
        ("limit", {"limit": "-1"}, "must be a whole number from 1 to 1000000000, not '-1'"),
        ("file", {"dataset": "both"}, "'both' has a.csv, b.jsonl: say with file which is read"),
        ("file", {"dataset": "both", "file": "c.csv"}, "'both' has no file 'c.csv' (did you mean 'a.csv'?)"),
        ("file", {"file": "x.parquet"}, "a file of the data set that ends in .jsonl, .csv, .safetensors"),
        ("architecture", {"architecture": "mlp"}, "this is no object of JSON: write it like {\"model_type\": \"mlp\""),
        ("architecture", {"architecture": "[1]"}, "this is no object of JSON"),
        ("architecture", {"architecture": '{"model_type": "mpl"}'}, "not 'mpl' (did you mean 'mlp'"),
        ("architecture", {"architecture": '{"model_type": "mlp"}'}, "layer_sizes must list 2 to 1000 whole numbers"),
        ("gpu_count", {"gpu_count": "0"}, "GPUs must be a whole number from 1 to 4"),
        ("max_duration", {"max_duration": "5 parsecs"}, "Time limit must be written like 4h"),
        ("must_run", {"must_run": "rack_id="}, "Must run where"),
    ],
)  # fmt: skip
def test_each_refusal_stands_beside_its_field(world, field, changed, words):
    assert words in refused(field, **changed)


def test_everything_wrong_is_told_at_once_and_what_was_typed_is_still_there(world):
    response = browser().post(FORM, typed(model="", metrics=["x"], limit="all", architecture="no", name="a/b"))
    page = text(response)
    assert response.status_code == 422
    assert all(beside(page, field) for field in ("model", "metrics", "limit", "architecture", "name"))
    assert '<input type="checkbox" name="metrics" value="x" checked>' in page
    assert re.search(r'name="architecture"[^>]*>no</textarea>', page)
    assert "Nothing was submitted: 5 things to mend" in page
    assert "<details open><summary>How it is read</summary>" in page


def test_what_would_happen_is_told_of_an_evaluation_too(world):
    page = text(browser().post(f"{FORM}plan/", typed()))
    assert "1 GPU" in page
    assert not Job.objects.exists()


def test_a_clone_of_an_evaluation_opens_its_form_filled_as_it_was(world):
    params = {"metrics": ["loss"], "limit": 5, "architecture": ARCHITECTURE}
    job = b.submitted(world.who["alice"], b.evaluate_body("net", "tests", params=params))
    answer = browser().get(f"/jobs/new/?from={job}")
    assert answer["Location"] == f"{FORM}?from={job}"
    page = text(browser().get(answer["Location"]))
    assert re.search(r'<option value="[0-9a-f-]{36}" selected>net ', page)
    assert re.search(r'<option value="[0-9a-f-]{36}" selected>tests ', page)
    assert re.findall(r'name="metrics" value="(\w+)" checked', page) == ["loss"]
    assert 'name="limit" value="5"' in page
    shown = re.search(r'name="architecture"[^>]*>(.*?)</textarea>', page)
    assert json.loads(entities.unescape(shown.group(1))) == {**ARCHITECTURE, "activation": "relu"}


@pytest.mark.parametrize("params", [None, 3, {"metrics": "loss"}, {"metrics": [1]}, {"architecture": ["x"]},
                                    {"model": {"a": 1}, "limit": [1]}])  # fmt: skip
def test_a_refused_body_may_hold_anything_and_is_shown_to_be_mended(world, params):
    refused_job = jobs.submit({"kind": "evaluate", "project": "alpha", "params": params}, world.who["alice"], b.NOON)
    answer = browser().get(f"{FORM}?from={refused_job.job_id}")
    assert answer.status_code == 200


def test_tasks_of_a_harness_are_typed_with_spaces_and_refused_beside_their_field(world):
    files = {"model.safetensors": b.tensors(), "config.json": json.dumps(LLAMA).encode(), "tokenizer.json": b"{}"}
    b.artifact(world.who["alice"], "llama", files)
    b.artifact(world.who["alice"], "tasks", {"a.yaml": b"task: rivers", "q.jsonl": b"{}"}, kind="dataset")
    browser().post(FORM, typed(model="llama", dataset="tasks", harness="lm-eval", tasks=" rivers, speech "))
    job = Job.objects.get()
    assert job.params == {"model": "llama", "dataset": "tasks", "harness": "lm-eval", "tasks": ["rivers", "speech"],
                          "batch_size": 32}  # fmt: skip
    assert "rivers, speech, by lm-eval" in text(browser().get(f"/jobs/{job.pk}/"))
    again = text(browser().get(f"{FORM}?from={job.pk}"))
    assert ('<option value="lm-eval" selected>' in again, 'name="tasks" value="rivers speech"' in again) == (True, True)
    other = {"key": "2" * 36, "model": "llama", "dataset": "tasks", "harness": "lm-eval"}
    assert "names no task" in refused("tasks", **{**other, "tasks": "a b/c"})
    assert "no task file of lm-eval" in refused("dataset", **{**other, "dataset": "tests"})
    assert "this is one of mlp" in refused("model", **{**other, "model": "net"})
