"""Of which model the tokenizer is: what may be said, every refusal, and which files are a tokenizer's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.contract.test_merge_layout import laid, slices
from tests.workers.contract.test_merge_settings import table
from tests.workers.contract.test_recipe_check import SLICED, WHOLE, changed, told
from workers.merge_params import check_merge
from workers.merge_recipe import recipe_of, renamed
from workers.tokenizer_files import has_tokenizer, is_of_tokenizer

PLAIN: dict[str, Any] = {"strategy": "ties", "models": ["a", "b"], "base_model": "c", "density": 0.5}
TWO: dict[str, Any] = {"strategy": "slerp", "models": ["a", "b"]}


@pytest.mark.parametrize(
    ("params", "source", "carries", "tokenizer"),
    [
        (PLAIN, None, "base-model", "base-model"), (PLAIN, "base", "base-model", "base-model"),
        (PLAIN, " c ", "base-model", "base-model"), (PLAIN, "b", "base-model", "model-1"),
        (TWO, None, "model-0", "model-0"), (TWO, "b", "model-0", "model-1"),
    ],
)  # fmt: skip
def test_a_plain_merge_has_the_tokenizer_that_it_names(params, source, carries, tokenizer) -> None:
    given = params if source is None else {**params, "tokenizer_source": source}
    clean, errors = check_merge(given)
    assert (errors, check_merge(clean)) == ([], (clean, []))
    recipe = recipe_of(clean)
    assert (recipe.carries, recipe.tokenizer, recipe.names_tokenizer) == (carries, tokenizer, source is not None)


@pytest.mark.parametrize(
    ("document", "source", "carries", "tokenizer"),
    [
        (WHOLE, "base", "base-model", "base-model"), (WHOLE, "b", "base-model", "model-1"),
        (SLICED, "base", "model-1", "model-1"), (SLICED, "a", "model-1", "model-0"),
        (changed(SLICED, base_model=None), "b", "model-0", "model-1"),
    ],
)  # fmt: skip
def test_a_recipe_has_the_tokenizer_that_it_names(document, source, carries, tokenizer) -> None:
    clean, errors = check_merge({"recipe": {**document, "tokenizer_source": f" {source}"}})
    assert (errors, clean["recipe"]["tokenizer_source"]) == ([], source)
    assert (recipe_of(clean).carries, recipe_of(clean).tokenizer) == (carries, tokenizer)


WRONG = [
    ("union", "no_union"), ("d", "not_among_models"), ("", "not_a_name"), (7, "not_a_name"), (["a"], "not_a_name"),
    ({"model": "a"}, "not_a_name"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "code"), WRONG)
def test_what_names_none_of_the_models_is_refused_in_both_forms(source: Any, code: str) -> None:
    assert ("tokenizer_source", code) in told({**WHOLE, "tokenizer_source": source})
    _, errors = check_merge({**PLAIN, "tokenizer_source": source})
    assert [(e.field, e.code) for e in errors] == [("params.tokenizer_source", code)]


def test_base_without_a_base_is_refused() -> None:
    assert told(changed({**SLICED, "tokenizer_source": "base"}, base_model=None)) == [("tokenizer_source", "no_base")]
    _, (error,) = check_merge({**TWO, "tokenizer_source": "base"})
    assert (error.field, error.code) == ("params.tokenizer_source", "no_base")


def test_the_refusal_of_another_name_says_the_nearest_and_what_there_is() -> None:
    _, (error,) = check_merge({**TWO, "models": ["digits-0-4", "digits-5-9"], "tokenizer_source": "digits-0"})
    assert error.message == (
        "tokenizer_source 'digits-0' is none of the models (did you mean 'digits-0-4'?): it is base (that of "
        "base_model) or one of the models, as it is called there"
    )


def test_it_stands_in_a_recipe_and_not_beside_it() -> None:
    assert told(WHOLE, tokenizer_source="a") == [("tokenizer_source", "beside_recipe")]


@pytest.mark.parametrize("name", ["tokenizer", "chat_template"])
def test_tokens_and_templates_of_ones_own_are_refused_by_name(name: str) -> None:
    (error,) = check_merge({"recipe": {**WHOLE, name: {"source": "union"}}})[1]
    assert (error.code, "tokenizer_source says of which model" in error.message) == ("unknown_field", True)


def test_its_name_is_replaced_with_those_of_the_models_and_base_stays() -> None:
    names = {"a": "1", "b": "2", "base": "3"}
    assert renamed({**WHOLE, "tokenizer_source": "b"}, names)["tokenizer_source"] == "2"
    assert renamed({**WHOLE, "tokenizer_source": "base"}, names)["tokenizer_source"] == "base"


@pytest.mark.parametrize(
    "path", ["tokenizer.json", "vocab.txt", "merges.txt", "special_tokens_map.json", "original/tokenizer.model",
             "qwen.tiktoken", "additional_chat_templates/tool.jinja", "chat_template.jinja", "spiece.model"],
)  # fmt: skip
def test_a_file_of_a_tokenizer_is_known_by_its_name(path: str) -> None:
    assert is_of_tokenizer(path)


@pytest.mark.parametrize("path", ["config.json", "generation_config.json", "README.md", "1_Pooling/config.json",
                                  "my_tokenizer.json.md", "vocab.txt/notes"])  # fmt: skip
def test_other_small_files_are_none_of_a_tokenizers(path: str) -> None:
    assert not is_of_tokenizer(path)


def test_without_a_vocabulary_there_is_no_tokenizer() -> None:
    assert not has_tokenizer(["config.json", "tokenizer_config.json", "merges.txt"])
    assert has_tokenizer(["config.json", "vocab.json"])


def test_a_configuration_or_tokenizer_that_does_not_fit_the_embedding_is_refused() -> None:
    wide = {"model.embed.weight": (12, 4)}
    document = slices(("a", 0, 1), ("b", 1, 2), base_model="b", tokenizer_source="b")
    ((path, code, message),) = laid(document, table("a"), table("b", **wide))[1]
    assert (path, code) == ("base_model", "shape_mismatch")
    assert "'model.embed.weight' is 12 x 4 in 'b', whose small files are carried, and 9 x 4 in 'a'" in message
    document = slices(("a", 0, 1), ("b", 1, 2), tokenizer_source="b")
    ((path, code, message),) = laid(document, table("a"), table("b", **wide))[1]
    assert (path, code, "whose tokenizer is carried" in message) == ("tokenizer_source", "shape_mismatch", True)
    assert laid(slices(("a", 0, 1), ("b", 1, 2)), table("a"), table("b", **wide))[1] == []
