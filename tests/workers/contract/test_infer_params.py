"""The parameters of batch inference: defaults, every refusal with field, limit and what to do, and whether they fit."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.workers.engines.evaluations import MLP
from workers.catalog import KINDS, check_params
from workers.infer_params import OF_LANGUAGE, Generation, generation_faults, generation_of, infer_references
from workers.model_families import FAMILIES

RIGHT = {"model": "m", "input": "d"}


def told(**params: Any) -> list[tuple[str, str, str]]:
    """(field, code, message) of everything wrong."""
    return [(e.field, e.code, e.message) for e in check_params("infer", {**RIGHT, **params})[1]]


def test_the_least_that_can_be_said_has_its_defaults() -> None:
    clean = {"model": "m", "input": "d", "max_bad_rows": 0, "batch_size": 32}
    assert check_params("infer", {"model": " m ", "input": "d"}) == (clean, [])
    assert generation_of(clean) == Generation(32, 0.0, 0, logprobs=False)


def test_all_that_can_be_said_is_kept() -> None:
    asked = {**RIGHT, "max_new_tokens": 8, "temperature": 0.7, "seed": 4, "logprobs": True, "max_bad_rows": 3,
             "batch_size": 8, "limit": 100, "file": "rows.csv", "architecture": MLP}  # fmt: skip
    assert check_params("infer", asked) == (asked, [])
    assert generation_of(asked) == Generation(8, 0.7, 4, logprobs=True)


@pytest.mark.parametrize(
    ("changed", "field", "code", "words"),
    [
        ({"model": None}, "params.model", "required", "model is missing: give the id or name of a model"),
        ({"input": ["a"]}, "params.input", "not_a_name", 'input must be, and not ["a"], the id or name of a data set'),
        ({"dataset": "d"}, "params.dataset", "unknown_field", "an infer job has no parameter 'dataset'"),
        ({"max_new_tokens": -1}, "params.max_new_tokens", "out_of_range",
         "max_new_tokens must be a whole number from 0 to 65536, not -1"),
        ({"max_new_tokens": 65_537}, "params.max_new_tokens", "out_of_range", "not 65537"),
        ({"max_new_tokens": "9"}, "params.max_new_tokens", "out_of_range", "not '9'"),
        ({"max_new_tokens": False}, "params.max_new_tokens", "out_of_range", "not false"),
        ({"max_new_tokens": 0}, "params.max_new_tokens", "mismatch",
         "max_new_tokens is 0 and logprobs are not asked for, so nothing would come out: change one of them"),
        ({"max_new_tokens": 0, "logprobs": False}, "params.max_new_tokens", "mismatch", "nothing would come out"),
        ({"temperature": -0.1}, "params.temperature", "out_of_range",
         "temperature must be a number from 0 (always the likeliest token) to 100, not -0.1"),
        ({"temperature": 101}, "params.temperature", "out_of_range", "not 101"),
        ({"temperature": math.nan}, "params.temperature", "out_of_range", "not nan"),
        ({"temperature": True}, "params.temperature", "out_of_range", "not true"),
        ({"temperature": 10**400}, "params.temperature", "out_of_range", "not a number of more than 256 bits"),
        ({"seed": -1}, "params.seed", "out_of_range", "seed must be a whole number from 0 to 9223372036854775807"),
        ({"seed": 2**63}, "params.seed", "out_of_range", "not 9223372036854775808"),
        ({"logprobs": 1}, "params.logprobs", "not_a_boolean", "logprobs must be true or false, not 1"),
        ({"max_bad_rows": -1}, "params.max_bad_rows", "out_of_range",
         "max_bad_rows must be a whole number from 0 to 1000000000, not -1"),
        ({"batch_size": 0}, "params.batch_size", "out_of_range", "a whole number from 1 to 65536, not 0"),
        ({"limit": 0}, "params.limit", "out_of_range", "a whole number from 1 to 1000000000, not 0"),
        ({"file": "x.parquet"}, "params.file", "unsupported_format", "that ends in .jsonl, .csv, .safetensors"),
        ({"architecture": {}}, "params.architecture.model_type", "required", "model_type is missing"),
    ],
)  # fmt: skip
def test_each_refusal_names_the_field_the_limit_and_what_to_do(changed, field, code, words) -> None:
    found = told(**changed)
    assert [(f, c) for f, c, _ in found] == [(field, code)]
    assert words in found[0][2]


def test_everything_wrong_is_told_at_once() -> None:
    wrong = {"model": 1, "input": None, "max_new_tokens": -1, "temperature": "hot", "seed": 0.5, "logprobs": "yes",
             "max_bad_rows": -1, "batch_size": -1, "limit": "all", "file": "x", "colour": 1,
             "architecture": 3}  # fmt: skip
    assert [field for field, _, _ in told(**wrong)] == [f"params.{name}" for name in (
        "colour", "model", "input", "max_new_tokens", "temperature", "seed", "logprobs", "max_bad_rows", "batch_size",
        "limit", "file", "architecture",
    )]  # fmt: skip


def test_an_inference_names_its_model_and_its_rows_which_are_of_those_kinds() -> None:
    assert infer_references({"model": "m", "input": "d", "file": "x"}) == [
        ("params.model", "m", "model"), ("params.input", "d", "input"),
    ]  # fmt: skip
    assert [KINDS["infer"].kinds_of(name) for name in ("model", "input")] == [("model",), ("dataset",)]
    assert (KINDS["infer"].queue, KINDS["infer"].data, KINDS["infer"].repeatable) == ("inference", "input", True)


def test_what_is_of_language_models_can_not_be_asked_of_one_that_tells_classes_apart() -> None:
    asked = {"max_new_tokens": 4, "temperature": 0, "seed": 0, "logprobs": False}
    found = generation_faults(FAMILIES["mlp"], asked)
    assert [(each.field, each.code) for each in found] == [(f"params.{name}", "mismatch") for name in OF_LANGUAGE]
    assert found[1].message == (
        "temperature can't be asked of the architecture mlp: models that tell classes apart give a label and its "
        "probabilities; leave it out"
    )
    assert generation_faults(FAMILIES["decoder"], asked) == generation_faults(FAMILIES["mlp"], RIGHT) == []
