"""The text of a recipe: what is read of YAML, what is refused with its line, and what a submission makes of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.conf import settings

from scheduling.models import Job
from scheduling.services import jobs, recipes, whatif
from scheduling.services.recipes import Unread, as_text, read
from scheduling.services.same_work import Work, is_same, key_of
from scheduling.web import merge_form
from tests import builders as b

LAYERS = {f"h.{i}.{part}": (4, 3) for i in range(3) for part in ("mlp.w", "attn.w")} | {"emb.w": (5, 3), "norm.w": (3,)}
TEXT = """
# by hand
merge_method: slerp
slices:
  - sources:
      - {model: a, layer_range: [0, 2]}
      - model: b
        layer_range: [1, 3]
parameters:
  t:
    - filter: mlp
      value: [0.25, 7.5e-1]
    - value: .5
"""
DOCUMENT = {
    "merge_method": "slerp",
    "slices": [{"sources": [{"model": "a", "layer_range": [0, 2]}, {"model": "b", "layer_range": [1, 3]}]}],
    "parameters": {"t": [{"filter": "mlp", "value": [0.25, 0.75]}, {"value": 0.5}]},
}


def test_a_text_is_read_as_people_mean_it() -> None:
    assert read(TEXT) == DOCUMENT


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-3", -3), ("007", 7), ("0.5", 0.5), (".5", 0.5), ("1e-3", 0.001), ("1.", 1.0), ("true", True),
        ("No", False), ("~", None), ("", None), ("'1'", "1"), ('"true"', "true"), ("1:30", "1:30"), ("0x1F", "0x1F"),
        ("2001-01-01", "2001-01-01"), (".nan", ".nan"), (".inf", ".inf"), ("1e999", "1e999"), ("1_000", "1_000"),
        ("=", "="), ("9" * 31, 1e31), ("org/model", "org/model"), ("|\n  two\n  lines", "two\nlines"),
    ],
)  # fmt: skip
def test_a_word_is_a_number_or_a_switch_only_where_it_looks_like_one(text: str, value: Any) -> None:
    got = read(f"x: {text}")["x"]
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: &x [1]\nb: *x", "line 1: anchors and aliases (&x) are not read: write it out"),
        ("b: *x", "line 1: anchors and aliases (*x) are not read: write it out"),
        ("a: 1\nb: 2\na: 3", "line 3: 'a' is there twice"),
        ("a:\n  - [", "line 2: this is no YAML: "),
        ("a: b: c", "line 1: this is no YAML: mapping values are not allowed here"),
        ("\ta: 1", "line 1: this is no YAML: "),
        ("a: !!python/object/apply:os.system [x]", "line 1: tags ('tag:yaml.org,2002:python/object/apply:os.system')"),
        ("\na: !!python/name:os.system ''", "line 2: tags ("),
        ("a: !!set {x}", "line 1: tags ("),
        ("a: !mine 3", "line 1: tags ('!mine') are not read: texts, numbers, lists and objects have none"),
        ("? [1]\n: 2", "line 1: the name of a field is a text, not a list or an object"),
        ("", "the text is empty"),
        ("# nothing\n", "the text is empty"),
        ("--- {a: 1}\n--- {a: 2}", "line 2: this is no YAML: but found another document"),
        ("a: \x00", "this is no YAML: unacceptable character #x0000"),
        ("a: \ud800", "this is no YAML: unacceptable character #xd800"),
        ("[" * 30 + "]" * 30, "line 1: nested more than 20 deep"),
        ("- " * 2000, "it is nested more than 20 deep"),
        ("x" * 60_001, "the text has 60001 characters, at most 60000 are read"),
    ],
)
def test_what_is_no_recipes_text_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(Unread) as refused:
        read(text)
    assert str(refused.value).startswith(told)


def test_a_document_is_written_as_people_write_it_and_read_back_the_same() -> None:
    shuffled = {name: DOCUMENT[name] for name in sorted(DOCUMENT, reverse=True)} | {"dtype": "float32"}
    text = as_text(shuffled)
    assert (read(text), text.index("merge_method") < text.index("slices") < text.index("dtype")) == (shuffled, True)
    assert read(as_text({"model": "007", "value": "yes", "filter": "1e3"})) == {
        "model": "007", "value": "yes", "filter": "1e3",
    }  # fmt: skip


def test_an_unreadable_text_hides_nothing_of_what_stands_beside_it() -> None:
    _, errors = recipes.check("merge", {"recipe": "a: [", "seed": -1, "t": 3})
    assert [(e.field, e.code) for e in errors] == [
        ("params.recipe", "unreadable"), ("params.t", "beside_recipe"), ("params.seed", "out_of_range")
    ]  # fmt: skip


def with_deep_models() -> Any:
    """Alice, with two models of three layers."""
    lab = b.lab()
    for seed, name in enumerate(("deep-a", "deep-b")):
        b.model(lab.who["alice"], name, seed, shapes=LAYERS)
    return lab.who["alice"]


@pytest.fixture
def alice() -> Any:
    return with_deep_models()


def body(recipe: Any, **params: Any) -> dict[str, Any]:
    made = b.merge_body([])
    return {**made, "params": {"recipe": recipe, **params}}


def deep(text: str = TEXT) -> str:
    return text.replace("model: a", "model: deep-a").replace("model: b", "model: deep-b")


def refused(actor: Any, recipe: Any, **params: Any) -> list[tuple[str, str]]:
    result = jobs.submit(body(recipe, **params), actor, b.NOON)
    assert isinstance(result, jobs.Refused), result
    return [(error["field"].removeprefix("params.recipe."), error["code"]) for error in result.errors]


def test_what_the_page_on_merges_shows_is_right() -> None:
    page = (settings.BASE_DIR / "docs" / "merges.md").read_text()
    (recipe,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.S)
    found = [recipes.check("merge", params)[1] for params in ({"recipe": recipe}, json.loads(shown)["params"])]
    assert found == [[], []]


def test_what_the_form_shows_in_an_empty_field_is_right() -> None:
    assert recipes.check("merge", {"recipe": merge_form.RECIPE_LIKE})[1] == []


@pytest.mark.django_db
def test_a_text_makes_a_job_with_the_document_and_its_models_as_inputs(alice: Any) -> None:
    job = Job.objects.get(pk=jobs.submit(body(deep(), seed=4), alice, b.NOON).job_id)
    assert job.state == "QUEUED"
    assert job.params["recipe"] == read(deep())
    assert job.params["seed"] == 4
    assert [(row["as"], row["name"]) for row in job.spec["inputs"]] == [("model-0", "deep-a"), ("model-1", "deep-b")]


@pytest.mark.django_db
def test_a_job_by_a_recipe_can_be_submitted_again_as_it_was(alice: Any) -> None:
    first = jobs.submit(body(deep()), alice, b.NOON).job_id
    again = jobs.submit(jobs.body_again(str(first), alice), alice, b.NOON).job_id
    assert Job.objects.get(pk=first).params == Job.objects.get(pk=again).params


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("old", "new", "path", "code"),
    [
        ("deep-b", "deep-c", "slices[0].sources[1].model", "no_such_artifact"),
        ("[1, 3]", "[2, 4]", "slices[0].sources[1].layer_range", "missing_layer"),
        ("deep-b", "a", "slices[0].sources[1]", "no_layers"),
        ("deep-b", "odd", "slices[0].sources[1]", "shape_mismatch"),
        ("slerp", "slurp", "merge_method", "unknown_strategy"),
        ("by hand", "x\nmodels: []", "params.recipe", "required"),
    ],
)
def test_a_recipe_is_refused_before_it_waits(alice: Any, old: str, new: str, path: str, code: str) -> None:
    shapes = {name: (9, 9) if "mlp" in name else shape for name, shape in LAYERS.items()}
    b.model(alice, "odd", 7, shapes=shapes)
    assert (path, code) in refused(alice, deep().replace(old, new))


@pytest.mark.django_db
def test_a_model_that_is_called_by_its_name_and_its_id_is_refused(alice: Any) -> None:
    model = b.model(alice, "deep-d", 9, shapes=LAYERS)
    document = {"merge_method": "linear", "models": [{"model": "deep-d"}, {"model": model}]}
    assert refused(alice, document) == [("params.recipe", "called_differently")]


@pytest.mark.django_db
def test_values_that_are_wrong_for_a_tensor_are_refused_before_it_waits(alice: Any) -> None:
    document = {"merge_method": "linear", "models": [
        {"model": "deep-a"}, {"model": "deep-b", "parameters": {"weight": [{"filter": "mlp", "value": -1}]}}
    ]}  # fmt: skip
    assert refused(alice, document) == [("params.recipe", "zero_sum")]


@pytest.mark.django_db
def test_the_plan_tells_what_each_tensor_is_made_of_and_its_values(alice: Any) -> None:
    planned = whatif.plan(body(deep()), alice, b.NOON)
    assert isinstance(planned, whatif.Planned)
    rows = {row.tensor: (row.origins, row.values) for row in planned.rows}
    assert rows["h.1.mlp.w"] == ((("deep-a", "h.1.mlp.w"), ("deep-b", "h.2.mlp.w")), {"t": 0.75})
    assert len(rows) == 2 * 2 + 2


@pytest.mark.django_db
def test_the_plan_of_a_merge_with_the_same_values_everywhere_has_no_rows(alice: Any) -> None:
    planned = whatif.plan({**b.merge_body(["deep-a", "deep-b"])}, alice, b.NOON)
    assert isinstance(planned, whatif.Planned)
    assert planned.rows == ()


def test_the_same_recipe_is_the_same_work_whatever_its_models_are_called() -> None:
    def work(first: str, found: str = "1", t: float = 0.5) -> Work:
        document = {"merge_method": "slerp", "base_model": first, "parameters": {"t": t},
                    "models": [{"model": first}, {"model": "b"}]}  # fmt: skip
        return Work("merge", {"recipe": document, "seed": 0}, [{"artifact": found}, {"artifact": "2"}])

    assert is_same(work("a"), work("1"))
    assert not is_same(work("a"), work("a", found="3"))
    assert not is_same(work("a"), work("a", t=0.4))


def test_the_same_tokenizer_is_the_same_work_whatever_its_model_is_called() -> None:
    def plain(source: str, called: str = "b") -> Work:
        params = {"strategy": "slerp", "models": ["a", called], "tokenizer_source": source, "seed": 0}
        return Work("merge", params, [{"artifact": "1", "digest": "x1"}, {"artifact": "2", "digest": "x2"}])

    assert is_same(plain("b"), plain("x", called="x"))
    assert not is_same(plain("b"), plain("a"))
    keys = [key_of(plain(*each)) for each in (("b",), ("x", "x"), ("a",))]
    assert (keys[0] == keys[1], keys[0] == keys[2]) == (True, False)
