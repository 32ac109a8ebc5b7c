"""The parameters of a merge, checked with every reason at once. Standard library only.

Form, REST, the job and the engine all ask here, so all refuse alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from workers.merge_strategies import GRANULARITIES, MAX_MODELS, RESCALES, STRATEGIES, Strategy
from workers.param_errors import ParamError, nearest, unknown
from workers.said_back import shown

MIN_SHARD_BYTES = 1_000_000
DTYPES = ("float64", "float32", "float16", "bfloat16")
MERGE_COMMON = ("strategy", "models", "dtype", "out_dtype", "max_shard_size", "seed")
BASE_INPUT = "base-model"

Checked = tuple[dict[str, Any], list[ParamError]]


def check_merge(params: Mapping[str, Any]) -> Checked:
    """The merge parameters with their defaults, and everything wrong with them (empty when they can run)."""
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
    output, wrong = _output(params)
    return clean | output, errors + wrong


def merge_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Every artifact a merge names: ``(field, reference, name under EMEP_INPUT_DIR)``, the base after the models."""
    models, base = params.get("models"), params.get("base_model")
    listed = models[:MAX_MODELS] if isinstance(models, (list, tuple)) else []
    found = [(f"params.models.{i}", str(m), f"model-{i}") for i, m in enumerate(listed)]
    return found if base is None else [*found, ("params.base_model", str(base), BASE_INPUT)]


def check_strategy(strategy: Strategy, params: Mapping[str, Any], models: int) -> Checked:
    """The strategy's own parameters for so many models, with their defaults, and everything wrong with them.

    What is given once for all models comes out as a list of one a model. ``base_model`` is not looked at: a strategy
    has one or not, whatever it is called.
    """
    clean: dict[str, Any] = {}
    errors: list[ParamError] = []
    for name in strategy.own:
        if name in _CHECKS:
            value, wrong = _CHECKS[name](params, models, strategy)
            clean[name] = value
            errors += wrong
    wrong_names = {error.field.removeprefix("params.") for error in errors}
    right = {name: value for name, value in clean.items() if name not in wrong_names}
    return clean, [*errors, *_together(right, strategy)]


def as_number(value: Any) -> float | None:
    """``value`` as a finite float; None for anything else (a bool is not a number)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:  # a whole number beyond any float
        return None
    return found if math.isfinite(found) else None


def exactly(value: float) -> Fraction:
    """The decimal number that was written, so that 0.29 of 100 is 29 and 0.9 + 0.1 is 1."""
    return Fraction(repr(value))


def slerp_t(weights: list[float]) -> float:
    """Where nuslerp lies between its two models: the second weight's share, half if the weights sum to 0."""
    total = math.fsum(weights)
    return weights[1] / total if total else 0.5


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
        message = f"models must be a list of {_range(low, high)} artifact ids or names"
        return [], [ParamError("params.models", "required", message, [low, high])]
    wrong = model_count_error(strategy, len(given)) if strategy else None
    return [m.strip() for m in given], [wrong] if wrong else []


def model_count_error(strategy: Strategy, count: int) -> ParamError | None:
    """What is wrong with merging so many models, the base not counted."""
    low, high = strategy.min_models, strategy.max_models
    if low <= count <= high:
        return None
    beside = " beside base_model" if strategy.base == "required" else ""
    message = f"{strategy.name} merges {_range(low, high)} models{beside}, not {count}"
    return ParamError("params.models", "wrong_count", message, [low, high])


def base_error(strategy: Strategy, *, given: bool) -> ParamError | None:
    """What is wrong with merging with a base, or without one."""
    if given and strategy.base == "none":
        return ParamError("params.base_model", "unknown_field", f"{strategy.name} takes no base_model: leave it out")
    if not given and strategy.base == "required":
        message = f"{strategy.name} needs base_model: the id or name of the model that the others were tuned from"
        return ParamError("params.base_model", "required", message)
    return None


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


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


def _t(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[float | None, list[ParamError]]:
    given = params.get("t", 0.5)
    t = as_number(given)
    if t is not None and 0.0 <= t <= 1.0:
        return t, []
    message = f"t must be a number from 0 (the first model) to 1 (the second), not {shown(given)}"
    return t, [ParamError("params.t", "out_of_range", message, [0, 1])]


def _weights(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[Any, list[ParamError]]:
    given = params.get("weights", [1.0] * models)
    numbers = [as_number(w) for w in given] if isinstance(given, (list, tuple)) else [None]
    if None in numbers:
        return numbers, [ParamError("params.weights", "not_a_number", "weights must be a list of finite numbers")]
    return numbers, _one_a_model("weights", "weight", len(numbers), models)


def _one_a_model(name: str, one: str, count: int, models: int) -> list[ParamError]:
    if not models or count == models:
        return []
    message = f"{name}: {count}, models: {models}; give one {one} a model"
    return [ParamError(f"params.{name}", "wrong_count", message, models)]


def _normalize(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[Any, list[ParamError]]:
    value = params.get("normalize", strategy.normalize)
    wrong = ParamError("params.normalize", "not_a_boolean", "normalize must be true or false")
    return value, [] if isinstance(value, bool) else [wrong]


def _lambda(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[float | None, list[ParamError]]:
    given = params.get("lambda", 1.0)
    value = as_number(given)
    message = f"lambda must be a finite number (1 by default), not {shown(given)}"
    return value, [] if value is not None else [ParamError("params.lambda", "not_a_number", message)]


def _density(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[Any, list[ParamError]]:
    about = "the share of each model's changes that is kept, above 0 and at most 1"
    return _per_model("density", params.get("density"), models, about=about, above=True)


def _epsilon(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[Any, list[ParamError]]:
    about = "how far the chance to be kept goes below and above density, from 0 to 1"
    return _per_model("epsilon", params.get("epsilon"), models, about=about)


def _gamma(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[Any, list[ParamError]]:
    about = "the share of the largest changes that is dropped, from 0 to 1"
    return _per_model("gamma", params.get("gamma", 0.01), models, about=about)


def _per_model(name: str, given: Any, models: int, *, about: str, above: bool = False) -> tuple[Any, list[ParamError]]:
    """Numbers from 0 to 1, one a model or one for all; ``above``: 0 itself is none."""
    if given is None:
        return [], [ParamError(f"params.{name}", "required", f"{name} is needed: {about}", [0, 1])]
    values = list(given) if isinstance(given, (list, tuple)) else [given] * max(models, 1)
    numbers = [as_number(v) for v in values]
    for value, number in zip(values, numbers, strict=True):
        if number is None or not 0.0 <= number <= 1.0 or (above and number == 0.0):
            message = f"{name} is {about}: one number, or a list of one a model; {shown(value)} is not"
            return numbers, [ParamError(f"params.{name}", "out_of_range", message, [0, 1])]
    return numbers, _one_a_model(name, "number", len(numbers), models)


def _rescale(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[Any, list[ParamError]]:
    return _word("rescale", params.get("rescale", RESCALES[0]), RESCALES)


def _granularity(params: Mapping[str, Any], models: int, strategy: Strategy) -> tuple[Any, list[ParamError]]:
    return _word("granularity", params.get("granularity", GRANULARITIES[0]), GRANULARITIES)


def _word(name: str, value: Any, known: tuple[str, ...]) -> tuple[Any, list[ParamError]]:
    if isinstance(value, str) and value in known:
        return value, []
    message = f"{name} must be one of {', '.join(known)}, not {shown(value)}"
    return value, [ParamError(f"params.{name}", "unknown_word", message, list(known))]


_CHECKS = {
    "t": _t, "weights": _weights, "normalize": _normalize, "lambda": _lambda, "density": _density,
    "epsilon": _epsilon, "gamma": _gamma, "rescale": _rescale, "granularity": _granularity,
}  # fmt: skip


def _together(right: Mapping[str, Any], strategy: Strategy) -> list[ParamError]:
    """What is wrong between parameters that are ``right`` each on its own."""
    found = [_zero_sum(right, strategy), _outside(right, strategy), _chance(right)]
    return [error for error in found if error is not None]


def _zero_sum(right: Mapping[str, Any], strategy: Strategy) -> ParamError | None:
    weights = right.get("weights")
    if not (weights and strategy.by_sum and right.get("normalize")):
        return None
    total = math.fsum(weights)
    if total != 0.0 and all(math.isfinite(w / total) for w in weights):
        return None
    message = f"the weights sum to {total:g}, so they can't be normalised: change one or set normalize to false"
    return ParamError("params.weights", "zero_sum", message)


def _outside(right: Mapping[str, Any], strategy: Strategy) -> ParamError | None:
    weights = right.get("weights", [])
    if strategy.name != "nuslerp" or len(weights) != 2 or 0.0 <= slerp_t(weights) <= 1.0:
        return None
    message = f"nuslerp lies between its two models, so its weights must have one sign, not {shown(weights)}"
    return ParamError("params.weights", "out_of_range", message)


def _chance(right: Mapping[str, Any]) -> ParamError | None:
    for density, epsilon in zip(right.get("density", []), right.get("epsilon", []), strict=False):
        low, high = exactly(density) - exactly(epsilon), exactly(density) + exactly(epsilon)
        if low <= 0 or high >= 1:
            message = (
                f"density - epsilon and density + epsilon must lie above 0 and below 1, not at {float(low):g} and "
                f"{float(high):g}: make epsilon smaller"
            )
            return ParamError("params.epsilon", "out_of_range", message, [0, 1])
    return None


def _output(params: Mapping[str, Any]) -> Checked:
    """How the result is computed and stored: dtypes, shard size, seed."""
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
        clean["max_shard_size"] = shard
        if isinstance(shard, bool) or not isinstance(shard, int) or shard < MIN_SHARD_BYTES:
            message = f"max_shard_size is a whole number of bytes, at least {MIN_SHARD_BYTES}"
            errors.append(ParamError("params.max_shard_size", "out_of_range", message, MIN_SHARD_BYTES))
    seed = params.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        errors.append(ParamError("params.seed", "out_of_range", "seed must be a whole number from 0 to 2^63 - 1"))
    clean["seed"] = seed
    return clean, errors
