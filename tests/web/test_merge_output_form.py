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
    assert "has no tokenizer: none of its files is" in entities.unescape(beside(html, "tokenizer_source"))
    tokens = str(Artifact.objects.get(name="with-tokens").pk)
    html = text(browser().post("/jobs/new/", form(models, tokenizer_source=tokens)))
    assert "is none of the models" in entities.unescape(beside(html, "tokenizer_source"))


def test_without_a_choice_nothing_is_said(alice: Any) -> None:
    browser().post("/jobs/new/", form(["deep-a", "deep-b"], tokenizer_source=""))
    job = Job.objects.get()
    assert ("tokenizer_source" in job.params, "Tokenizer of" in rows(job.pk)) == (False, False)
