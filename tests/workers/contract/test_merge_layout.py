"""Which tensors a recipe with slices makes, of which layers; and every reason why it can't."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.contract.test_merge_settings import table
from workers.merge_layout import MAX_ERRORS, Part, Table, lay_out
from workers.merge_params import check_merge
from workers.merge_recipe import recipe_of
from workers.merge_table import grouped, rows_of
from workers.model_layers import layer_of, stack_of


def slices(*ranges: tuple[str, int, int], **more: Any) -> dict[str, Any]:
    """A passthrough of these layers of these models, one after the other."""
    made = [{"sources": [{"model": name, "layer_range": [first, end]}]} for name, first, end in ranges]
    return {"merge_method": "passthrough", "slices": made, **more}


def laid(document: dict[str, Any], *tables: Table) -> tuple[list[Part], list[tuple[str, str, str]]]:
    clean, errors = check_merge({"recipe": document})
    assert errors == []
    parts, errors = lay_out(recipe_of(clean), {f"model-{i}": each for i, each in enumerate(tables)})
    return parts, [(e.field.removeprefix("params.recipe."), e.code, e.message) for e in errors]


def made(document: dict[str, Any], *tables: Table) -> dict[str, tuple[str, str]]:
    """Each tensor of the result and the first tensor that it is made of."""
    parts, errors = laid(document, *tables)
    assert errors == []
    return {part.name: part.origins[0] for part in parts}


def test_layers_are_numbered_anew_and_may_come_twice() -> None:
    got = made(slices(("a", 0, 2), ("b", 1, 3), ("a", 1, 2)), table("a"), table("b"))
    assert {name: origin for name, origin in got.items() if "mlp" in name} == {
        "model.layers.0.mlp.weight": ("model-0", "model.layers.0.mlp.weight"),
        "model.layers.1.mlp.weight": ("model-0", "model.layers.1.mlp.weight"),
        "model.layers.2.mlp.weight": ("model-1", "model.layers.1.mlp.weight"),
        "model.layers.3.mlp.weight": ("model-1", "model.layers.2.mlp.weight"),
        "model.layers.4.mlp.weight": ("model-0", "model.layers.1.mlp.weight"),
    }
    assert len(got) == 5 * 2 + 2


def test_what_is_before_the_layers_comes_of_the_first_slice_and_what_is_behind_of_the_last() -> None:
    more = {"model.embed_out.weight": (9, 4), "transformer.wte.weight": (9, 4), "lm_head.weight": (9, 4)}
    got = made(slices(("a", 0, 2), ("b", 2, 3)), table("a", **more), table("b", **more))
    assert {name: input_ for name, (input_, _) in got.items() if "layers" not in name} == {
        "model.embed.weight": "model-0", "transformer.wte.weight": "model-0", "model.norm.weight": "model-1",
        "model.embed_out.weight": "model-1", "lm_head.weight": "model-1",
    }  # fmt: skip


def test_models_of_different_depth_give_what_they_have() -> None:
    got = made(slices(("a", 0, 3), ("b", 3, 5)), table("a"), table("b", layers=5))
    assert got["model.layers.4.mlp.weight"] == ("model-1", "model.layers.4.mlp.weight")


def test_numbers_with_steps_between_keep_them() -> None:
    steps = Table("a", {f"{1 + 3 * i}.weight": ("F32", (2,)) for i in range(3)})
    got = made(slices(("a", 1, 3), ("a", 0, 2)), steps)
    assert [(name, origin) for name, (_, origin) in got.items()] == [
        ("1.weight", "4.weight"), ("4.weight", "7.weight"), ("7.weight", "1.weight"), ("10.weight", "4.weight"),
    ]  # fmt: skip


def test_a_gradient_goes_over_the_layers_of_its_slice() -> None:
    sources = [{"model": "a", "layer_range": [0, 3]}, {"model": "b", "layer_range": [0, 3]}]
    one = [{"model": "a", "layer_range": [2, 3]}, {"model": "b", "layer_range": [2, 3]}]
    document = {"merge_method": "slerp", "parameters": {"t": [0.2, 0.8]}, "slices": [{"sources": sources},
                                                                                      {"sources": one}]}  # fmt: skip
    parts, errors = laid(document, table("a"), table("b"))
    assert errors == []
    assert {p.name: p.values["t"] for p in parts if "attn" not in p.name} == {
        "model.layers.0.mlp.weight": 0.2, "model.layers.1.mlp.weight": pytest.approx(0.5),
        "model.layers.2.mlp.weight": pytest.approx(0.8), "model.layers.3.mlp.weight": 0.2, "model.embed.weight": 0.2,
        "model.norm.weight": 0.2,
    }  # fmt: skip


def test_a_filter_looks_at_the_name_in_the_result() -> None:
    document = slices(("a", 1, 2), ("a", 0, 1), parameters={"scale": [{"filter": "layers.0.", "value": 2}]})
    parts, _ = laid(document, table("a"))
    assert {p.origins[0][1]: p.values["scale"] for p in parts if "mlp" in p.name} == {
        "model.layers.1.mlp.weight": 2.0, "model.layers.0.mlp.weight": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("first", "end", "missing"), [(0, 4, "no layer 3"), (2, 9, "no layer 3 to 8"), (7, 9, "no layer 7 to 8")]
)
def test_a_layer_that_is_missing_is_refused_by_its_number(first: int, end: int, missing: str) -> None:
    ((path, code, message),) = laid(slices(("a", first, end)), table("a"))[1]
    assert (path, code) == ("slices[0].sources[0].layer_range", "missing_layer")
    assert message == f"{path}: 'a' has 3 layers and {missing}: end at 3"


def test_a_gap_in_the_numbers_of_a_model_is_refused_with_the_first_that_is_missing() -> None:
    gap = Table("a", {f"layers.{i}.w": ("F32", (2,)) for i in (0, 1, 3, 4)})
    ((path, code, message),) = laid(slices(("a", 0, 2)), gap)[1]
    assert (path, code) == ("slices[0].sources[0]", "no_layers")
    assert message == (
        "slices[0].sources[0]: 'a' lacks layer 2: its layers are 0, 1, 3, 4; "
        "take all of it, under models instead of slices"
    )


def test_a_model_without_layers_or_with_two_kinds_is_refused() -> None:
    flat = Table("a", {"fc.weight": ("F32", (2,))})
    two = Table("b", {f"{side}.block.{i}.w": ("F32", (2,)) for side in ("encoder", "decoder") for i in range(2)})
    errors = laid(slices(("a", 0, 1), ("b", 0, 1)), flat, two)[1]
    assert [(path, code) for path, code, _ in errors] == [
        ("slices[0].sources[0]", "no_layers"), ("slices[1].sources[0]", "no_layers")
    ]  # fmt: skip
    assert "'decoder.block.' (2), 'encoder.block.' (2)" in errors[1][2]


def test_a_single_numbered_tensor_beside_the_layers_is_none_of_them() -> None:
    more = {"classifier.0.weight": (2, 4)}
    assert made(slices(("a", 0, 1)), table("a", **more))["classifier.0.weight"][1] == "classifier.0.weight"


def test_layers_that_are_called_differently_are_refused() -> None:
    other = Table("b", {f"transformer.h.{i}.w": ("F32", (2,)) for i in range(2)})
    ((path, code, message),) = laid(slices(("a", 0, 1), ("b", 1, 2)), table("a"), other)[1]
    assert (path, code) == ("slices", "missing_tensor")
    assert "'model.layers.' in 'a', 'transformer.h.' in 'b'" in message


def test_layers_of_other_shapes_can_not_follow_each_other() -> None:
    wide = Table("b", {name: (kind, (8, 8)) for name, (kind, _) in table("b").tensors.items()})
    errors = laid(slices(("a", 0, 1), ("b", 1, 2)), table("a"), wide)[1]
    assert [(path, code) for path, code, _ in errors] == [("slices[1].sources[0]", "shape_mismatch")] * 2
    assert "model.layers.*.attn.weight is 4 x 4 in 'a' and 8 x 8 in 'b'" in errors[0][2]


def merged(first: tuple[str, int, int], second: tuple[str, int, int]) -> dict[str, Any]:
    sources = [{"model": name, "layer_range": [start, end]} for name, start, end in (first, second)]
    return {"merge_method": "linear", "slices": [{"sources": sources}]}


def test_tensors_that_can_not_be_merged_are_refused_all_at_once() -> None:
    tensors = dict(table("b").tensors)
    del tensors["model.layers.1.mlp.weight"]
    tensors["model.layers.0.attn.weight"] = ("F32", (4, 5))
    tensors["model.norm.weight"] = ("I64", (4,))
    errors = laid(merged(("a", 0, 3), ("b", 0, 3)), table("a"), Table("b", tensors))[1]
    assert [(path, code) for path, code, _ in errors] == [
        ("slices[0].sources[1]", "dtype_mismatch"), ("slices[0].sources[1]", "shape_mismatch"),
        ("slices[0].sources[1]", "missing_tensor"),
    ]  # fmt: skip
    assert [message.split(": ", 1)[1] for _, _, message in errors] == [
        "'model.norm.weight' is F32 in 'a' (model.norm.weight) and I64 in 'b' (model.norm.weight)",
        "'model.layers.0.attn.weight' is 4 x 4 in 'a' (model.layers.0.attn.weight) and 4 x 5 in 'b' "
        "(model.layers.0.attn.weight)",
        "'b' has no tensor 'model.layers.1.mlp.weight', of which 'model.layers.1.mlp.weight' would be made",
    ]


def test_floats_of_different_width_may_be_merged() -> None:
    half = Table("b", {name: ("BF16", shape) for name, (_, shape) in table("b").tensors.items()})
    assert laid(merged(("a", 0, 3), ("b", 0, 3)), table("a"), half)[1] == []


def test_very_many_errors_are_told_short() -> None:
    errors = laid(merged(("a", 0, 99), ("b", 0, 99)), table("a", layers=99), Table("b", {
        name: ("I64", shape) for name, (_, shape) in table("b", layers=99).tensors.items()
    }))[1]  # fmt: skip
    assert (len(errors), errors[-1][2]) == (MAX_ERRORS + 1, f"and {200 - MAX_ERRORS} more")


def test_the_rows_tell_where_each_tensor_comes_from_and_its_values() -> None:
    document = slices(("a", 0, 1), ("b", 1, 2), parameters={"scale": [{"filter": "mlp", "value": 2}, {"value": 1}]})
    tables = {"model-0": table("a"), "model-1": table("b")}
    recipe = recipe_of(check_merge({"recipe": document})[0])
    rows = rows_of(recipe, lay_out(recipe, tables)[0], tables)
    assert [(r.tensor, r.origins, r.values) for r in rows if "1.mlp" in r.tensor] == [
        ("model.layers.1.mlp.weight", (("b", "model.layers.1.mlp.weight"),), {"scale": 2.0})
    ]
    assert [(g.said, g.models, g.shown) for g in grouped(rows)] == [
        ("scale = 1", ("a",), "model.embed.weight, model.layers.0.attn.weight"),
        ("scale = 1", ("b",), "model.norm.weight, model.layers.1.attn.weight"),
        ("scale = 2", ("a",), "model.layers.0.mlp.weight"),
        ("scale = 2", ("b",), "model.layers.1.mlp.weight"),
    ]


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("model.layers.12.mlp.3.weight", ("model.layers.", 12, ".mlp.3.weight")),
        ("0.weight", ("", 0, ".weight")),
        ("blocks.7", ("blocks.", 7, "")),
        ("layer1.weight", None),
        ("layers.007.w", None),
        ("a.١.w", None),
        ("", None),
    ],
)
def test_the_first_whole_number_between_dots_is_the_layer(name: str, layer: Any) -> None:
    assert layer_of(name) == layer


def test_one_layer_is_a_stack_too() -> None:
    stack = stack_of(["h.5.w"])
    assert not isinstance(stack, str)
    assert (stack.numbers, stack.name(1, ".w")) == ((5,), "h.6.w")
