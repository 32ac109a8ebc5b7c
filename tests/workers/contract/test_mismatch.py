"""What becomes of tensors that one model has otherwise than another: every rule, every refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.contract.test_merge_settings import table
from workers.merge_layout import Part, lay_out
from workers.merge_mismatch import reconciled
from workers.merge_params import check_merge
from workers.merge_recipe import recipe_of
from workers.merge_table import grouped, rows_of
from workers.model_table import Table, says_tied

EMBED, NORM, HEAD = "model.embed.weight", "model.norm.weight", "lm_head.weight"
WIDE = (12, 4)


def parts(params: dict[str, Any], *tables: Table) -> dict[str, Part]:
    """The parts of a merge of these models (the last is the base where there is one) by their names."""
    clean, errors = check_merge(params)
    assert errors == []
    names = [f"model-{i}" for i in range(len(tables))]
    if "base_model" in params:
        names[-1] = "base-model"
    found, errors = lay_out(recipe_of(clean), dict(zip(names, tables, strict=True)))
    assert errors == []
    return {part.name: part for part in found}


def plain(rule: Any, **more: Any) -> dict[str, Any]:
    return {"strategy": "linear", "models": ["a", "b"], "on_mismatch": rule, **more}


TIES = {"strategy": "ties", "density": 0.5, "base_model": "c"}


def without(given: Table, *names: str, tied: bool | None = None) -> Table:
    return Table(given.label, {n: row for n, row in given.tensors.items() if n not in names}, tied)


def test_first_copies_the_tensor_of_the_first_model() -> None:
    found = parts(plain("first"), table("a", **{EMBED: WIDE}), table("b"))[EMBED]
    assert (found.origins, found.settled.copied, found.values) == ((("model-0", EMBED),), True, {})


def test_base_copies_the_tensor_of_the_base() -> None:
    found = parts(plain("base", **TIES), table("a"), table("b"), table("c", **{EMBED: WIDE}))[EMBED]
    assert (found.origins, found.settled.copied, found.based) == ((("base-model", EMBED),), True, False)


def test_min_merges_the_rows_that_all_have() -> None:
    found = parts(plain("min", **TIES), table("a", **{EMBED: WIDE}), table("b", **{EMBED: (10, 4)}), table("c"))[EMBED]
    assert (found.settled.rows, found.based, len(found.origins)) == (9, True, 3)
    assert found.values["density"] == [0.5, 0.5]


def test_what_all_have_alike_is_merged_as_ever() -> None:
    found = parts(plain("first"), table("a", **{EMBED: WIDE}), table("b"))[NORM]
    assert (found.settled.copied, found.settled.rows, len(found.origins)) == (False, None, 2)


def test_a_filter_says_it_by_name_and_the_rest_is_an_error() -> None:
    rule = [{"filter": "embed", "value": "min"}]
    tables = [table("a", **{EMBED: WIDE, NORM: (5,)}), table("b")]
    assert reconciled(rule, tables, based=False) == {EMBED}
    assert set(parts(plain(rule), *tables)) == set(tables[0].tensors) - {NORM}


@pytest.mark.parametrize(
    ("shapes", "why"),
    [(((9, 4), (9, 5)), "columns"), (((), (3,)), "a single number"), (((0, 4), (9, 4)), "no row in common")],
)
def test_min_is_no_answer_where_more_than_rows_differ(shapes: Any, why: str) -> None:
    tables = [table("abc"[i], odd=shape) for i, shape in enumerate(shapes)]
    assert reconciled("min", tables, based=False) == frozenset(), why


def test_min_does_not_cut_integers_nor_invent_what_is_missing() -> None:
    ids = [Table(label, {"ids": ("I64", shape)}) for label, shape in (("a", (3,)), ("b", (4,)))]
    assert reconciled("min", ids, based=False) == frozenset()
    assert reconciled("min", [table("a", odd=(3,)), table("b")], based=False) == frozenset()


def test_what_the_chosen_model_has_not_is_left_out() -> None:
    assert "odd" not in parts(plain("first"), table("a"), table("b", odd=(3,)))
    kept = parts(plain("first"), table("a", odd=(3,)), table("b"))["odd"]
    assert kept.origins == (("model-0", "odd"),)


def test_types_that_can_not_be_averaged_are_copied_too() -> None:
    one, other = (Table(label, {"n": (dtype, (3,))}) for label, dtype in (("a", "I64"), ("b", "F32")))
    assert parts(plain("first"), one, other)["n"].origins == (("model-0", "n"),)


def test_the_first_of_a_recipe_is_the_model_at_which_t_is_0() -> None:
    recipe = {"merge_method": "slerp", "base_model": "b", "models": [{"model": "a"}, {"model": "b"}],
              "parameters": {"t": 0.5}}  # fmt: skip
    tables = [table("a", **{EMBED: WIDE}), table("b")]
    for rule in ("first", "base"):
        assert parts_of_recipe(recipe, rule, *tables)[EMBED].origins == (("model-1", EMBED),)


def parts_of_recipe(recipe: dict[str, Any], rule: Any, *tables: Table) -> dict[str, Part]:
    clean, errors = check_merge({"recipe": recipe, "on_mismatch": rule})
    assert errors == []
    found, errors = lay_out(recipe_of(clean), {f"model-{i}": each for i, each in enumerate(tables)})
    assert errors == []
    return {part.name: part for part in found}


def test_outside_of_the_layers_of_slices_it_counts_too() -> None:
    sources = [{"model": name, "layer_range": [0, 3]} for name in "ab"]
    recipe = {"merge_method": "linear", "slices": [{"sources": sources}]}
    tables = [table("a", **{EMBED: WIDE}), table("b")]
    assert parts_of_recipe(recipe, "min", *tables)[EMBED].settled.rows == 9
    assert parts_of_recipe(recipe, "first", *tables)[EMBED].origins == (("model-0", EMBED),)


def test_a_copy_of_another_shape_than_the_configuration_speaks_of_is_refused() -> None:
    recipe = {"merge_method": "linear", "base_model": "b", "models": [{"model": "a"}, {"model": "b"}]}
    clean, _ = check_merge({"recipe": recipe, "on_mismatch": "first"})
    _, errors = lay_out(recipe_of(clean), {"model-0": table("a", **{EMBED: WIDE}), "model-1": table("b")})
    assert [(e.code, "12 x 4 in 'a'" in e.message, "9 x 4 in 'b'" in e.message) for e in errors] == [
        ("shape_mismatch", True, True)
    ]


def test_a_tied_head_is_read_in_the_embeddings() -> None:
    embed = "model.embed_tokens.weight"
    one, other = table("a", **{embed: (9, 4), HEAD: (9, 4)}), table("b", **{embed: (9, 4)})
    found = parts({"strategy": "linear", "models": ["a", "b"]}, one, without(other, tied=True))
    assert found[HEAD].origins == (("model-0", HEAD), ("model-1", embed))
    assert reconciled(None, [one, without(other, tied=True)], based=False) == {HEAD}


def test_a_head_that_no_model_stores_is_not_written() -> None:
    tied = without(table("a", **{"model.embed_tokens.weight": (9, 4)}), tied=True)
    assert HEAD not in parts({"strategy": "linear", "models": ["a", "b"]}, tied, tied)


@pytest.mark.parametrize("tied", [False, None])
def test_a_head_that_the_configuration_does_not_call_tied_is_missing(tied: bool | None) -> None:
    embed = "model.embed_tokens.weight"
    one, other = table("a", **{embed: (9, 4), HEAD: (9, 4)}), table("b", **{embed: (9, 4)})
    assert reconciled(None, [one, without(other, tied=tied)], based=False) == frozenset()


def test_a_tied_head_with_two_embeddings_to_choose_from_is_missing() -> None:
    both = {"encoder.embed_tokens.weight": (9, 4), "decoder.embed_tokens.weight": (9, 4)}
    one, other = table("a", **{**both, HEAD: (9, 4)}), table("b", **both)
    assert reconciled(None, [one, without(other, tied=True)], based=False) == frozenset()


@pytest.mark.parametrize(
    ("config", "tied"),
    [({"tie_word_embeddings": True}, True), ({"tie_word_embeddings": False}, False), ({}, None), ([1], None),
     (None, None), ({"tie_word_embeddings": "yes"}, None)],
)  # fmt: skip
def test_what_a_configuration_says_of_the_head(config: Any, tied: bool | None) -> None:
    assert says_tied(config) is tied


def test_the_table_tells_what_was_copied_and_cut() -> None:
    rule = [{"filter": "embed", "value": "min"}, {"value": "first"}]
    tables = {"model-0": table("a", **{EMBED: WIDE, NORM: (5,)}), "model-1": table("b")}
    clean, _ = check_merge(plain(rule))
    recipe = recipe_of(clean)
    found, _ = lay_out(recipe, tables)
    said = {group.said: (group.models, group.tensors) for group in grouped(rows_of(recipe, found, tables))}
    assert said["the first 9 rows"] == (("a", "b"), (EMBED,))
    assert said["copied"] == (("a",), (NORM,))


@pytest.mark.parametrize(
    ("given", "code", "part"),
    [
        ("skip", "not_a_rule", "one of error, base, first, min"),
        (3, "not_a_rule", "one of error, base, first, min"),
        (["first"], "not_a_rule", "no values between two others"),
        ([{"filter": "a", "value": "none"}], "not_a_rule", "on_mismatch[0].value"),
        ([{"filter": "a"}], "not_a_rule", "needs a value"),
        ("base", "no_base", "first takes tensors of the first model"),
        ([{"filter": "a", "value": "base"}, {"value": "first"}], "no_base", "there is no base_model"),
    ],
)
def test_what_is_no_rule_is_refused_in_both_forms(given: Any, code: str, part: str) -> None:
    recipe = {"merge_method": "linear", "models": [{"model": "a"}, {"model": "b"}]}
    for params in (plain(given), {"recipe": recipe, "on_mismatch": given}):
        (error,) = check_merge(params)[1]
        assert (error.field, error.code, part in error.message) == ("params.on_mismatch", code, True), error.message


def test_in_a_recipe_it_is_told_where_it_stands() -> None:
    recipe = {"merge_method": "linear", "models": [{"model": "a"}, {"model": "b"}], "on_mismatch": "first"}
    (error,) = check_merge({"recipe": recipe})[1]
    assert "stands beside it" in error.message
