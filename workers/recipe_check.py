"""Can this recipe be carried out? Everything outside of what we read of mergekit's format is refused by its path.

Standard library only: a document is an object here; whoever has its text reads that first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from workers.merge_recipe import in_recipe, recipe_of, recipe_references, renamed, rules_of
from workers.merge_strategies import MAX_MODELS, STRATEGIES
from workers.merge_values import RULES, Rule
from workers.param_errors import ParamError, nearest
from workers.said_back import shown
from workers.tokenizer_source import source_fault

FIELD = "params.recipe"
MAX_TEXT = 60_000
MAX_SLICES = 256
MAX_TOLD = 5
MAX_ERRORS = 50
DTYPES = ("float64", "float32", "float16", "bfloat16")
TOP = ("merge_method", "base_model", "models", "slices", "parameters", "dtype", "out_dtype", "tokenizer_source")
_NO_TOKENS = "is not read: a tokenizer's files are carried as they are, and tokenizer_source says of which model"
_NO_MIXTURE = "belongs to a mixture of experts, which is not built here"
# What mergekit's format has and we don't, and what to do instead.
ELSEWHERE = {
    "modules": "is not read: give each of the modules a recipe with models or slices of its own",
    "tokenizer": _NO_TOKENS,
    "chat_template": _NO_TOKENS,
    "experts": _NO_MIXTURE,
    "gate_mode": _NO_MIXTURE,
    "experts_per_token": _NO_MIXTURE,
    "lora": "is not read: merge the adapter into its model first, and name that model",
    "lora_merge_dtype": "is not read: merge the adapter into its model first, and name that model",
    "override_architecture": "is not needed: names of tensors come from the files",
    "residual_weight": "is not read: give the sources parameters with a weight each",
    "int8_mask": "is not needed: masks are never kept in memory",
    "rescale_norm": "is not read: rescale is one of inverse, l1 and none",
    "nuslerp_row_wise": "is not read: granularity is tensor or row",
    "nuslerp_flatten": "is not read: granularity is tensor or row",
    "filter_wise": "is not read: granularity is tensor or row",
    "weights": "is called weight in a recipe, one for each model",
    "random_seed": "is no part of a recipe: seed stands beside it",
    "seed": "is no part of a recipe: it stands beside it",
    "out_shard_size": "is no part of a recipe: max_shard_size stands beside it",
    "on_mismatch": "is no part of a recipe: it stands beside it",
    "layer_pattern": "is no part of a recipe: it stands beside it",
    "max_shard_size": "is no part of a recipe: it stands beside it",
}


def check_recipe(document: Any) -> tuple[dict[str, Any], list[ParamError]]:
    """The document with its names trimmed, and everything wrong with it."""
    if not isinstance(document, Mapping):
        message = f"recipe is an object, or the text of one in mergekit's YAML, not {shown(document)}"
        return {}, [ParamError(FIELD, "not_an_object", message)]
    found = _Check(document)
    found.run()
    errors = found.errors[:MAX_ERRORS]
    if more := len(found.errors) - len(errors):
        errors.append(ParamError(FIELD, "more_errors", f"and {more} more"))
    if errors:
        return dict(document), errors
    trimmed = {name: name.strip() for name in _names(document)}
    return renamed(document, trimmed), []


def _names(document: Mapping[str, Any]) -> Iterable[str]:
    entries = [*document.get("models", ()), *(s for each in document.get("slices", ()) for s in each["sources"])]
    singly = [document[key] for key in ("base_model", "tokenizer_source") if key in document]
    return [entry["model"] for entry in entries] + singly


class _Check:
    """One look at a document; ``errors`` grow as it goes on."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.errors: list[ParamError] = []
        self._document = document
        method = document.get("merge_method")
        self._strategy = STRATEGIES.get(method) if isinstance(method, str) else None
        self._base: str | None = None

    def run(self) -> None:
        """Look at all of it."""
        self._keys("", self._document, TOP)
        if self._strategy is None:
            self._no_strategy()
        for key in ("dtype", "out_dtype"):
            value = self._document.get(key)
            if value is not None and value not in DTYPES:
                message = f"must be one of {', '.join(DTYPES)}, not {shown(value)}"
                self._refuse(key, "unknown_dtype", message, list(DTYPES))
        self._read_base()
        self._read_tokenizer()
        self._parameters("", self._document, of_model=False)
        if ("models" in self._document) == ("slices" in self._document):
            self._refuse("", "required", "give either models (whole ones) or slices (ranges of their layers)")
        elif "models" in self._document:
            self._models("models", self._document["models"], sliced=False)
        else:
            self._slices(self._document["slices"])
        if not self.errors:
            self._together()

    def _no_strategy(self) -> None:
        known = list(STRATEGIES)
        if "merge_method" not in self._document:
            self._refuse("merge_method", "required", f"is needed: one of {', '.join(known)}", known)
            return
        given = self._document["merge_method"]
        message = f"there is no merge strategy {shown(given)}{nearest(str(given), known)}; one of {', '.join(known)}"
        self._refuse("merge_method", "unknown_strategy", message, known)

    def _read_base(self) -> None:
        given = self._document.get("base_model")
        if "base_model" not in self._document:
            if self._strategy and self._strategy.base == "required":
                message = "is needed: the id or name of the model that the others were tuned from"
                self._refuse("base_model", "required", f"{message} ({self._strategy.name} merges upon it)")
        elif self._is_name("base_model", given):
            self._base = str(given).strip()

    def _read_tokenizer(self) -> None:
        if "tokenizer_source" not in self._document:
            return
        names = [name for _, name, _ in recipe_references(self._document)]
        found = source_fault(self._document["tokenizer_source"], names, based=self._base is not None)
        if found is not None:
            self._refuse("tokenizer_source", *found)

    def _slices(self, given: Any) -> None:
        if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MAX_SLICES:
            message = f"is a list of 1 to {MAX_SLICES} slices, each with its sources"
            self._refuse("slices", "wrong_count", message, [1, MAX_SLICES])
            return
        for i, each in enumerate(given):
            path = f"slices[{i}]"
            if not isinstance(each, Mapping):
                self._refuse(path, "not_an_object", f"is an object with sources, not {shown(each)}")
                continue
            if "base_model" in each:
                self._refuse(f"{path}.base_model", "unknown_field", "is the same for all slices: it stands at the top")
            self._keys(path, each, ("sources", "parameters", "base_model"))
            self._parameters(path, each, of_model=False)
            self._models(f"{path}.sources", each.get("sources"), sliced=True)

    def _models(self, path: str, given: Any, *, sliced: bool) -> None:
        """The models of a slice, or whole ones."""
        if not isinstance(given, (list, tuple)) or not 1 <= len(given) <= MAX_MODELS + 1:
            message = f"is a list of 1 to {MAX_MODELS} models" + (", each with its layer_range" if sliced else "")
            self._refuse(path, "wrong_count", message, [1, MAX_MODELS])
            return
        before = len(self.errors)
        for i, entry in enumerate(given):
            self._model(f"{path}[{i}]", entry, sliced=sliced)
        if len(self.errors) == before:
            self._among_each_other(path, given, sliced=sliced)

    def _model(self, path: str, entry: Any, *, sliced: bool) -> None:
        if not isinstance(entry, Mapping):
            self._refuse(path, "not_an_object", f"is an object that names a model, not {shown(entry)}")
            return
        self._keys(path, entry, ("model", "parameters", *(("layer_range",) if sliced else ())))
        self._is_name(f"{path}.model", entry.get("model"))
        self._parameters(path, entry, of_model=True)
        if sliced:
            self._range(f"{path}.layer_range", entry.get("layer_range"))

    def _range(self, path: str, given: Any) -> None:
        whole = isinstance(given, (list, tuple)) and [each for each in given if type(each) is int]
        if not whole or len(whole) != 2 or len(given) != 2 or not 0 <= given[0] < given[1]:
            message = f"is [first, end], whole numbers from 0 on, without the layer end itself, not {shown(given)}"
            self._refuse(path, "not_a_range", message)

    def _among_each_other(self, path: str, entries: Sequence[Mapping[str, Any]], *, sliced: bool) -> None:
        """What is wrong between the models of a slice that are right each on its own."""
        names = [entry["model"].strip() for entry in entries]
        for i, name in enumerate(names):
            if name in names[:i]:
                first = f"{path}[{names.index(name)}]"
                counted = f"{shown(name)} is {first} already, so it would be counted twice: leave one of them out"
                self._refuse(f"{path}[{i}].model", "counted_twice", counted)
        if sliced:
            self._same_length(path, entries)
        if self._strategy is None:
            return
        upon = self._base if self._strategy.base != "none" else None
        if upon in names and (entries[names.index(upon)].get("parameters") or {}):
            message = "are of the base, which is merged upon and not merged: leave them out"
            self._refuse(f"{path}[{names.index(upon)}].parameters", "unknown_field", message)
        low, high, count = self._strategy.min_models, self._strategy.max_models, len(names) - (upon in names)
        if not low <= count <= high:
            several = str(low) if low == high else f"{low} to {high}"
            beside = " beside base_model" if self._strategy.base == "required" else ""
            what = f"{self._strategy.name} merges {several} models{beside}, not {count}"
            self._refuse(path, "wrong_count", what, [low, high])
        if self._strategy.name == "slerp" and self._base is not None and self._base not in names:
            message = f"has none of base_model, {shown(self._base)}, where t is 0: name it among them"
            self._refuse(path, "base_not_among_models", message)

    def _same_length(self, path: str, entries: Sequence[Mapping[str, Any]]) -> None:
        ranges = [entry["layer_range"] for entry in entries]
        for i, (first, end) in enumerate(ranges):
            length = ranges[0][1] - ranges[0][0]
            if end - first != length:
                message = f"has {end - first} layers and that of {path}[0] {length}: give all the same number"
                self._refuse(f"{path}[{i}].layer_range", "unequal_ranges", message, length)
        upon = self._strategy is not None and self._strategy.base != "none" and self._base is not None
        listed = self._base in [entry["model"].strip() for entry in entries]
        if upon and not listed and len({tuple(each) for each in ranges}) > 1:
            message = "are different layers, so those of the base are not known: name base_model among the sources"
            self._refuse(path, "base_not_among_models", message)

    def _together(self) -> None:
        """What is wrong between right parts of the document."""
        document, strategy = self._document, self._strategy
        if strategy is not None and strategy.base == "none" and self._base is not None:
            names = {name for _, name, _ in recipe_references(document)}
            if self._base not in names:
                message = (
                    f"is none of the models, and {strategy.name} merges upon no base: name one of them, whose small "
                    "files are carried over, or leave it out"
                )
                self._refuse("base_model", "base_not_among_models", message)
                return
        trimmed = renamed(document, {name: name.strip() for name in _names(document)})
        for each in recipe_of({"recipe": trimmed}).slices:
            for rule in rules_of(STRATEGIES[trimmed["merge_method"]]):
                chains = each.each.get(rule.name, (each.whole.get(rule.name, ()),))
                for source, chain in zip(each.sources, chains, strict=False):
                    if rule.default is None and rule.name != "normalize" and not chain:
                        self._refuse(f"{source.path}.parameters.{in_recipe(rule)}", "required", _needed(rule))

    def _parameters(self, path: str, owner: Mapping[str, Any], *, of_model: bool) -> None:
        given = owner.get("parameters")
        path = f"{path}.parameters" if path else "parameters"
        if given is None:
            return
        if not isinstance(given, Mapping):
            self._refuse(path, "not_an_object", f"is an object of names and values, not {shown(given)}")
            return
        rules = {in_recipe(rule): rule for rule in self._rules()}
        self._keys(path, given, list(rules))
        for name, setting in given.items():
            rule = rules.get(name) if isinstance(name, str) else None
            if rule is None:
                continue
            if of_model and not rule.each and rule.name != "scale":
                message = "is of the whole merge, not of one model: it stands in parameters of the recipe or of a slice"
                self._refuse(f"{path}.{name}", "unknown_field", message)
                continue
            if rule.name == "rescale" and isinstance(setting, bool):
                continue
            for where, what in islice(rule.faults(setting, called=name, alone=True), MAX_TOLD):
                self._refuse(f"{path}.{name}{where}", rule.code, what, rule.limit)

    def _rules(self) -> list[Rule]:
        return rules_of(self._strategy) if self._strategy else list(RULES.values())

    def _keys(self, path: str, owner: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in owner:
            if key in known:
                continue
            name = str(key)[:80]
            place = f"{path}.{name}" if path else name
            message = ELSEWHERE.get(name) or f"is not read{nearest(name, list(known))}; there is {', '.join(known)}"
            self._refuse(place, "unknown_field", message, list(known))

    def _is_name(self, path: str, given: Any) -> bool:
        if isinstance(given, str) and given.strip():
            return True
        if isinstance(given, Mapping):
            message = "is the id or name of an artifact; revisions, adapters and other parts of a reference aren't read"
        else:
            message = f"is needed: the id or name of an artifact, not {shown(given)}"
        self._refuse(path, "not_a_name", message)
        return False

    def _refuse(self, path: str, code: str, message: str, limit: Any = None) -> None:
        field = f"{FIELD}.{path}" if path else FIELD
        self.errors.append(ParamError(field, code, f"{path}: {message}" if path else message, limit))


def _needed(rule: Rule) -> str:
    return f"is needed: {rule.about}; give it here, or in parameters of the slice or the recipe for all models"
