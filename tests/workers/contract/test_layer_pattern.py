"""Layers that names number in a way of their own: a pattern finds them, and a wrong one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from workers.merge_layout import Table, lay_out
from workers.merge_params import check_merge
from workers.merge_recipe import recipe_of
from workers.model_layers import layer_of, stack_of


def blocks(label: str = "a", count: int = 3, form: str = "net.block{}_conv.weight") -> Table:
    """A model whose names number their layers inside of words, with a stem before and a head behind them."""
    shapes = {form.format(i): (4, 4) for i in range(count)} | {"stem.emb.0.weight": (9, 4), "head.weight": (4,)}
    return Table(label, {name: ("F32", shape) for name, shape in shapes.items()})


def laid(params: dict[str, Any], *tables: Table) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """What each tensor is made of and its values; and what is wrong."""
    clean, errors = check_merge(params)
    assert errors == []
    parts, errors = lay_out(recipe_of(clean), {f"model-{i}": each for i, each in enumerate(tables)})
    made = {part.name: (part.origins[0], part.values) for part in parts}
    return made, [(e.field, e.code, e.message) for e in errors]


GRADED = {"strategy": "slerp", "models": ["a", "b"], "t": [0, 1], "layer_pattern": "block{layer}_"}


def test_a_gradient_goes_over_the_layers_that_the_pattern_finds() -> None:
    made, errors = laid(GRADED, blocks(), blocks("b"))
    assert errors == []
    assert {name: values["t"] for name, (_, values) in made.items()} == {
        "net.block0_conv.weight": 0.0, "net.block1_conv.weight": 0.5, "net.block2_conv.weight": 1.0,
        "stem.emb.0.weight": 0.0, "head.weight": 0.0,
    }  # fmt: skip


def sliced(*ranges: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    made = [{"sources": [{"model": name, "layer_range": [first, end]}]} for name, first, end in ranges]
    return {"recipe": {"merge_method": "passthrough", "slices": made}, "layer_pattern": "block{layer}_", **more}


def test_slices_take_and_number_the_layers_that_the_pattern_finds() -> None:
    made, errors = laid(sliced(("a", 1, 3), ("b", 0, 1)), blocks(), blocks("b"))
    assert errors == []
    assert {name: origin for name, (origin, _) in made.items()} == {
        "net.block0_conv.weight": ("model-0", "net.block1_conv.weight"),
        "net.block1_conv.weight": ("model-0", "net.block2_conv.weight"),
        "net.block2_conv.weight": ("model-1", "net.block0_conv.weight"),
        "stem.emb.0.weight": ("model-0", "stem.emb.0.weight"), "head.weight": ("model-1", "head.weight"),
    }  # fmt: skip


def test_numbers_with_zeros_before_them_keep_their_digits() -> None:
    padded = blocks(form="net.block{:02d}_conv.weight", count=11)
    made, errors = laid(sliced(("a", 9, 11), ("a", 0, 10)), padded)
    assert errors == []
    taken = [(name, origin[1]) for name, (origin, _) in made.items() if "block" in name]
    assert taken[:3] == [
        ("net.block00_conv.weight", "net.block09_conv.weight"), ("net.block01_conv.weight", "net.block10_conv.weight"),
        ("net.block02_conv.weight", "net.block00_conv.weight"),
    ]  # fmt: skip
    assert taken[-1] == ("net.block11_conv.weight", "net.block09_conv.weight")


def test_a_model_that_writes_its_numbers_in_two_ways_is_refused() -> None:
    stack = stack_of(["block1_w", "block02_w"], "block{layer}_")
    assert isinstance(stack, str)
    assert stack.startswith("writes its layers in two ways ('1' has not 2 digits as another has)")


def test_a_pattern_says_which_of_two_kinds_of_layers_are_meant() -> None:
    two = Table("a", {f"{side}.block.{i}.w": ("F32", (2,)) for side in ("encoder", "decoder") for i in range(2)})
    range_ = sliced(("a", 1, 2))
    _, ((_, code, message),) = laid({"recipe": range_["recipe"]}, two)
    assert (code, "say which with layer_pattern" in message) == ("no_layers", True)
    made, errors = laid({**range_, "layer_pattern": "decoder.block.{layer}."}, two)
    assert errors == []
    assert {name: origin[1] for name, (origin, _) in made.items()} == {
        "decoder.block.0.w": "decoder.block.1.w", "encoder.block.0.w": "encoder.block.0.w",
        "encoder.block.1.w": "encoder.block.1.w",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "pattern", "layer"),
    [
        ("net.block3_conv.w", "block{layer}_", ("net.block", 3, "_conv.w")),
        ("block3_conv.w", "block{layer}_", ("block", 3, "_conv.w")),
        ("subblock3_conv.w", "block{layer}_", None),
        ("a.path.3.w", "h.{layer}.", None),
        ("a.h.12.w.3", "h.{layer}.", ("a.h.", 12, ".w.3")),
        ("h.12", "h.{layer}", ("h.", 12, "")),
        ("h.1.h.2.w", "h.{layer}.", ("h.", 1, ".h.2.w")),
        ("h.x.h.2.w", "h.{layer}.", ("h.x.h.", 2, ".w")),
        ("a+b.7.w", "a+b.{layer}.", ("a+b.", 7, ".w")),
        ("aab.7.w", "a+b.{layer}.", None),
        ("h.1234567890.w", "h.{layer}.", None),
        ("h.007.w", "h.{layer}.", ("h.", 7, ".w")),
        ("h.٣.w", "h.{layer}.", None),
    ],
)  # fmt: skip
def test_the_first_fit_at_the_beginning_of_a_word_counts(name: str, pattern: str, layer: Any) -> None:
    assert layer_of(name, pattern) == layer


def test_a_name_of_thousands_of_digits_is_in_no_layer() -> None:
    assert (layer_of("9" * 5000), layer_of("9" * 5000, "{layer}")) == (None, None)


def test_a_pattern_that_fits_nothing_is_refused_with_what_is_there() -> None:
    made, errors = laid({**GRADED, "layer_pattern": "blocks.{layer}."}, blocks(), blocks("b"))
    assert (made, [(field, code) for field, code, _ in errors]) == (
        {}, [("params.layer_pattern", "fits_no_tensor")] * 2,
    )  # fmt: skip
    assert errors[1][2] == (
        "layer_pattern 'blocks.{layer}.' fits no tensor of 'b': there are 'net.block0_conv.weight', "
        "'stem.emb.0.weight'; it begins where a name or a word between its dots begins"
    )


def test_of_many_kinds_of_names_the_first_few_are_told() -> None:
    table = Table("a", {f"{word}.{i}.w": ("F32", (2,)) for word in "pqrst" for i in range(3)})
    _, ((_, _, message),) = laid({**sliced(("a", 0, 1))}, table)
    assert "there are 'p.0.w', 'q.0.w', 'r.0.w' and 2 more of other kinds;" in message


def test_of_a_model_without_numbers_that_is_told() -> None:
    _, ((_, _, message),) = laid(sliced(("a", 0, 1)), Table("a", {"w": ("F32", (2,))}))
    assert "no name of its tensors has a number" in message


def test_it_is_checked_where_no_value_varies_too() -> None:
    _, errors = laid({**GRADED, "t": 0.5, "layer_pattern": "h.{layer}."}, blocks(), blocks("b"))
    assert [code for _, code, _ in errors] == ["fits_no_tensor"] * 2


@pytest.mark.parametrize("given", [7, "", ["h.{layer}."], "x" * 201, "h.", "h.{n}.", "{layer}.{layer}", "h1{layer}.",
                                   "h.{layer}2", {"a": 1}, True])  # fmt: skip
@pytest.mark.parametrize("form", ["plain", "recipe"])
def test_what_is_no_pattern_is_refused_with_what_one_is(given: Any, form: str) -> None:
    beside = (
        {"strategy": "slerp", "models": ["a", "b"]} if form == "plain" else {"recipe": sliced(("a", 0, 1))["recipe"]}
    )
    _, (error,) = check_merge({**beside, "layer_pattern": given})
    assert (error.field, error.code) == ("params.layer_pattern", "not_a_pattern")
    assert error.message.startswith("layer_pattern ")


def test_inside_of_a_recipe_it_is_refused() -> None:
    document = {**sliced(("a", 0, 1))["recipe"], "layer_pattern": "h.{layer}."}
    (error,) = check_merge({"recipe": document})[1]
    assert (error.field, error.message) == (
        "params.recipe.layer_pattern", "layer_pattern: is no part of a recipe: it stands beside it",
    )  # fmt: skip


def test_right_parameters_come_out_as_they_were() -> None:
    clean, errors = check_merge(sliced(("a", 0, 1)))
    assert (errors, clean["layer_pattern"], check_merge(clean)) == ([], "block{layer}_", (clean, []))
