"""A recipe typed into the form or sent as a file: the job that REST would make, and every refusal beside it."""

from __future__ import annotations

import html as entities
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from scheduling.models import Job
from scheduling.services import jobs, recipes
from tests import builders as b
from tests.services.test_recipes import LAYERS, TEXT, deep, with_deep_models
from tests.web.pages import beside, browser, form, text
from tests.web.test_asked_rows import rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Any:
    return with_deep_models()


def typed(recipe: str = "", **kw: Any) -> dict[str, Any]:
    return form([], strategy="recipe", recipe=recipe, **kw)


def test_a_typed_recipe_makes_the_job_that_rest_would_make(alice: Any) -> None:
    response = browser().post("/jobs/new/", typed(deep(), seed="12"))
    job = Job.objects.get()
    assert response["Location"] == f"/jobs/{job.pk}/"
    assert job.params == {"recipe": recipes.read(deep()), "seed": 12}


def test_a_file_counts_as_if_its_text_had_been_typed(alice: Any) -> None:
    file = SimpleUploadedFile("mine.yaml", deep().encode())
    browser().post("/jobs/new/", {**typed("nothing of this"), "recipe_file": file})
    assert Job.objects.get().params["recipe"] == recipes.read(deep())


def test_an_empty_file_field_leaves_what_was_typed(alice: Any) -> None:
    browser().post("/jobs/new/", {**typed(deep()), "recipe_file": SimpleUploadedFile("x.yaml", b"")})
    assert Job.objects.get().state == "QUEUED"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00PK\x03\x04", b"\x00" * 500, "a: x".encode("utf-16")])
def test_a_file_that_is_no_text_is_refused_beside_the_recipe(alice: Any, content: bytes) -> None:
    response = browser().post("/jobs/new/", {**typed(), "recipe_file": SimpleUploadedFile("x.yaml", content)})
    assert (response.status_code, bool(beside(text(response), "recipe"))) == (422, True)


def test_a_file_that_is_too_long_is_refused_with_the_limit(alice: Any) -> None:
    file = SimpleUploadedFile("x.yaml", b"# " + b"x" * 300_000)
    found = beside(text(browser().post("/jobs/new/", {**typed(), "recipe_file": file})), "recipe")
    assert "at most 60000 are read" in found


def test_everything_that_is_wrong_stands_beside_the_recipe_in_its_own_words(alice: Any) -> None:
    wrong = deep().replace("merge_method: slerp", "merge_method: slurp\nout_dtype: float8\nbase_model: {path: x}")
    html = text(browser().post("/jobs/new/", typed(wrong.replace("[1, 3]", "[1, 1]"), gpu_count="0")))
    found = entities.unescape(beside(html, "recipe"))
    assert all(path in found for path in (
        "merge_method: there is no merge strategy 'slurp'", "out_dtype: must be one of", "base_model: is the id or",
        "slices[0].sources[1].layer_range: is [first, end]",
    )), found  # fmt: skip
    assert beside(html, "gpu_count")
    assert entities.unescape(re.search(r'name="recipe"[^>]*>([^<]*)</textarea>', html).group(1)).strip() == (
        wrong.replace("[1, 3]", "[1, 1]").strip()
    )


def test_a_model_that_is_not_there_is_named_with_its_path(alice: Any) -> None:
    found = beside(text(browser().post("/jobs/new/", typed(TEXT.replace("model: a", "model: deep-c")))), "recipe")
    assert "deep-c" in found


def test_the_page_of_the_job_shows_all_of_the_recipe(alice: Any) -> None:
    browser().post("/jobs/new/", typed(deep() + "dtype: float32\n"))
    job = Job.objects.get()
    found = rows(job.pk)
    assert recipes.read(entities.unescape(found["Recipe"])) == job.params["recipe"]
    assert (found["Merge"], found["Models"]) == ("slerp, by a recipe", "deep-a, deep-b")


def test_a_copy_of_the_job_has_the_recipe_in_the_form_and_makes_the_same(alice: Any) -> None:
    client = browser()
    client.post("/jobs/new/", typed(deep(), seed="5"))
    first = Job.objects.get()
    html = text(client.get(f"/jobs/new/?from={first.pk}"))
    assert re.search(r'value="recipe" checked', html)
    recipe = entities.unescape(re.search(r'name="recipe"[^>]*>([^<]*)</textarea>', html).group(1))
    assert 'name="seed" value="5"' in html
    client.post("/jobs/new/", typed(recipe, seed="5", key="2" * 36))
    assert [job.params for job in Job.objects.all()] == [first.params] * 2


@pytest.mark.parametrize(
    "recipe", [[1], {"models": 3}, "a: [", {"x": [[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]}, 7]
)
def test_a_refused_recipe_of_any_shape_opens_in_the_form(alice: Any, recipe: Any) -> None:
    refused = jobs.submit({**b.merge_body([]), "params": {"recipe": recipe}}, alice, b.NOON).job_id
    assert browser().get(f"/jobs/new/?from={refused}").status_code == 200
    assert browser().get(f"/jobs/{refused}/").status_code == 200


def test_the_page_of_a_refused_job_shows_the_recipe_as_it_was_written(alice: Any) -> None:
    written = "# mine\n" + deep().replace("slerp", "slurp")
    refused = jobs.submit({**b.merge_body([]), "params": {"recipe": written}}, alice, b.NOON).job_id
    page = entities.unescape(text(browser().get(f"/jobs/{refused}/")))
    assert f'<code class="whole">{written}</code>' in page
    document = recipes.read(written)
    refused = jobs.submit({**b.merge_body([]), "params": {"recipe": document}}, alice, b.NOON).job_id
    assert recipes.as_text(document) in entities.unescape(text(browser().get(f"/jobs/{refused}/")))


def test_what_would_happen_tells_what_each_tensor_gets(alice: Any) -> None:
    html = text(browser().post("/jobs/new/plan/", typed(deep()), HTTP_HX_REQUEST="true"))
    assert '<td data-label="Values">t = 0.25</td><td data-label="Models">deep-a, deep-b</td>' in html
    assert "h.0.mlp.w" in html


def test_what_is_wrong_with_a_recipe_stands_beside_it_after_asking_what_would_happen(alice: Any) -> None:
    html = text(browser().post("/jobs/new/plan/", typed("merge_method: x"), HTTP_HX_REQUEST="true"))
    assert 'data-beside="recipe"' in html


def test_a_t_for_each_layer_is_typed_with_commas_and_comes_back_so(alice: Any) -> None:
    client = browser()
    client.post("/jobs/new/", form(["deep-a", "deep-b"], t="0.2, 0.5, 0.9"))
    job = Job.objects.get()
    assert job.params["t"] == [0.2, 0.5, 0.9]
    assert 'name="t" value="0.2, 0.5, 0.9"' in text(client.get(f"/jobs/new/?from={job.pk}"))
    assert rows(job.pk)["Merge"] == "slerp, t = 0.2 to 0.5 to 0.9 over the layers"


def test_filters_and_gradients_that_came_by_rest_come_back_in_a_copy(alice: Any) -> None:
    base = b.model(alice, "deep-base", 8, shapes=LAYERS)
    filters = [{"filter": "mlp", "value": 0.5}, {"value": 0.1}]
    params = {
        "strategy": "ties", "models": ["deep-a", "deep-b"], "base_model": base, "density": [[0.2, 0.8], filters],
        "weights": [1, [2.0, 1.0]], "normalize": [{"filter": "mlp", "value": False}],
    }  # fmt: skip
    first = b.submitted(alice, b.merge_body([]) | {"params": params})
    found = rows(first)
    assert found["Density"] == "0.2 to 0.8 over the layers, 0.5 for mlp; 0.1 for the rest"
    assert found["Merge"] == "ties, weights 1, 2 to 1 over the layers, normalize = no for mlp"
    client = browser()
    html = text(client.get(f"/jobs/new/?from={first}"))
    value = {name: entities.unescape(v) for name, v in re.findall(r'name="(\w+)"[^>]* value="([^"]*)"', html)}
    weights = [entities.unescape(v) for v in re.findall(r'name="weight"[^>]*value="([^"]*)"', html)]
    normalize = entities.unescape(re.search(r'<select id="id_normalize".*?<option selected>([^<]*)<', html, re.S)[1])
    client.post("/jobs/new/", form(["deep-a", "deep-b"], strategy="ties", base_model=base, density=value["density"],
                                   weight=weights, normalize=normalize, key="2" * 36))  # fmt: skip
    one, two = (job.params for job in Job.objects.order_by("submitted_at"))
    assert {**one, "models": two["models"]} == two


def test_a_seed_is_typed_for_what_is_drawn_and_refused_beside_it(alice: Any) -> None:
    base = b.model(alice, "deep-base", 8, shapes=LAYERS)
    filled = form(["deep-a", "deep-b"], strategy="dare_ties", base_model=base, density="0.5")
    client = browser()
    assert "seed must be a whole number" in beside(text(client.post("/jobs/new/", {**filled, "seed": "-1"})), "seed")
    client.post("/jobs/new/", {**filled, "seed": "7"})
    job = Job.objects.exclude(state="REJECTED").get()
    assert (job.params["seed"], rows(job.pk)["Seed"]) == (7, "7")
    assert 'name="seed" value="7"' in text(client.get(f"/jobs/new/?from={job.pk}"))
