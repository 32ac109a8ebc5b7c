"""The tokenizer of a merge by REST: taken with its model, and refused before anything waits where that has none."""

from __future__ import annotations

from typing import Any

import pytest

from tests import builders as b
from tests.api.calls import World, error, world
from tests.services.test_recipes import LAYERS, deep

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> World:
    made = world()
    for seed, (name, more) in enumerate({"deep-a": {}, "deep-b": {"tokenizer.json": b"{}"}}.items()):
        files = {"model.safetensors": b.tensors(seed, LAYERS), "config.json": b"{}", **more}
        b.artifact(made.who["alice"], name, files)
    return made


def body(**params: Any) -> dict[str, Any]:
    return {**b.merge_body([]), "params": params}


def test_a_model_with_a_tokenizer_is_taken_in_both_forms(house: World) -> None:
    for params in (
        {"models": ["deep-a", "deep-b"], "tokenizer_source": "deep-b"},
        {"recipe": f"{deep()}\ntokenizer_source: deep-b\n"},
    ):
        answer = house.alice.post("jobs/", body(**params))
        assert answer.status_code == 201, answer.json()
        told = house.alice.get(f"jobs/{answer.json()['id']}/").json()["params"]
        assert (told.get("recipe") or told)["tokenizer_source"] == "deep-b"


@pytest.mark.parametrize("verb", ["jobs/", "jobs/plan/"])
def test_a_model_without_one_is_refused_by_name(house: World, verb: str) -> None:
    plain = body(models=["deep-a", "deep-b"], tokenizer_source="deep-a")
    if verb == "jobs/":
        refused = error(house.alice.post(verb, plain), 422, "params.tokenizer_source", "no_tokenizer")
        assert refused["message"].startswith("'deep-a' has no tokenizer: there is no tokenizer.json, ")
        recipe = body(recipe=f"{deep()}\ntokenizer_source: deep-a\n")
        error(house.alice.post(verb, recipe), 422, "params.recipe.tokenizer_source", "no_tokenizer")
    else:
        told = house.alice.post(verb, plain).json()
        assert [(e["field"], e["code"]) for e in told["errors"]] == [("params.tokenizer_source", "no_tokenizer")]


def test_a_union_is_refused_by_name(house: World) -> None:
    recipe = body(recipe=f"{deep()}\ntokenizer_source: union\n")
    refused = error(house.alice.post("jobs/", recipe), 422, "params.recipe.tokenizer_source", "no_union")
    assert refused["message"].startswith("tokenizer_source: union makes one vocabulary of several")
