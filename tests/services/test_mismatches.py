"""A merge of models that have some tensors otherwise than each other: what is refused before it waits, and what not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduling.models import Job
from scheduling.services import jobs, whatif
from tests import builders as b

pytestmark = pytest.mark.django_db

EMBED, HEAD = "embed_tokens.weight", "lm_head.weight"
SHAPES = {EMBED: (5, 3), "h.0.w": (4, 3), "norm.w": (3,)}


@pytest.fixture
def alice() -> Any:
    """Alice, with a model of five words and one of seven."""
    who = b.lab().who["alice"]
    b.model(who, "five", 1, shapes=SHAPES)
    b.model(who, "seven", 2, shapes={**SHAPES, EMBED: (7, 3)})
    return who


def body(*models: str, **params: Any) -> dict[str, Any]:
    return b.merge_body(models, params=params)


def told(actor: Any, asked: dict[str, Any]) -> list[tuple[str, str]]:
    result = jobs.submit(asked, actor, b.NOON)
    assert isinstance(result, jobs.Refused), result
    return [(error["field"], error["code"]) for error in result.errors]


def test_without_a_rule_they_are_refused_and_told_what_there_is(alice: Any) -> None:
    result = jobs.submit(body("five", "seven"), alice, b.NOON)
    assert isinstance(result, jobs.Refused)
    (error,) = result.errors
    assert (error["field"], error["code"]) == ("params.models", "shape_mismatch")
    assert error["message"] == (
        "tensor 'embed_tokens.weight' is 5 x 3 in 'five' and 7 x 3 in 'seven'; on_mismatch says what becomes of "
        "tensors that differ"
    )


@pytest.mark.parametrize("rule", ["min", "first", [{"filter": "embed", "value": "min"}]])
def test_with_a_rule_they_wait_and_the_plan_tells_what_becomes_of_each(alice: Any, rule: Any) -> None:
    asked = body("five", "seven", on_mismatch=rule)
    planned = whatif.plan(asked, alice, b.NOON)
    assert isinstance(planned, whatif.Planned)
    notes = {row.tensor: (row.note, len(row.origins)) for row in planned.rows}
    cut = ("copied", 1) if rule == "first" else ("the first 5 rows", 2)
    assert notes == {EMBED: cut, "h.0.w": ("", 2), "norm.w": ("", 2)}
    job = Job.objects.get(pk=b.submitted(alice, asked))
    assert (job.state, job.params["on_mismatch"]) == ("QUEUED", rule)


def test_what_no_rule_is_for_is_refused_beside_it(alice: Any) -> None:
    rule = [{"filter": "h.", "value": "min"}]
    assert told(alice, body("five", "seven", on_mismatch=rule)) == [("params.models", "shape_mismatch")]


def test_what_else_is_wrong_is_told_with_it_and_no_difference_that_has_a_rule(alice: Any) -> None:
    assert told(alice, body("five", "seven", on_mismatch="min", t=3)) == [("params.t", "out_of_range")]
    assert told(alice, body("five", "seven", t=3)) == [
        ("params.t", "out_of_range"), ("params.models", "shape_mismatch"),
    ]  # fmt: skip


def test_a_rule_that_is_none_hides_no_difference(alice: Any) -> None:
    assert told(alice, body("five", "seven", on_mismatch="base")) == [
        ("params.on_mismatch", "no_base"), ("params.models", "shape_mismatch"),
    ]  # fmt: skip


def with_head(actor: Any, name: str, **config: Any) -> None:
    shapes = {EMBED: (5, 3), **({HEAD: (5, 3)} if config.pop("stores", False) else {})}
    b.artifact(actor, name, {"model.safetensors": b.tensors(3, shapes), "config.json": json.dumps(config).encode()})


@pytest.mark.parametrize(
    ("tied", "expected"),
    [({"tie_word_embeddings": True}, []), ({"tie_word_embeddings": False}, [("params.models", "missing_tensor")]),
     ({}, [("params.models", "missing_tensor")])],
)  # fmt: skip
def test_a_head_is_missing_only_where_the_stored_configuration_does_not_call_it_tied(
    alice: Any, tied: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    with_head(alice, "own", stores=True)
    with_head(alice, "lacking", **tied)
    asked = body("own", "lacking")
    if expected:
        assert told(alice, asked) == expected
    else:
        assert Job.objects.get(pk=b.submitted(alice, asked)).state == "QUEUED"
