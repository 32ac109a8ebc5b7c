"""What the result of a merge has beside its strategy: typed into the form, told on the job's page, kept in a copy."""

from __future__ import annotations

import html as entities
from typing import Any

import pytest

from scheduling.models import Artifact, Job
from tests import builders as b
from tests.services.test_recipes import LAYERS, with_deep_models
from tests.web.pages import beside, browser, form, text
from tests.web.test_asked_rows import rows

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Any:
    made = with_deep_models()
    files = {"model.safetensors": b.tensors(9, LAYERS), "tokenizer.json": b"{}"}
    b.artifact(made, "with-tokens", files)
    return made


def test_a_tokenizer_is_chosen_told_and_kept_in_a_copy(alice: Any) -> None:
    client, tokens = browser(), str(Artifact.objects.get(name="with-tokens").pk)
    client.post("/jobs/new/", form(["deep-a", tokens], tokenizer_source=tokens))
    job = Job.objects.get()
    assert (job.params["tokenizer_source"], rows(job.pk)["Tokenizer of"]) == (tokens, "with-tokens")
    html = text(client.get(f"/jobs/new/?from={job.pk}"))
    chosen = html.partition('id="id_tokenizer_source"')[2].partition("</select>")[0]
    assert f'<option value="{tokens}" selected>' in chosen
    assert "<details open><summary>More" in html


def test_base_that_came_by_rest_is_shown_and_stays(alice: Any) -> None:
    tokens = str(Artifact.objects.get(name="with-tokens").pk)
    params = {"strategy": "task_arithmetic", "models": ["deep-a"], "base_model": tokens, "tokenizer_source": "base"}
    first = b.submitted(alice, b.merge_body([]) | {"params": params})
    assert rows(first)["Tokenizer of"] == "with-tokens"
    html = text(browser().get(f"/jobs/new/?from={first}"))
    assert '<option value="base" selected>the base</option>' in html


def test_what_is_wrong_with_it_stands_beside_it(alice: Any) -> None:
    models = [str(Artifact.objects.get(name=name).pk) for name in ("deep-a", "deep-b")]
    html = text(browser().post("/jobs/new/", form(models, tokenizer_source=models[0])))
    assert "has no tokenizer: there is no tokenizer.json," in entities.unescape(beside(html, "tokenizer_source"))
    tokens = str(Artifact.objects.get(name="with-tokens").pk)
    html = text(browser().post("/jobs/new/", form(models, tokenizer_source=tokens)))
    assert "is none of the models" in entities.unescape(beside(html, "tokenizer_source"))


def test_without_a_choice_nothing_is_said(alice: Any) -> None:
    browser().post("/jobs/new/", form(["deep-a", "deep-b"], tokenizer_source=""))
    job = Job.objects.get()
    assert ("tokenizer_source" in job.params, "Tokenizer of" in rows(job.pk)) == (False, False)


BLOCKS = {f"net.block{i}_conv.w": (4, 3) for i in range(3)} | {"head.w": (3,)}


@pytest.fixture
def blocks(alice: Any) -> list[str]:
    return [b.model(alice, f"blocks-{name}", seed, shapes=BLOCKS) for seed, name in enumerate("ab")]


def test_a_pattern_is_typed_told_and_kept_in_a_copy(blocks: list[str]) -> None:
    client = browser()
    client.post("/jobs/new/", form(blocks, t="0, 1", layer_pattern=" block{layer}_ "))
    job = Job.objects.get()
    assert (job.params["layer_pattern"], rows(job.pk)["Layers by"]) == ("block{layer}_", "block{layer}_")
    assert 'name="layer_pattern" value="block{layer}_"' in text(client.get(f"/jobs/new/?from={job.pk}"))


def test_a_pattern_stands_beside_a_recipe_too(blocks: list[str]) -> None:
    recipe = "merge_method: passthrough\nslices:\n  - sources: [{model: blocks-a, layer_range: [1, 3]}]\n"
    client = browser()
    html = text(client.post("/jobs/new/", form([], strategy="recipe", recipe=recipe)))
    assert "say how with layer_pattern" in entities.unescape(beside(html, "recipe"))
    client.post("/jobs/new/", form([], strategy="recipe", recipe=recipe, layer_pattern="block{layer}_", key="3" * 36))
    job = Job.objects.exclude(state="REJECTED").get()
    assert (job.params["layer_pattern"], rows(job.pk)["Layers by"]) == ("block{layer}_", "block{layer}_")
    assert 'name="layer_pattern" value="block{layer}_"' in text(client.get(f"/jobs/new/?from={job.pk}"))


@pytest.mark.parametrize("t", ["0, 1", "0.5"])
def test_a_pattern_that_finds_nothing_is_refused_beside_it_with_what_is_there(blocks: list[str], t: str) -> None:
    html = text(browser().post("/jobs/new/", form(blocks, t=t, layer_pattern="h.{layer}.")))
    told = entities.unescape(beside(html, "layer_pattern"))
    assert "fits no tensor of 'blocks-a': there are 'net.block0_conv.w'" in told
    html = text(browser().post("/jobs/new/", form(blocks, t=t, layer_pattern="h.{layer}.", tokenizer_source=blocks[0])))
    assert (bool(beside(html, "layer_pattern")), bool(beside(html, "tokenizer_source"))) == (True, True)
    html = text(browser().post("/jobs/new/", form(blocks, t=t, layer_pattern="block_")))
    assert "{layer} 0 times, not once" in entities.unescape(beside(html, "layer_pattern"))


def test_what_would_happen_tells_the_values_of_the_layers_that_it_finds(blocks: list[str]) -> None:
    filled = form(blocks, t="0, 1", layer_pattern="block{layer}_")
    html = text(browser().post("/jobs/new/plan/", filled, HTTP_HX_REQUEST="true"))
    assert '<td data-label="Values">t = 0.5</td>' in html


def test_what_becomes_of_tensors_that_differ_is_typed_told_and_kept_in_a_copy(blocks: list[str]) -> None:
    client = browser()
    rule = '[{"filter": "emb", "value": "min"}]'
    client.post("/jobs/new/", form(blocks, on_mismatch=f" {rule} "))
    job = Job.objects.get()
    assert job.params["on_mismatch"] == [{"filter": "emb", "value": "min"}]
    assert "Tensors that differ" in rows(job.pk)
    kept = text(client.get(f"/jobs/new/?from={job.pk}"))
    assert f'name="on_mismatch" value="{entities.escape(rule)}"' in kept


@pytest.mark.parametrize(
    ("given", "told"),
    [("skip", "one of error, base, first, min"), ("base", "there is no Base model"), ("[1", "not '[1'")],
)
def test_a_rule_that_is_none_is_refused_beside_its_field(blocks: list[str], given: str, told: str) -> None:
    html = text(browser().post("/jobs/new/", form(blocks, on_mismatch=given)))
    assert told in entities.unescape(beside(html, "on_mismatch"))
