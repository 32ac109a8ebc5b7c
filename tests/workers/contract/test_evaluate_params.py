"""The parameters of an evaluation: defaults, every refusal with field, limit and what to do, and whether they fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.workers.engines.evaluations import DECODER, MLP
from workers.catalog import KINDS, check_params
from workers.evaluate_params import OF_TASK, chosen_metrics, evaluate_references, metric_faults
from workers.model_families import CLASSIFY, FAMILIES, LANGUAGE, MAX_LAYERS, architecture
from workers.rows_params import data_file, family_of, format_faults, tensor_faults

FITS = "give a model that fits, or say with architecture what it is"
RIGHT = {"model": "m", "dataset": "d"}


def told(**params: Any) -> list[tuple[str, str, str]]:
    """(field, code, message) of everything wrong."""
    return [(e.field, e.code, e.message) for e in check_params("evaluate", {**RIGHT, **params})[1]]


def table(config: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """The model's table of tensors; a changed one is None for missing, or its type and shape."""
    made = {n: ("F32", list(s)) for n, s in FAMILIES[config["model_type"]].shapes(config).items()}
    made |= {name.removeprefix("_").replace("__", "."): value for name, value in changed.items()}
    return {name: value for name, value in made.items() if value is not None}


def test_the_least_that_can_be_said_has_its_defaults() -> None:
    assert check_params("evaluate", {"model": " m ", "dataset": "d"}) == (
        {"model": "m", "dataset": "d", "batch_size": 32}, []
    )  # fmt: skip


def test_all_that_can_be_said_is_kept() -> None:
    asked = {**RIGHT, "metrics": ["loss", "perplexity"], "batch_size": 8, "limit": 100, "file": "test.jsonl",
             "architecture": DECODER}  # fmt: skip
    assert check_params("evaluate", asked) == (asked, [])


@pytest.mark.parametrize(
    ("changed", "field", "code", "words"),
    [
        ({"model": None}, "params.model", "required", "model is missing: give the id or name of a model"),
        ({"model": ["a"]}, "params.model", "not_a_name", 'model must be, and not ["a"], the id or name of a model'),
        ({"dataset": " "}, "params.dataset", "not_a_name", "must be, and not ' ', the id or name of a data set"),
        ({"metric": 1}, "params.metric", "unknown_field", "has no parameter 'metric' (did you mean 'metrics'?)"),
        ({"metrics": "accuracy"}, "params.metrics", "not_a_list", "metrics must be a list of some of accuracy, loss, "
         "perplexity, bits_per_byte, not 'accuracy'; without it all are told"),
        ({"metrics": []}, "params.metrics", "not_a_list", "not []"),
        ({"metrics": ["loss", "acuracy"]}, "params.metrics.1", "unknown_metric",
         "there is no metric 'acuracy' (did you mean 'accuracy'?); choose of accuracy, loss"),
        ({"metrics": [{}]}, "params.metrics.0", "unknown_metric", "there is no metric {}"),
        ({"metrics": ["loss", "loss"]}, "params.metrics", "twice", "metrics names one twice: give each once"),
        ({"metrics": ["accuracy", "perplexity"]}, "params.metrics", "mismatch",
         "are of no one kind of model: of models that tell classes apart accuracy, loss; of language models"),
        ({"batch_size": 0}, "params.batch_size", "out_of_range", "a whole number from 1 to 65536, not 0"),
        ({"batch_size": 65537}, "params.batch_size", "out_of_range", "a whole number from 1 to 65536, not 65537"),
        ({"batch_size": True}, "params.batch_size", "out_of_range", "not true"),
        ({"limit": 0}, "params.limit", "out_of_range", "limit must be a whole number from 1 to 1000000000, not 0"),
        ({"limit": 1.5}, "params.limit", "out_of_range", "not 1.5"),
        ({"file": "x.parquet"}, "params.file", "unsupported_format",
         "file must name a file of the data set that ends in .jsonl, .csv, .safetensors, not 'x.parquet'"),
        ({"file": "é" * 126 + ".csv"}, "params.file", "too_long",
         "file has 256 bytes, at most 255 are taken: give the file a shorter name"),
        ({"file": 3}, "params.file", "unsupported_format", "not 3"),
        ({"architecture": "mlp"}, "params.architecture", "not_an_object", "an object with a model_type, not 'mlp'"),
        ({"architecture": {}}, "params.architecture.model_type", "required", "model_type is missing: say which "
         "architecture it is, one of mlp, decoder"),
        ({"architecture": {"model_type": "decodr"}}, "params.architecture.model_type", "unknown_architecture",
         "model_type is one of mlp, decoder, not 'decodr' (did you mean 'decoder'?): give such a model, or run a"),
        ({"architecture": {"model_type": []}}, "params.architecture.model_type", "unknown_architecture", "not []"),
        ({"architecture": {**MLP, "layers": 3}}, "params.architecture.layers", "unknown_field",
         "the architecture mlp has no 'layers' (did you mean 'layer_sizes'?)"),
    ],
)  # fmt: skip
def test_each_refusal_names_the_field_the_limit_and_what_to_do(changed, field, code, words) -> None:
    found = told(**changed)
    assert [(f, c) for f, c, _ in found] == [(field, code)]
    assert words in found[0][2]


@pytest.mark.parametrize(
    ("config", "field", "words"),
    [
        ({**MLP, "layer_sizes": None}, "layer_sizes", "the inputs first and the classes last, and is missing"),
        ({**MLP, "layer_sizes": [5]}, "layer_sizes", f"must list 2 to {MAX_LAYERS} whole numbers from 1 to 1000000"),
        ({**MLP, "layer_sizes": [5, 0]}, "layer_sizes", "not [5, 0]"),
        ({**MLP, "layer_sizes": [5, 2.0]}, "layer_sizes", "not [5, 2.0]"),
        ({**MLP, "layer_sizes": 5}, "layer_sizes", "not 5"),
        ({**MLP, "layer_sizes": "64"}, "layer_sizes", "not '64'"),
        ({**MLP, "activation": "swish"}, "activation", "must be one of relu, gelu, tanh, not 'swish'"),
        ({**MLP, "activation": []}, "activation", "not []"),
        (
            {**MLP, "classes": 4},
            "classes",
            "classes is 4 and the last of layer_sizes 3: leave it out",
        ),
        ({**DECODER, "width": None}, "width", "width must be a whole number from 1 to 1000000, and is missing"),
        ({**DECODER, "num_layers": 0}, "num_layers", "from 1 to 1000, not 0"),
        ({**DECODER, "heads": 3}, "heads", "heads is 3, of which width, 8, is no multiple: change one of them"),
        ({**DECODER, "context": True}, "context", "not true"),
        ({**DECODER, "characters": "aab"}, "characters", "a text of 2 to 200000 different characters"),
        ({**DECODER, "characters": "a"}, "characters", "not 'a'; without it the model reads bytes"),
        ({**DECODER, "characters": ["a", "b"]}, "characters", 'not ["a", "b"]'),
        ({**DECODER, "characters": "a\ud800"}, "characters", "different characters"),
    ],
)
def test_each_refusal_of_a_configuration_names_its_field(config, field: str, words: str) -> None:
    given = {name: value for name, value in config.items() if value is not None}
    found = architecture(given, "params.architecture", strict=True)[2]
    assert [e.field for e in found] == [f"params.architecture.{field}"]
    assert words in found[0].message


def test_everything_wrong_is_told_at_once() -> None:
    wrong = {"model": 1, "dataset": None, "metrics": ["x"], "batch_size": -1, "limit": "all", "file": "x", "colour": 1,
             "architecture": {"model_type": "decoder", "width": 9, "heads": 2}}  # fmt: skip
    assert {field for field, _, _ in told(**wrong)} == {
        "params.model", "params.dataset", "params.metrics.0", "params.batch_size", "params.limit", "params.file",
        "params.colour", "params.architecture.num_layers", "params.architecture.context", "params.architecture.heads",
    }  # fmt: skip


def test_an_evaluation_names_its_model_and_its_data_set_which_are_of_those_kinds() -> None:
    assert evaluate_references({"model": "m", "dataset": "d", "file": "x"}) == [
        ("params.model", "m", "model"), ("params.dataset", "d", "dataset"),
    ]  # fmt: skip
    assert [KINDS["evaluate"].kinds_of(name) for name in ("model", "dataset")] == [("model",), ("dataset",)]
    assert (KINDS["merge"].kinds_of("model-0"), KINDS["command"].kinds_of("base")) == (("model",), ())
    assert KINDS["evaluate"].queue == "eval"


@pytest.mark.parametrize("task", OF_TASK)
def test_without_metrics_all_of_the_task_are_told(task: str) -> None:
    assert chosen_metrics({}, task) == list(OF_TASK[task])
    assert chosen_metrics({"metrics": ["loss"]}, task) == ["loss"]


def test_a_model_says_itself_what_it_is_unless_the_parameters_do() -> None:
    own = {**MLP, "classes": 3, "transformers_version": "5"}
    assert family_of({}, own, "m") == (FAMILIES["mlp"], MLP, [])
    assert family_of({"architecture": DECODER}, own, "m")[0] is FAMILIES["decoder"]


@pytest.mark.parametrize(
    ("config", "field", "code", "words"),
    [
        (None, "params.architecture", "required", "'m' has no config.json that says what it is: give architecture"),
        ([1], "params.model", "not_an_object", "config.json of 'm': an architecture is an object with a model_type"),
        ({"model_type": "llama"}, "params.model", "unknown_architecture",
         "config.json of 'm': model_type is one of mlp, decoder, not 'llama'"),
        ({"model_type": "mlp"}, "params.model", "required", "config.json of 'm': layer_sizes must list"),
    ],
)  # fmt: skip
def test_a_model_that_does_not_say_what_it_is_is_refused(config, field, code, words) -> None:
    (found,) = family_of({}, config, "m")[2]
    assert (found.field, found.code) == (field, code)
    assert found.message.startswith(words)


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"_2__bias": None}, "missing_tensor", f"'m' lacks 2.bias, which the architecture mlp has: {FITS}"),
        ({"extra": ("F32", [1])}, "unknown_tensor", f"'m' has extra, which the architecture mlp has not: {FITS}"),
        ({"_0__weight": ("F32", [7, 6])}, "shape_mismatch",
         f"tensor '0.weight' is 7 x 6 in 'm' and 7 x 5 by its architecture: {FITS}"),
        ({"_0__bias": ("I64", [7])}, "unsupported_dtype",
         "'m' has no floats in 0.bias (I64): give the model with 16, 32 or 64 bit floats"),
    ],
)  # fmt: skip
def test_a_state_dictionary_of_another_architecture_is_refused_by_its_tensors(changed, code, words) -> None:
    (found,) = tensor_faults(FAMILIES["mlp"], MLP, "m", table(MLP, **changed))
    assert (found.field, found.code, found.message) == ("params.model", code, words)


def test_a_model_that_fits_has_nothing_wrong_nor_one_of_unknown_tensors() -> None:
    assert tensor_faults(FAMILIES["decoder"], DECODER, "m", table(DECODER)) == []
    assert tensor_faults(FAMILIES["decoder"], DECODER, "m", None) == []
    assert metric_faults(FAMILIES["decoder"], {"metrics": ["loss"]}) == metric_faults(FAMILIES["mlp"], {}) == []


def test_all_that_does_not_fit_is_told_together_and_what_is_many_is_counted() -> None:
    found = tensor_faults(FAMILIES["mlp"], MLP, "m", table(DECODER))
    assert [(e.field, e.code) for e in found] == [
        ("params.model", "missing_tensor"), ("params.model", "unknown_tensor"),
    ]  # fmt: skip
    assert found[1].message.endswith("layers.0.norm1.bias and 24 more, which the architecture mlp has not: " + FITS)


def test_metrics_of_another_task_are_told_with_those_that_there_are() -> None:
    (found,) = metric_faults(FAMILIES["mlp"], {"metrics": ["perplexity"]})
    assert (found.field, found.code, found.message) == (
        "params.metrics", "mismatch",
        "perplexity can't be told of the architecture mlp: models that tell classes apart have accuracy, loss",
    )  # fmt: skip


def test_a_hundred_tensors_of_another_shape_are_told_by_five_and_their_number() -> None:
    wide = {**DECODER, "width": 16}
    found = tensor_faults(FAMILIES["decoder"], wide, "m", table(DECODER))
    assert [e.code for e in found] == ["shape_mismatch"] * 6
    assert found[5].message == f"and {len(table(wide)) - 5} more differ in shape"


@pytest.mark.parametrize(
    ("files", "named", "read", "words"),
    [
        (["README.md", "test.jsonl"], None, "test.jsonl", ""),
        (["a/X.CSV"], None, "a/X.CSV", ""),
        (["a.jsonl", "b.csv"], "b.csv", "b.csv", ""),
        (["a.jsonl", "b.csv"], None, None, "'d' has a.jsonl, b.csv: say with file which is read"),
        (["test.jsonl"], "tset.jsonl", None,
         "'d' has no file 'tset.jsonl' (did you mean 'test.jsonl'?); its files are test.jsonl"),
        (["test.jsonl"], "x.parquet", None, ""),
        (["test.jsonl"], 3, None, ""),
        (["x.parquet"], None, None,
         "'d' has no file that ends in .jsonl, .csv, .safetensors: its files are x.parquet"),
    ],
)  # fmt: skip
def test_the_one_file_that_can_be_read_is_read(files, named, read, words) -> None:
    path, errors = data_file(files, named, "d", "params.dataset")
    assert (path, [e.message for e in errors]) == (read, [words] if words else [])


def test_language_is_read_as_text() -> None:
    (wrong,) = format_faults("x.safetensors", LANGUAGE, "d", "params.dataset")
    assert wrong.message == (
        "'x.safetensors' of 'd' holds numbers, and a language model reads texts: give .jsonl or .csv"
    )
    for path, task in (("x.safetensors", CLASSIFY), ("x.csv", LANGUAGE)):
        assert format_faults(path, task, "d", "params.dataset") == []
