"""A recipe by REST: as YAML or as the object, each refusal with its path, and what the plan tells of each tensor."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.services import recipes
from tests import builders as b
from tests.api.calls import World, error, problem, world
from tests.services.test_recipes import LAYERS, deep

pytestmark = pytest.mark.django_db


@pytest.fixture
def house() -> World:
    made = world()
    for seed, name in enumerate(("deep-a", "deep-b")):
        b.model(made.who["alice"], name, seed, shapes=LAYERS)
    return made


def body(recipe: Any, **params: Any) -> dict[str, Any]:
    return {**b.merge_body([]), "params": {"recipe": recipe, **params}}


def test_the_text_and_the_object_make_the_same_job(house: World) -> None:
    answers = [house.alice.post("jobs/", body(recipe, seed=3)) for recipe in (deep(), recipes.read(deep()))]
    assert [answer.status_code for answer in answers] == [201, 201]
    params = [house.alice.get(f"jobs/{answer.json()['id']}/").json()["params"] for answer in answers]
    assert params == [{"recipe": recipes.read(deep()), "seed": 3}] * 2


def test_every_refusal_has_its_path_in_the_document(house: World) -> None:
    wrong = deep().replace("slerp", "slurp").replace("[1, 3]", "[3, 1]").replace("deep-a", "deep-c")
    answer = house.alice.post("jobs/", body(wrong, t=0.5))
    found = {(each["field"], each["code"]) for each in problem(answer, 422, "invalid_job")["errors"]}
    assert found == {
        ("params.recipe.merge_method", "unknown_strategy"),
        ("params.recipe.slices[0].sources[1].layer_range", "not_a_range"),
        ("params.recipe.slices[0].sources[0].model", "no_such_artifact"),
        ("params.t", "beside_recipe"),
    }


def test_a_text_that_is_no_yaml_is_refused_with_its_line(house: World) -> None:
    refused = error(house.alice.post("jobs/", body("a: 1\nb: [")), 422, "params.recipe", "unreadable")
    assert refused["message"].startswith("recipe: line 2: this is no YAML")


def test_the_plan_tells_of_each_tensor_what_it_is_made_of_and_its_values(house: World) -> None:
    told = house.alice.post("jobs/plan/", body(deep())).json()["tensors"]
    (row,) = [each for each in told if each["tensor"] == "h.0.mlp.w"]
    assert row == {
        "tensor": "h.0.mlp.w",
        "from": [{"model": "deep-a", "tensor": "h.0.mlp.w"}, {"model": "deep-b", "tensor": "h.1.mlp.w"}],
        "values": {"t": 0.25},
        "note": "",
    }
    plain = {**b.merge_body(["deep-a", "deep-b"]), "params": {"models": ["deep-a", "deep-b"]}}
    assert house.alice.post("jobs/plan/", plain).json()["tensors"] == []


def test_the_plan_tells_what_is_copied_what_is_cut_and_what_is_left_out(house: World) -> None:
    b.model(house.who["alice"], "small", 7, shapes={"e": [4, 2], "n": [2], "x": [3]})
    b.model(house.who["alice"], "large", 8, shapes={"e": [6, 2], "n": [2], "x": [5], "y": [1]})
    how = [{"filter": "e", "value": "min"}, {"value": "first"}]
    params = {"strategy": "linear", "models": ["small", "large"], "on_mismatch": how}
    told = house.alice.post("jobs/plan/", {**b.merge_body(["small", "large"]), "params": params}).json()["tensors"]
    assert {row["tensor"]: (row["note"], [each["model"] for each in row["from"]]) for row in told} == {
        "e": ("the first 4 rows", ["small", "large"]), "n": ("", ["small", "large"]), "x": ("copied", ["small"]),
        "y": ("left out", ["large"]),
    }  # fmt: skip


def test_a_model_that_is_named_twice_is_refused_by_plain_parameters_as_in_a_recipe(house: World) -> None:
    one = b.model(house.who["alice"], "one", 9)
    for models in (["one", "one"], ["one", str(one)]):
        sent = {**b.merge_body(models), "params": {"strategy": "linear", "models": models}}
        told = error(house.alice.post("jobs/", sent), 422, "params.models.1", "counted_twice")
        assert told["message"] == (
            "'one' is models[0] already, so it would be counted twice: leave one of them out, or give it more weight"
        )


def test_a_model_of_another_project_reads_like_one_that_is_not_there(house: World) -> None:
    b.model(house.who["bob"], "hidden", 5, project="beta", shapes=LAYERS)
    answers = [house.alice.post("jobs/", body(deep().replace("deep-b", name))) for name in ("hidden", "absent")]
    words = [
        problem(answer, 422)["errors"][0]["message"].replace(name, "X")
        for answer, name in zip(answers, ("hidden", "absent"), strict=True)
    ]
    assert words[0] == words[1]
