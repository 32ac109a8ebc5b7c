"""The kinds of job and their parameters: what may be asked, checked in one place. Standard library only.

Form, REST and the job itself read this file, so all three refuse alike. A new kind is one :class:`Kind` in
``KINDS``; a new merge strategy is one :class:`Strategy` in ``STRATEGIES``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workers.command_params import check_command, command_references
from workers.param_errors import ParamError as ParamError
from workers.param_errors import nearest as nearest
from workers.param_errors import unknown
from workers.said_back import shown

MAX_MODELS = 32
MIN_SHARD_BYTES = 1_000_000
DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Strategy:
    """A merge strategy: its formula in words, how many models it takes, and its own parameters."""

    name: str
    summary: str
    min_models: int
    max_models: int
    own: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job: its default queue, what a user sees, and ``check(params) -> (clean params, errors)``.

    ``takes`` are the kinds of artifact it reads; empty for any. ``over_nodes``: whether it may lie on several nodes.
    """

    name: str
    title: str
    queue: str
    check: Callable[[Mapping[str, Any]], tuple[dict[str, Any], list[ParamError]]]
    references: Callable[[Mapping[str, Any]], list[tuple[str, str, str]]]
    takes: tuple[str, ...] = ()
    over_nodes: bool = False


STRATEGIES: dict[str, Strategy] = {
    "slerp": Strategy("slerp", "spherical interpolation of two models, t = 0 is the first", 2, 2, ("t",)),
    "linear": Strategy("linear", "weighted mean of the models", 2, MAX_MODELS, ("weights", "normalize")),
}
MERGE_COMMON = ("strategy", "models", "dtype", "out_dtype", "max_shard_size", "seed")


def _number(value: Any) -> float | None:
    """``value`` as a finite float; None for anything else (a bool is not a number)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:  # a whole number beyond any float
        return None
    return found if math.isfinite(found) else None


def check_merge(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    """The merge parameters with their defaults, and everything wrong with them (empty when they can run)."""
    clean: dict[str, Any] = {}
    errors: list[ParamError] = []
    name = params.get("strategy", "slerp")
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        message = f"there is no merge strategy {shown(name)}{nearest(str(name), list(STRATEGIES))}"
        errors.append(
            ParamError(
                "params.strategy",
                "unknown_strategy",
                f"{message}; choose one of {', '.join(STRATEGIES)}",
                list(STRATEGIES),
            )
        )
    else:
        clean["strategy"] = strategy.name
    errors += _unknown(params, strategy)
    clean["models"], wrong = _models(params.get("models"), strategy)
    errors += wrong
    if strategy and "t" in strategy.own:
        clean["t"], wrong = _t(params.get("t", 0.5))
        errors += wrong
    if strategy and "weights" in strategy.own:
        weighting, wrong = _weights(params, len(clean["models"]))
        clean |= weighting
        errors += wrong
    output, wrong = _output(params)
    return clean | output, errors + wrong


def _unknown(params: Mapping[str, Any], strategy: Strategy | None) -> list[ParamError]:
    own = strategy.own if strategy else tuple({o for s in STRATEGIES.values() for o in s.own})
    return unknown(params, [*MERGE_COMMON, *own], strategy.name if strategy else "merge")


def _models(given: Any, strategy: Strategy | None) -> tuple[list[str], list[ParamError]]:
    low, high = (strategy.min_models, strategy.max_models) if strategy else (2, MAX_MODELS)
    wanted = str(low) if low == high else f"{low} to {high}"
    if not isinstance(given, (list, tuple)) or not all(isinstance(m, str) and m.strip() for m in given):
        message = f"models must be a list of {wanted} artifact ids or names"
        return [], [ParamError("params.models", "required", message, [low, high])]
    errors = []
    if strategy and not low <= len(given) <= high:
        message = f"{strategy.name} merges {wanted} models, not {len(given)}"
        errors.append(ParamError("params.models", "wrong_count", message, [low, high]))
    return [m.strip() for m in given], errors


def _t(given: Any) -> tuple[float | None, list[ParamError]]:
    t = _number(given)
    if t is not None and 0.0 <= t <= 1.0:
        return t, []
    message = f"t must be a number from 0 (the first model) to 1 (the second), not {shown(given)}"
    return t, [ParamError("params.t", "out_of_range", message, [0, 1])]


def _weights(params: Mapping[str, Any], models: int) -> tuple[dict[str, Any], list[ParamError]]:
    errors = []
    given = params.get("weights", [1.0] * models)
    numbers = [_number(w) for w in given] if isinstance(given, (list, tuple)) else [None]
    whole = [w for w in numbers if w is not None]
    if len(whole) != len(numbers):
        errors.append(ParamError("params.weights", "not_a_number", "weights must be a list of finite numbers"))
    elif models and len(numbers) != models:
        message = f"weights: {len(numbers)}, models: {models}; give one weight a model"
        errors.append(ParamError("params.weights", "wrong_count", message, models))
    normalize = params.get("normalize", True)
    if not isinstance(normalize, bool):
        errors.append(ParamError("params.normalize", "not_a_boolean", "normalize must be true or false"))
    elif normalize and numbers and len(whole) == len(numbers) and math.fsum(whole) == 0.0:
        message = "the weights sum to 0, so they can't be normalised: change one or set normalize to false"
        errors.append(ParamError("params.weights", "zero_sum", message))
    return {"weights": numbers, "normalize": normalize}, errors


def _output(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
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


def merge_references(params: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Every artifact a merge names: ``(field, reference, name under EMEP_INPUT_DIR)``."""
    models = params.get("models")
    if not isinstance(models, (list, tuple)):
        return []
    return [(f"params.models.{i}", str(m), f"model-{i}") for i, m in enumerate(models[:MAX_MODELS])]


KINDS: dict[str, Kind] = {
    "merge": Kind("merge", "Merge models", "merge", check_merge, merge_references, takes=("model",)),
    "command": Kind("command", "Run a program", "merge", check_command, command_references, over_nodes=True),
}


def check_params(kind: str, params: Any) -> tuple[dict[str, Any], list[ParamError]]:
    """The clean parameters of ``kind`` and everything wrong with them; ``kind`` must be one of ``KINDS``."""
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        return {}, [ParamError("params", "not_an_object", "params must be an object")]
    return KINDS[kind].check(params)
