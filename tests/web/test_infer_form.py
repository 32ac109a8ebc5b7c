"""The form of a batch inference makes the job that REST would make, and refuses what REST refuses, beside the field."""

from __future__ import annotations

import html as entities
import json
import re

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from scheduling.web import infer_form
from tests import builders as b
from tests.web.pages import beside, browser, text

pytestmark = pytest.mark.django_db
FORM = "/jobs/new/infer/"
SIZES = (4, 3)
ARCHITECTURE = {"model_type": "mlp", "layer_sizes": list(SIZES), "activation": "relu"}
DECODER = {"model_type": "decoder", "num_layers": 1, "width": 4, "heads": 1, "context": 8, "characters": "ab"}


@pytest.fixture
def world(lab):
    """The lab with a classifier, a model whose tensors are not known yet, and two data sets, one of two files."""
    b.mlp(lab.who["alice"], "net", sizes=SIZES)
    files = {"net.pth": b"\x80\x02", "config.json": json.dumps(DECODER).encode()}
    b.artifact(lab.who["alice"], "writer", files)
    b.dataset(lab.who["alice"], "rows")
    b.artifact(lab.who["alice"], "both", {"a.csv": b"a", "b.jsonl": b"b"}, kind="dataset")
    return lab


def typed(**changed):
    """What the form posts when it is filled rightly."""
    texts = dict.fromkeys(infer_form.TEXTS, "")
    return {**texts, "key": "1" * 36, "name": "digits", "project": "alpha", "queue": "inference", "priority": "Normal",
            "gpu_count": "1", "max_duration": "1h", "model": "net", "input": "rows", **changed}  # fmt: skip


def refused(field: str, **changed) -> str:
    """What is said beside the field of the refused form."""
    response = browser().post(FORM, typed(**changed))
    assert response.status_code == 422
    return entities.unescape(re.sub(r"<[^>]+>", "", beside(text(response), field)))


def test_a_rightly_filled_form_makes_the_job_that_rest_would_make(world):
    response = browser().post(FORM, typed(
        model="writer", input="both", max_new_tokens="64", temperature="0.8", seed="7", logprobs="on",
        max_bad_rows="10", batch_size="64", limit="100", file="b.jsonl", retries="1", nvlink_required="on",
    ))  # fmt: skip
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert jobs.body_again(str(job.pk), world.who["alice"]) == {
        "kind": "infer", "name": "digits", "project": "alpha", "queue": "inference", "priority": "Normal",
        "gpu_count": "1", "max_duration": "1h", "retries": "1", "nvlink_required": True,
        "params": {"model": "writer", "input": "both", "max_new_tokens": 64, "temperature": 0.8, "seed": 7,
                   "logprobs": True, "max_bad_rows": 10, "batch_size": 64, "limit": 100, "file": "b.jsonl"},
    }  # fmt: skip


def test_an_architecture_is_typed_as_json(world):
    browser().post(FORM, typed(architecture=json.dumps(ARCHITECTURE)))
    assert Job.objects.get().params["architecture"] == ARCHITECTURE


def test_what_is_left_empty_is_not_said(world):
    browser().post(FORM, typed())
    assert Job.objects.get().params == {"model": "net", "input": "rows", "max_bad_rows": 0, "batch_size": 32}


def test_the_form_shows_models_and_data_sets_and_begins_in_the_inference_queue(world):
    page = text(browser().get(FORM))
    assert re.search(r'<option value="[0-9a-f-]{36}" >net \(alpha, [0-9a-f]{8}\)', page)
    assert len(re.findall(r"<option value=\"[0-9a-f-]{36}\" >(?:rows|both) \(alpha", page)) == 2
    assert '<option value="inference" selected>' in page
    assert '<a href="/jobs/new/infer/" aria-current="page">Run a model over rows</a>' in page
    assert "<details ><summary>What a language model is asked</summary>" in page


@pytest.mark.parametrize("path", ["/jobs/new/", "/jobs/new/evaluate/", "/jobs/new/command/"])
def test_the_other_forms_lead_to_it(world, path):
    assert '<a href="/jobs/new/infer/" >Run a model over rows</a>' in text(browser().get(path))


def test_from_the_page_of_a_model_or_a_data_set_it_is_chosen(world):
    for name, reference in (("model", "net"), ("input", "rows")):
        page = text(browser().get(f"{FORM}?{name}={reference}"))
        assert re.findall(r'<option value="[0-9a-f-]{36}" selected>(\w+)', page) == [reference]


def test_without_a_data_set_the_form_says_how_one_comes_to_be(lab):
    assert "There is no data set in your projects yet." in text(browser().get(FORM))


def test_a_preset_fills_it_and_opens_what_it_fills(world):
    page = text(browser().get(f"{FORM}?preset=draw"))
    assert 'name="temperature" value="0.8"' in page
    assert "<details open><summary>What a language model is asked</summary>" in page
    assert 'name="limit" value="100"' in text(browser().get(f"{FORM}?preset=try"))


@pytest.mark.parametrize(
    ("field", "changed", "words"),
    [
        ("model", {"model": ""}, "Model is missing: give the id or name of a model"),
        ("model", {"model": "nett"}, "there is no artifact 'nett' in your projects (did you mean 'net'?)"),
        ("model", {"model": "rows"}, "'rows' is a dataset, not a model"),
        ("input", {"input": ""}, "Data set is missing: give the id or name of a data set"),
        ("input", {"input": "a"}, "'a' is a model, not a dataset"),
        ("temperature", {"temperature": "1"}, "Temperature can't be asked of the architecture mlp"),
        ("logprobs", {"logprobs": "on"}, "Log-probabilities can't be asked of the architecture mlp"),
        ("max_new_tokens", {"model": "writer", "max_new_tokens": "-1"},
         "New tokens must be a whole number from 0 to 65536, not '-1'"),
        ("max_new_tokens", {"model": "writer", "max_new_tokens": "0"}, "so nothing would come out: change one of them"),
        ("temperature", {"model": "writer", "temperature": "hot"},
         "Temperature must be a number from 0 (always the likeliest token) to 100, not 'hot'"),
        ("seed", {"model": "writer", "seed": "1.5"}, "Seed must be a whole number from 0 to 9223372036854775807"),
        ("max_bad_rows", {"max_bad_rows": "few"}, "Bad rows passed over must be a whole number from 0 to 1000000000"),
        ("batch_size", {"batch_size": "0"}, "Samples at a time must be a whole number from 1 to 65536, not 0"),
        ("limit", {"limit": "-1"}, "must be a whole number from 1 to 1000000000, not '-1'"),
        ("file", {"input": "both"}, "'both' has a.csv, b.jsonl: say with file which is read"),
        ("file", {"file": "x.parquet"}, "a file of the data set that ends in .jsonl, .csv, .safetensors"),
        ("architecture", {"architecture": "mlp"}, "this is no object of JSON: write it like {\"model_type\": \"mlp\""),
        ("gpu_count", {"gpu_count": "0"}, "GPUs must be a whole number from 1 to 4"),
        ("must_run", {"must_run": "rack_id="}, "Must run where"),
    ],
)  # fmt: skip
def test_each_refusal_stands_beside_its_field(world, field, changed, words):
    assert words in refused(field, **changed)


def test_everything_wrong_is_told_at_once_and_what_was_typed_is_still_there(world):
    response = browser().post(FORM, typed(model="", temperature="hot", limit="all", architecture="no", name="a/b"))
    page = text(response)
    assert response.status_code == 422
    assert all(beside(page, field) for field in ("model", "temperature", "limit", "architecture", "name"))
    assert 'name="temperature" value="hot"' in page
    assert "Nothing was submitted: 5 things to mend" in page
    assert page.count("<details open><summary>") == 2


def test_what_would_happen_is_told_of_it_too(world):
    page = text(browser().post(f"{FORM}plan/", typed()))
    assert "1 GPU" in page
    assert not Job.objects.exists()


def test_a_clone_opens_its_form_filled_as_it_was(world):
    params = {"temperature": 0.5, "max_new_tokens": 3, "seed": 0, "logprobs": True, "limit": 5, "max_bad_rows": 0}
    job = b.submitted(world.who["alice"], b.infer_body("writer", "rows", params=params))
    answer = browser().get(f"/jobs/new/?from={job}")
    assert answer["Location"] == f"{FORM}?from={job}"
    page = text(browser().get(answer["Location"]))
    assert re.findall(r'<option value="[0-9a-f-]{36}" selected>(\w+)', page) == ["writer", "rows"]
    told = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
    assert {name: told[name] for name in ("temperature", "max_new_tokens", "seed", "limit", "max_bad_rows")} == {
        "temperature": "0.5", "max_new_tokens": "3", "seed": "", "limit": "5", "max_bad_rows": "",
    }  # fmt: skip
    assert '<input type="checkbox" name="logprobs" checked>' in page
    assert "As in the job it is copied from" not in page


@pytest.mark.parametrize("kind", ["infer", "evaluate", "merge", "evolve", "command"])
@pytest.mark.parametrize("params", [None, 3, ["x"], {"logprobs": "yes"}, {"architecture": ["x"]},
                                    {"model": {"a": 1}, "limit": [1], "models": 3, "argv": {}}])  # fmt: skip
def test_a_refused_body_may_hold_anything_and_is_shown_to_be_mended(world, kind, params):
    refused_job = jobs.submit({"kind": kind, "project": "alpha", "params": params}, world.who["alice"], b.NOON)
    answer = browser().get(f"/jobs/new/?from={refused_job.job_id}", follow=True)
    assert answer.status_code == 200
