"""The parameters of a merge, checked with every reason at once. Standard library only.

Form, REST, the job and the engine all ask here, so all refuse alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.byte_sizes import whole_bytes
from workers.merge_layout import PATTERN, settled_faults
from workers.merge_mismatch import setting_errors
from workers.merge_recipe import BASE_INPUT, recipe_of, recipe_references
from workers.merge_strategies import MAX_MODELS, STRATEGIES, Strategy
from workers.model_layers import pattern_fault
from workers.param_errors import ParamError, nearest, unknown
from workers.recipe_check import DTYPES, check_recipe
from workers.said_back import shown
from workers.strategy_params import Checked, base_error, check_strategy, model_count_error, range_in_words
from workers.tokenizer_source import source_fault

MIN_SHARD_BYTES = 1_000_000
MERGE_COMMON = (
    "recipe", "strategy", "models", "dtype", "out_dtype", "max_shard_size", "seed", "tokenizer_source", "layer_pattern",
    "on_mismatch",
)  # fmt: skip
BESIDE_RECIPE = ("recipe", "max_shard_size", "seed", "layer_pattern", "on_mismatch")
# What says how to merge, and so excludes a recipe.
_OF_STRATEGIES = frozenset(
    {"strategy", "models", "dtype", "out_dtype", "tokenizer_source"}
    | {name for strategy in STRATEGIES.values() for name in strategy.own}
)


def check_merge(params: Mapping[str, Any]) -> Checked:
    """The merge parameters with their defaults, and everything wrong with them (empty when they can run)."""
    if params.get("recipe") is not None:
        return _by_recipe(params)
    name = params.get("strategy", "slerp")
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    clean: dict[str, Any] = {}
    errors = [] if strategy else [_no_strategy(name)]
    errors += _unknown(params, strategy)
    clean["models"], wrong = _models(params.get("models"), strategy)
    errors += wrong
    if strategy:
        base, wrong = _base_model(params.get("base_model"), strategy)
        own, wrong_own = check_strategy(strategy, params, len(clean["models"]))
        clean = {"strategy": strategy.name, **clean, **base, **own}
        errors += wrong + wrong_own
    source, wrong = _tokenizer_source(params, clean["models"])
    clean |= source
    errors += wrong
    output, wrong = _output(params)
    rule, faults = _on_mismatch(params, based="base_model" in clean)
    return clean | output | rule, [*errors, *wrong, *faults]


def merge_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Every artifact a merge names: ``(field, reference, name under EMEP_INPUT_DIR)``, the base after the models."""
    if params.get("recipe") is not None:
        return [(f"params.recipe.{path}", name, given) for path, name, given in recipe_references(params["recipe"])]
    models, base = params.get("models"), params.get("base_model")
    listed = models[:MAX_MODELS] if isinstance(models, (list, tuple)) else []
    found = [(f"params.models.{i}", str(m), f"model-{i}") for i, m in enumerate(listed)]
    return found if base is None else [*found, ("params.base_model", str(base), BASE_INPUT)]


def _by_recipe(params: Mapping[str, Any]) -> Checked:
    """Only what a recipe can't say stands beside it."""
    document, errors = check_recipe(params["recipe"])
    errors += [
        ParamError(f"params.{key}", "beside_recipe", f"{key} can't stand beside a recipe, which says it itself: leave "
                   "one of them out", list(BESIDE_RECIPE))
        for key, value in params.items()
        if value is not None and key in _OF_STRATEGIES
    ]  # fmt: skip
    rest = {key: value for key, value in params.items() if key not in _OF_STRATEGIES}
    errors += unknown(rest, list(BESIDE_RECIPE), "merge")
    output, wrong = _output(rest)
    rule, faults = _on_mismatch(rest, based=document.get("base_model") is not None)
    clean = {"recipe": document, **output, **rule}
    errors += [*wrong, *faults]
    return clean, errors or settled_faults(recipe_of(clean))


def _no_strategy(name: Any) -> ParamError:
    message = f"there is no merge strategy {shown(name)}{nearest(str(name), list(STRATEGIES))}"
    return ParamError(
        "params.strategy", "unknown_strategy", f"{message}; choose one of {', '.join(STRATEGIES)}", list(STRATEGIES)
    )


def _unknown(params: Mapping[str, Any], strategy: Strategy | None) -> list[ParamError]:
    own = strategy.own if strategy else tuple({o for s in STRATEGIES.values() for o in s.own})
    return unknown(params, [*MERGE_COMMON, *own], strategy.name if strategy else "merge")


def _models(given: Any, strategy: Strategy | None) -> tuple[list[str], list[ParamError]]:
    low, high = (strategy.min_models, strategy.max_models) if strategy else (1, MAX_MODELS)
    if not isinstance(given, (list, tuple)) or not all(isinstance(m, str) and m.strip() for m in given):
        message = f"models must be a list of {range_in_words(low, high)} artifact ids or names"
        return [], [ParamError("params.models", "required", message, [low, high])]
    wrong = model_count_error(strategy, len(given)) if strategy else None
    return [m.strip() for m in given], [wrong] if wrong else []


def _base_model(given: Any, strategy: Strategy) -> Checked:
    if strategy.base == "none":
        return {}, []  # told as unknown
    if given is None:
        wrong = base_error(strategy, given=False)
        return {}, [wrong] if wrong else []
    if isinstance(given, str) and given.strip():
        return {"base_model": given.strip()}, []
    message = f"base_model must be the id or name of one artifact, not {shown(given)}"
    return {}, [ParamError("params.base_model", "not_a_name", message)]


def _tokenizer_source(params: Mapping[str, Any], models: list[str]) -> Checked:
    given = params.get("tokenizer_source")
    if given is None:
        return {}, []
    base = params.get("base_model")
    bases = [base.strip()] if isinstance(base, str) and base.strip() else []
    found = source_fault(given, [*models, *bases], based=bool(bases))
    if found is None:
        return {"tokenizer_source": given.strip()}, []
    code, message = found
    return {"tokenizer_source": given}, [ParamError("params.tokenizer_source", code, f"tokenizer_source {message}")]


def _on_mismatch(params: Mapping[str, Any], *, based: bool) -> Checked:
    given = params.get("on_mismatch")
    return ({}, []) if given is None else ({"on_mismatch": given}, setting_errors(given, based=based))


def _output(params: Mapping[str, Any]) -> Checked:
    """How the result is computed and stored: dtypes, shard size, seed, and how its layers are found."""
    clean: dict[str, Any] = {}
    errors = []
    for key in ("dtype", "out_dtype"):
        value = params.get(key)
        if value is not None:
            clean[key] = value
            if value not in DTYPES:
                message = f"{key} must be one of {', '.join(DTYPES)}, not {shown(value)}"
                errors.append(ParamError(f"params.{key}", "unknown_dtype", message, list(DTYPES)))
    shard = params.get("max_shard_size")
    if shard is not None:
        size = whole_bytes(shard)
        clean["max_shard_size"] = shard if size is None else size
        if size is None or size < MIN_SHARD_BYTES:
            message = (
                f"max_shard_size is a number of bytes or a text like 5GB or 500MiB, at least {MIN_SHARD_BYTES} bytes, "
                f"not {shown(shard)}"
            )
            errors.append(ParamError("params.max_shard_size", "out_of_range", message, MIN_SHARD_BYTES))
    seed = params.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        errors.append(ParamError("params.seed", "out_of_range", "seed must be a whole number from 0 to 2^63 - 1"))
    clean["seed"] = seed
    pattern = params.get("layer_pattern")
    if pattern is not None:
        clean["layer_pattern"] = pattern
        if (found := pattern_fault(pattern)) is not None:
            errors.append(ParamError(PATTERN, found[0], f"layer_pattern {found[1]}"))
    return clean, errors
