"""A merge as it is carried out: slices of models with the settings of each, from plain parameters or from a recipe.

A recipe is a document in mergekit's format, as ``workers.recipe_check`` takes it. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workers.merge_settings import value_at, varies
from workers.merge_strategies import STRATEGIES, Strategy
from workers.merge_values import RULES, Rule
from workers.tokenizer_source import BASE

BASE_INPUT = "base-model"
# What a recipe calls it where our parameters have one a model.
IN_RECIPE = {"weights": "weight"}

Chain = tuple[Any, ...]
"""The settings of a parameter, the most specific first: the first that gives a tensor a value counts."""


@dataclass(frozen=True, slots=True)
class Source:
    """A model of a slice: the name of its ``input``, where in the document it stands, and the number of its first
    layer there (None: all of the model)."""

    input: str
    path: str
    first: int | None = None


@dataclass(frozen=True, slots=True)
class Slice:
    """Models that are merged layer by layer: ``layers`` of each, or all that they have (None).

    ``whole`` are the settings that hold for the merge, ``each`` those of every source, in their order.
    """

    path: str
    sources: tuple[Source, ...]
    base: Source | None
    layers: int | None
    whole: Mapping[str, Chain]
    each: Mapping[str, tuple[Chain, ...]]

    @property
    def origins(self) -> tuple[Source, ...]:
        """Everything that is read for it, the base last."""
        return self.sources if self.base is None else (*self.sources, self.base)

    @property
    def varies(self) -> bool:
        """May two of its tensors get different values?"""
        chains = [*self.whole.values(), *(chain for chains in self.each.values() for chain in chains)]
        return any(varies(setting) for chain in chains for setting in chain)

    def values_at(self, tensor: str, position: float) -> dict[str, Any]:
        """The value of every setting for a tensor whose layer lies at ``position`` (0 to 1): a list for those of each
        source, None in it where none is given; without those of the merge that are not given."""
        found: dict[str, Any] = {}
        for name, chain in self.whole.items():
            value = _first(chain, tensor, position)
            if value is not None:
                found[name] = value
        for name, chains in self.each.items():
            default = RULES[name].default
            values = [_first(chain, tensor, position) for chain in chains]
            found[name] = [default if value is None else value for value in values]
        return found


@dataclass(frozen=True, slots=True)
class Recipe:
    """A merge: its strategy, its slices in the order of their layers, and the inputs whose small files (``carries``)
    and whose ``tokenizer`` the result has. ``names_tokenizer``: it says so itself. ``pattern`` finds the number of a
    layer in names. ``on_mismatch`` says what becomes of tensors that the models have otherwise than each other, by
    default an error. ``names_base``: there is a base, and the small files are of it. ``field`` is where its errors
    belong."""

    strategy: Strategy
    slices: tuple[Slice, ...]
    carries: str
    tokenizer: str
    names_tokenizer: bool = False
    pattern: str | None = None
    on_mismatch: Any = None
    names_base: bool = False
    field: str = "params"

    @property
    def is_sliced(self) -> bool:
        """Does it take ranges of layers?"""
        return self.slices[0].layers is not None


def recipe_of(params: Mapping[str, Any]) -> Recipe:
    """The merge that right parameters ask for, in either form."""
    document = params.get("recipe")
    if document is not None:
        beside = params.get("layer_pattern"), params.get("on_mismatch")
        return replace(_of_document(document), pattern=beside[0], on_mismatch=beside[1])
    inputs = tuple(Source(f"model-{i}", f"models.{i}") for i in range(len(params["models"])))
    base = Source(BASE_INPUT, "base_model") if params.get("base_model") is not None else None
    recipe = plain_recipe(STRATEGIES[params["strategy"]], params, inputs, base)
    named: dict[str, str] = {} if base is None else {params["base_model"]: BASE_INPUT}
    for name, source in zip(params["models"], inputs, strict=True):
        named.setdefault(name, source.input)
    given = params.get("tokenizer_source")
    return replace(recipe, tokenizer=_tokenizer(given, named, recipe.carries), names_tokenizer=given is not None)


def plain_recipe(
    strategy: Strategy, params: Mapping[str, Any], sources: tuple[Source, ...], base: Source | None
) -> Recipe:
    """The merge of whole models by the strategy's own parameters, which are right and have their defaults."""
    rules = rules_of(strategy)
    whole = {rule.name: (params[rule.name],) for rule in rules if not rule.each}
    each = {rule.name: tuple((setting,) for setting in params[rule.name]) for rule in rules if rule.each}
    made = Slice("", sources, base, None, whole, each)
    carries = (base or sources[0]).input
    return Recipe(
        strategy, (made,), carries, carries, pattern=params.get("layer_pattern"),
        on_mismatch=params.get("on_mismatch"), names_base=base is not None,
    )  # fmt: skip


def names_base(params: Mapping[str, Any]) -> bool:
    """Do the parameters of a merge, right or wrong, name a base in either form?"""
    document = params.get("recipe")
    return (document if isinstance(document, Mapping) else params).get("base_model") is not None


def rules_of(strategy: Strategy) -> list[Rule]:
    """The rules of the parameters that a strategy has, beside its base."""
    return [RULES[name] for name in strategy.own if name in RULES]


def in_recipe(rule: Rule) -> str:
    """What a recipe calls the parameter."""
    return IN_RECIPE.get(rule.name, rule.name)


def recipe_references(document: Any) -> list[tuple[str, str, str]]:
    """Every model that a document names, once: ``(path of the first place, name, name of the input)``, a base that is
    merged upon last. Of a wrong document what can be read of it."""
    base = _base_of(document)
    named: dict[str, str] = {}
    for path, name in _named(document):
        named.setdefault(name, path)
    base_path = named.pop(base, "base_model") if base is not None else ""
    found = [(path, name, f"model-{i}") for i, (name, path) in enumerate(named.items())]
    return found if base is None else [*found, (base_path, base, BASE_INPUT)]


def renamed(document: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The document with its models called by ``names``; one that has none keeps its own."""
    made = dict(document)
    for key in ("base_model", "tokenizer_source"):
        if key in made and (key, made[key]) != ("tokenizer_source", BASE):
            made[key] = names.get(made[key], made[key])
    for key in ("models", "slices"):
        if key in made:
            made[key] = [_renamed(entry, names) for entry in made[key]]
    return made


def _renamed(entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    made = dict(entry)
    if "model" in made:
        made["model"] = names.get(made["model"], made["model"])
    if "sources" in made:
        made["sources"] = [_renamed(source, names) for source in made["sources"]]
    return made


def _base_of(document: Any) -> str | None:
    """The base that the strategy merges upon; for the others ``base_model`` is one of the models."""
    if not isinstance(document, Mapping):
        return None
    method, base = document.get("merge_method"), document.get("base_model")
    strategy = STRATEGIES.get(method) if isinstance(method, str) else None
    takes = strategy is not None and strategy.base != "none"
    return base.strip() if takes and isinstance(base, str) and base.strip() else None


def _named(document: Any) -> Iterator[tuple[str, str]]:
    """Each place in the document that names a model, and the name."""
    for path, entry in _entries(document):
        name = entry.get("model")
        if isinstance(name, str) and name.strip():
            yield f"{path}.model", name.strip()


def _entries(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(document, Mapping):
        return
    for path, entry in _listed(document, "models"):
        yield path, entry
    for path, each in _listed(document, "slices"):
        yield from ((f"{path}.{inner}", source) for inner, source in _listed(each, "sources"))


def _listed(owner: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    given = owner.get(key)
    for i, entry in enumerate(given if isinstance(given, (list, tuple)) else ()):
        if isinstance(entry, Mapping):
            yield f"{key}[{i}]", entry


def _of_document(document: Mapping[str, Any]) -> Recipe:
    strategy = STRATEGIES[document["merge_method"]]
    inputs = {name: given for _, name, given in recipe_references(document)}
    base = document.get("base_model")
    if "models" in document:
        slices = [_slice("", document["models"], "models", strategy, base, inputs, [document])]
    else:
        slices = [
            _slice(f"slices[{i}]", each["sources"], f"slices[{i}].sources", strategy, base, inputs, [each, document])
            for i, each in enumerate(document["slices"])
        ]
    carries = inputs[base] if base is not None else slices[0].sources[0].input
    source = document.get("tokenizer_source")
    return Recipe(
        strategy, tuple(slices), carries, _tokenizer(source, inputs, carries), source is not None,
        names_base=base is not None, field="params.recipe",
    )  # fmt: skip


def _tokenizer(given: str | None, inputs: Mapping[str, str], carries: str) -> str:
    """The input whose tokenizer is meant; that of the base is carried with its other small files."""
    return carries if given is None or given == BASE else inputs[given]


def _slice(
    path: str,
    entries: Sequence[Mapping[str, Any]],
    place: str,
    strategy: Strategy,
    base: str | None,
    inputs: Mapping[str, str],
    levels: Sequence[Mapping[str, Any]],
) -> Slice:
    """``levels``: what holds the parameters of all entries, the most specific first."""
    rows = [(entry, _source(entry, f"{place}[{i}]", inputs)) for i, entry in enumerate(entries)]
    own_base = None
    if base is not None and strategy.base != "none":
        own_base = next((source for entry, source in rows if entry["model"] == base), None)
        rows = [row for row in rows if row[0]["model"] != base]
        own_base = own_base or Source(BASE_INPUT, "base_model", rows[0][1].first)
    elif strategy.name == "slerp" and base is not None:  # its first model is where t is 0
        rows.sort(key=lambda row: row[0]["model"] != base)
    given = entries[0].get("layer_range")
    of_merge = [entries[0], *levels] if strategy.max_models == 1 else levels
    return Slice(
        path,
        tuple(source for _, source in rows),
        own_base,
        None if given is None else given[1] - given[0],
        {rule.name: _chain(rule, of_merge) for rule in rules_of(strategy) if not rule.each},
        {
            rule.name: tuple(_chain(rule, [entry, *levels]) for entry, _ in rows)
            for rule in rules_of(strategy)
            if rule.each
        },
    )


def _source(entry: Mapping[str, Any], path: str, inputs: Mapping[str, str]) -> Source:
    given = entry.get("layer_range")
    return Source(inputs[entry["model"]], path, None if given is None else given[0])


def _chain(rule: Rule, levels: Sequence[Mapping[str, Any]]) -> Chain:
    found = [(level.get("parameters") or {}).get(in_recipe(rule)) for level in levels]
    return tuple(_as_ours(rule, setting) for setting in found if setting is not None)


def _as_ours(rule: Rule, setting: Any) -> Any:
    """A switch where we have words says whether to rescale at all."""
    if rule.name == "rescale" and isinstance(setting, bool):
        return rule.default if setting else "none"
    return setting


def _first(chain: Chain, tensor: str, position: float) -> Any:
    values = (value_at(setting, tensor, position) for setting in chain)
    return next((value for value in values if value is not None), None)
