"""The merge form: what was typed becomes the body REST takes, and REST's errors go back beside the fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import QueryDict

from scheduling.services import recipes
from scheduling.web import earlier, form_fields, where_when
from scheduling.web.form_fields import SHARED, fields_of, number, placed, text_of, with_rest
from workers.merge_strategies import STRATEGIES

KIND = "merge"
TEMPLATE = "submit.html"
BY_LINE = tuple(
    where_when.RULES
)  # each line of them is a thing of its own: what is wrong with one says nothing of the others
ROWS = 4
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "slerp-pair": (
        "SLERP on 2 linked GPUs",
        {"strategy": "slerp", "t": "0.5", "gpu_count": "2", "nvlink_required": True},
    ),
    "slerp-one": ("SLERP on 1 GPU", {"strategy": "slerp", "t": "0.5", "gpu_count": "1", "nvlink_required": False}),
    "mean": ("Plain mean on 1 GPU", {"strategy": "linear", "gpu_count": "1", "nvlink_required": False}),
    "ties": ("TIES on 1 GPU", {"strategy": "ties", "gpu_count": "1", "nvlink_required": False}),
}
OUTPUT = ("out_dtype", "tokenizer_source")  # of every strategy, and nothing when empty
OWN = ("base_model", "t", "lambda", "scale", "density", "epsilon", "gamma", "normalize", "rescale", "granularity")
PARAMS = ("strategy", *OWN, *OUTPUT, "recipe", "seed", "layer_pattern", "on_mismatch")
RECIPE = "recipe"  # chosen in the place of a strategy: the recipe names its own
TEXTS = (*SHARED, *PARAMS, *where_when.TEXTS)
ELSEWHERE = {
    **form_fields.ELSEWHERE,
    "node_count": "gpu_count",
    "params": "strategy",
}
RECIPE_LIKE = """merge_method: slerp
base_model: digits-0-4
models:
  - model: digits-0-4
  - model: digits-5-9
parameters:
  t:
    - {filter: bias, value: 0.5}
    - {value: [0.2, 0.8]}
"""
TYPICAL = {"t": "0.5", "density": "0.5", "epsilon": "0.1"}
PER_MODEL = ("density", "epsilon", "gamma")
WORDS = ("normalize", "rescale", "granularity")
SWITCH = {"true": True, "false": False}


@dataclass(frozen=True)
class Values:
    """What the form shows: every field as text, the models and their weights row by row."""

    texts: Mapping[str, str]
    models: tuple[str, ...] = ("", "")
    weights: tuple[str, ...] = ()
    nvlink_required: bool = False
    rest: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The model rows, at least ``ROWS`` of them, each with its number, weight and errors."""
        count = max(ROWS, len(self.models))
        return [
            {"number": i + 1, "model": _at(self.models, i), "weight": _at(self.weights, i),
             "errors": self.errors.get(f"models.{i}", [])}
            for i in range(count)
        ]  # fmt: skip


def empty(*, project: str, preset: str) -> Values:
    """The form as it is first shown, filled by a preset."""
    chosen = dict(PRESETS.get(preset, PRESETS["slerp-pair"])[1])
    nvlink = bool(chosen.pop("nvlink_required"))
    texts = {"queue": "merge", "priority": "Normal", "max_duration": "1h", "project": project, **TYPICAL, **chosen}
    return Values(texts, nvlink_required=nvlink)


def having() -> dict[str, str]:
    """Which strategies each of their fields is for, as the page's script reads it."""
    names = {name for strategy in STRATEGIES.values() for name in strategy.own}
    found = {name: " ".join(s.name for s in STRATEGIES.values() if name in s.own) for name in names}
    every = " ".join(STRATEGIES)
    return {
        **found,
        "models": every,
        "recipe": RECIPE,
        "layers": f"{every} {RECIPE}",
        "seed": f"{found['rescale']} {RECIPE}",
    }


def strategies() -> list[dict[str, Any]]:
    """The strategies to choose from, in words, and how many models each takes."""
    return [
        {"name": s.name, "summary": s.summary, "most": s.max_models, "least": s.min_models,
         "needs_base": s.base == "required"}
        for s in STRATEGIES.values()
    ]  # fmt: skip


def posted(form: QueryDict) -> Values:
    """The form as it was sent."""
    return Values(
        **form_fields.posted(form, TEXTS), models=tuple(form.getlist("model")), weights=tuple(form.getlist("weight"))
    )


def again(body: Mapping[str, Any]) -> Values:
    """The form filled with an earlier job's body, to send it once more; a refused one may hold anything."""
    found = earlier.read(body)
    params = {name: _again(name, found.params.get(name)) for name in PARAMS}
    return Values(
        {**found.texts, **params, **_recipe_again(found.params)},
        models=_listed(found.params.get("models")),
        weights=_listed(found.params.get("weights")),
        nvlink_required=found.nvlink_required,
        rest=found.rest((*PARAMS, "models", "weights")),
    )


def faults(values: Values) -> tuple[dict[str, str], ...]:
    """What is wrong before there is a body: rules that can't be read."""
    return tuple(where_when.faults(values.texts))


def body_of(values: Values) -> dict[str, Any]:
    """The body that ``POST /api/v1/jobs/`` would take. What can't be read as a number is left as typed, for the
    check to name."""
    texts = {k: v.strip() for k, v in values.texts.items()}
    by_recipe = texts.get("strategy") == RECIPE
    params: dict[str, Any] = {RECIPE: values.texts.get(RECIPE, "")} if by_recipe else _of_strategy(values, texts)
    if texts.get("seed"):
        params["seed"] = int(texts["seed"]) if texts["seed"].isdecimal() else texts["seed"]
    if texts.get("layer_pattern"):
        params["layer_pattern"] = texts["layer_pattern"]
    if given := texts.get("on_mismatch"):
        params["on_mismatch"] = (form_fields.loaded(given) or given) if given.startswith("[") else given
    body = {**fields_of(values.texts), **where_when.body_of(values.texts)}
    return with_rest({"kind": KIND, **body, "nvlink_required": values.nvlink_required, "params": params}, values.rest)


def _of_strategy(values: Values, texts: Mapping[str, str]) -> dict[str, Any]:
    chosen = [(i, m) for i, m in enumerate(values.models) if m]
    params: dict[str, Any] = {"strategy": texts.get("strategy", ""), "models": [m for _, m in chosen]}
    strategy = STRATEGIES.get(params["strategy"])
    own = strategy.own if strategy else ()
    params |= {
        name: _typed(name, texts.get(name, "")) for name in OWN if name in own and (texts.get(name) or name == "t")
    }
    if "weights" in own and any(_at(values.weights, i).strip() for i, _ in chosen):
        params["weights"] = [_number(_at(values.weights, i).strip() or "1") for i, _ in chosen]
    return params | {name: texts[name] for name in OUTPUT if texts.get(name)}


def refused(values: Values, errors: Iterable[Mapping[str, Any]]) -> Values:
    """The same values with every error beside the field it is about; the rest at the top (``""``), in the words
    of the form."""
    rows = [i for i, m in enumerate(values.models) if m]
    told = ({**error, "message": where_when.in_words(error, values)} for error in errors)
    return replace(values, errors=placed(told, lambda name: place(name, rows)))


def place(name: str, rows: Sequence[int] = ()) -> str:
    """The field of the form for a field of the body, "" for one that the form has not; ``rows``: the row in which
    each model was chosen."""
    if name.startswith("params.recipe"):
        return RECIPE
    if name.startswith("params.models."):
        number = name.removeprefix("params.models.")
        return f"models.{rows[int(number)]}" if number.isdigit() and int(number) < len(rows) else "models"
    name = ELSEWHERE.get(name, name).removeprefix("params.")
    name = where_when.place(name) or name
    return name if name in (*TEXTS, "models", "weights", "nvlink_required", "replaces") else ""


def _typed(name: str, text: str) -> Any:
    """A parameter as REST takes it: a number; where there are commas one a model, or for what is one for all a gradient
    over the layers; a switch, the words, or a list as JSON."""
    if name == "base_model":
        return text
    if name in WORDS:
        return form_fields.loaded(text) or text if text.startswith("[") else SWITCH.get(text, text)
    if "," in text and not text.startswith("["):
        return [number(part.strip()) for part in text.split(",")]
    return _number(text)


def _number(text: str) -> Any:
    """The number, or a list as JSON writes it; else the text, for the check to name."""
    found = form_fields.loaded(text) if text.startswith("[") else None
    return number(text) if found is None else found


def _recipe_again(params: Mapping[str, Any]) -> dict[str, str]:
    """The recipe of an earlier job in the place of a strategy, as YAML; nothing where there was none."""
    given = params.get(RECIPE)
    if given is None:
        return {}
    return {"strategy": RECIPE, RECIPE: given if isinstance(given, str) else recipes.as_text(given)}


def _again(name: str, value: Any) -> str:
    """A parameter of an earlier body as it is typed; what is the same for all models is typed once."""
    if name == "seed" and value == 0:
        return ""
    if not isinstance(value, list) or any(isinstance(part, (list, dict)) for part in value):
        return text_of(value)
    each = [text_of(part) for part in value]
    return each[0] if name in PER_MODEL and each and len(set(each)) == 1 else ", ".join(each)


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(text_of(v) for v in value) if isinstance(value, list) else ()


def _at(items: tuple[str, ...], index: int) -> str:
    return items[index] if index < len(items) else ""
