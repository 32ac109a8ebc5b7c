"""The form of a search makes the job that REST would make, and refuses what REST refuses, beside the field."""

from __future__ import annotations

import html as entities
import json
import re

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from scheduling.web import evolve_form, space_lines
from tests import builders as b
from tests.web.pages import beside, browser, text
from workers.catalog import check_params

pytestmark = pytest.mark.django_db
FORM = "/jobs/new/evolve/"
SIZES = (4, 6, 3)
ARCHITECTURE = {"model_type": "mlp", "layer_sizes": list(SIZES), "activation": "relu"}


@pytest.fixture
def world(lab):
    """The lab with three classifiers and two data sets."""
    for seed, name in enumerate(("one", "two", "base")):
        b.mlp(lab.who["alice"], name, seed, sizes=SIZES)
    b.dataset(lab.who["alice"], "search", content=b"a")
    b.dataset(lab.who["alice"], "test", content=b"b")
    return lab


def typed(**changed):
    """What the form posts when it is filled rightly."""
    texts = dict.fromkeys(evolve_form.TEXTS, "")
    return {**texts, "key": "1" * 36, "name": "found", "project": "alpha", "queue": "merge", "priority": "Normal",
            "gpu_count": "1", "max_duration": "1h", "strategy": "slerp", "model": ["one", "two", "", ""],
            "space": "t 0 1 layer", "dataset": "search", "budget": "60", **changed}  # fmt: skip


def refused(field: str, **changed) -> str:
    """What is said beside the field of the refused form."""
    response = browser().post(FORM, typed(**changed))
    assert response.status_code == 422
    return entities.unescape(re.sub(r"<[^>]+>", "", beside(text(response), field)))


def cleaned(params):
    """The parameters as a job keeps them."""
    found, errors = check_params("evolve", params)
    assert errors == []
    return found


WHOLE = {
    "strategy": "ties", "base_model": "base", "space": "density 0.25 1 group 0. 2.\n\nlambda 0.5 1.5\n",
    "settings": '{"weights": [1, 2], "density": 0.5}', "test": "test", "metrics": ["accuracy", "loss"],
    "batch_size": "64", "limit": "100", "file": "test.jsonl", "architecture": json.dumps(ARCHITECTURE),
    "test_limit": "50", "test_file": "test.jsonl", "population": "8", "grid": "5", "sigma": "0.3", "seed": "7",
}  # fmt: skip


def test_a_rightly_filled_form_makes_the_job_that_rest_would_make(world):
    response = browser().post(FORM, typed(**WHOLE))
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert job.params == cleaned({
        "merge": {"strategy": "ties", "models": ["one", "two"], "base_model": "base", "weights": [1, 2],
                  "density": 0.5},
        "space": [{"name": "density", "low": 0.25, "high": 1.0, "per": "group", "groups": ["0.", "2."]},
                  {"name": "lambda", "low": 0.5, "high": 1.5}],
        "objective": {"dataset": "search", "metrics": ["accuracy", "loss"], "batch_size": 64, "limit": 100,
                      "file": "test.jsonl", "architecture": ARCHITECTURE},
        "test": {"dataset": "test", "limit": 50, "file": "test.jsonl"},
        "budget": 60, "population": 8, "grid": 5, "sigma": 0.3, "seed": 7,
    })  # fmt: skip


def test_what_is_left_empty_is_not_said(world):
    browser().post(FORM, typed())
    assert Job.objects.get().params == cleaned({
        "merge": {"strategy": "slerp", "models": ["one", "two"]}, "objective": {"dataset": "search"}, "budget": 60,
        "space": [{"name": "t", "low": 0.0, "high": 1.0, "per": "layer"}],
    })  # fmt: skip


def test_a_clone_is_filled_as_it_was_sent(world):
    browser().post(FORM, typed(**WHOLE))
    first = Job.objects.get()
    page = text(browser().get(f"/jobs/new/?from={first.pk}", follow=True))
    assert '<a href="/jobs/new/evolve/" aria-current="page">Search for the best merge</a>' in page
    again = evolve_form.again(jobs.body_again(str(first.pk), world.who["alice"]))
    assert cleaned(evolve_form.body_of(again)["params"]) == first.params
    assert again.rest == {}
    assert "density 0.25 1.0 group 0. 2." in page


def test_the_form_shows_models_data_sets_and_strategies_and_begins_with_a_preset(world):
    page = text(browser().get(FORM))
    assert len(re.findall(r"<option value=\"[0-9a-f-]{36}\" >(?:one|two|base) \(alpha", page)) == 5 * 3
    assert len(re.findall(r"<option value=\"[0-9a-f-]{36}\" >(?:search|test) \(alpha", page)) == 2 * 2
    assert '<option value="slerp" selected>' in page
    assert "t 0 1 layer</textarea>" in page
    assert "weights 0 1.5 layer</textarea>" in text(browser().get(f"{FORM}?preset=task-layers"))


@pytest.mark.parametrize("path", ["/jobs/new/", "/jobs/new/command/", "/jobs/new/evaluate/"])
def test_the_other_forms_lead_to_it(world, path):
    assert '<a href="/jobs/new/evolve/" >Search for the best merge</a>' in text(browser().get(path))


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"space": ""}, "space", "What is searched must list 1 to 8 parameters"),
        ({"space": "\nt 0 1\ntt 0 1"}, "space", "line 3: slerp has no number 'tt'"),
        ({"space": "t 0 2"}, "space", "line 1: high is no value of it"),
        ({"space": "t 0 1 group 0. attn"}, "space", "line 1: group 'attn': it fits no tensor"),
        ({"space": "t 0 1 group 'a"}, "space", "line 1 has a quote that is not closed: write it like t 0 1 layer"),
        ({"space": "t nought 1"}, "space", "line 1: low must be, and not 'nought', a finite number"),
        ({"model": ["one", "gone"]}, "2", "there is no artifact 'gone'"),
        ({"model": ["one"]}, "models", "slerp merges 2 models, not 1"),
        ({"strategy": "ties"}, "base_model", "ties needs"),
        ({"strategy": "ties", "base_model": "base", "space": "lambda 0 1"}, "settings", "density is needed"),
        ({"settings": "{"}, "settings", "this is no object of JSON"),
        ({"settings": '{"recipe": {}}'}, "settings", "a recipe is not searched"),
        ({"settings": '{"on_mismatch": "frist"}'}, "settings", "Tensors that differ is one of error, base, first, min"),
        ({"dataset": ""}, "dataset", "Objective is missing: give the data set"),
        ({"dataset": "one"}, "dataset", "'one' is a model, not a dataset"),
        ({"test": "search"}, "test", "is the data set of the search"),
        ({"test_file": "b.csv", "test": "test"}, "test_file", "'test' has no file 'b.csv'"),
        ({"test_limit": "-3", "test": "test"}, "test_limit", "must be a whole number from 1"),
        ({"batch_size": "many"}, "batch_size", "must be a whole number from 1"),
        ({"architecture": "mlp"}, "architecture", "this is no object of JSON"),
        ({"metrics": ["speed"]}, "metrics", "there is no metric 'speed'"),
        ({"budget": "9"}, "budget", "must be at least 17"),
        ({"budget": ""}, "budget", "is missing: give a whole number"),
        ({"population": "3"}, "population", "whole number, from 4 to 1000"),
        ({"sigma": "much"}, "sigma", "must be a number from 0.001 to 1"),
        ({"seed": "-1"}, "seed", "whole number, from 0"),
    ],
)  # fmt: skip
def test_what_rest_refuses_is_refused_beside_the_field(world, changed, field, words):
    assert words in refused(field, **changed)


def test_several_things_are_told_at_once(world):
    page = text(browser().post(FORM, typed(space="t 0 2", budget="x", dataset="", model=["one"])))
    assert "4 things to mend" in page
    assert all(beside(page, field) for field in ("space", "budget", "dataset", "models"))


@pytest.mark.parametrize("line", ["t 0.0 1.0 layer", "t 0.0 1.0 layer 5", "lambda 0.1 1.0", "t 0.0 1.0 group a 'b c'"])
def test_a_line_says_what_it_was_made_of(line):
    assert space_lines.as_text(space_lines.entries_of(line)) == line


@pytest.mark.parametrize(
    "space", [7, [7], [{"name": "t", "low": 0, "high": 1, "what": 2}], [{"name": "t", "low": True, "high": 1}],
              [{"name": "t", "low": 0, "high": 1, "per": "layer", "groups": ["a"]}], [{"name": "t"}]],
)  # fmt: skip
def test_a_space_that_no_lines_say_is_sent_along_as_it_is(space):
    assert space_lines.as_text(space) is None
    values = evolve_form.again({"kind": "evolve", "params": {"space": space}})
    assert evolve_form.body_of(values)["params"]["space"] == space


@pytest.mark.parametrize("part", ["merge", "objective", "test"])
@pytest.mark.parametrize("odd", [7, "x", [1]])
def test_a_part_that_is_no_object_is_sent_along_as_it_is(part, odd):
    values = evolve_form.again({"kind": "evolve", "params": {part: odd}})
    assert evolve_form.body_of(values)["params"][part] == odd


def test_the_page_of_the_job_tells_what_was_asked_for(world):
    browser().post(FORM, typed(**WHOLE))
    page = entities.unescape(re.sub(r"<[^>]+>", " ", text(browser().get(f"/jobs/{Job.objects.get().pk}/"))))
    said = " ".join(page.split())
    for words in ("Models one , two Base model base", "Merge ties, weights 1, 2",
                  "What is searched density from 0.25 to 1, a value for each of 0., 2. and the rest; lambda from 0.5 "
                  "to 1.5, one value for all tensors", "Search set search", "Test set test",
                  "Judged by accuracy, then loss", "Evaluations at most 60", "Fixed values first 5"):  # fmt: skip
        assert words in said, words


def test_a_plan_tells_what_would_be_refused(world):
    page = text(browser().post(f"{FORM}plan/", typed(space="t 0 2"), HTTP_HX_REQUEST="true"))
    assert "line 1: high is no value of it" in entities.unescape(page)
