"""The kinds of job and their parameters: what may be asked, checked in one place. Standard library only.

Form, REST and the job itself read this file, so all three refuse alike. A new kind is one :class:`Kind` in
``KINDS``; a new merge strategy is one :class:`Strategy` in ``STRATEGIES``.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_MODELS = 32
DTYPES = ("float64", "float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class ParamError:
    """One thing wrong with ``params``: ``field`` is the full path (``params.t``), ``limit`` what would be accepted."""

    field: str
    code: str
    message: str
    limit: Any = None


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
    """A kind of job: its default queue, what a user sees, and ``check(params) -> (clean params, errors)``."""

    name: str
    title: str
    queue: str
    check: Callable[[Mapping[str, Any]], tuple[dict[str, Any], list[ParamError]]]
    references: Callable[[Mapping[str, Any]], list[tuple[str, str, str]]]


STRATEGIES: dict[str, Strategy] = {
    "slerp": Strategy("slerp", "spherical interpolation of two models, t = 0 is the first", 2, 2, ("t",)),
    "linear": Strategy("linear", "weighted mean of the models", 2, MAX_MODELS, ("weights", "normalize")),
}
MERGE_COMMON = ("strategy", "models", "dtype", "out_dtype", "max_shard_size", "seed")


def nearest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """`` (did you mean 'x'?)`` for the nearest of ``known``, or nothing."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _number(value: Any) -> float | None:
    """``value`` as a finite float; None for anything else (a bool is not a number)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def check_merge(params: Mapping[str, Any]) -> tuple[dict[str, Any], list[ParamError]]:
    """The merge parameters with their defaults, and everything wrong with them (empty when they can run)."""
    errors: list[ParamError] = []
    clean: dict[str, Any] = {}

    name = params.get("strategy", "slerp")
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        errors.append(
            ParamError(
                "params.strategy", "unknown_strategy",
                f"there is no merge strategy {str(name)[:80]!r}{nearest(str(name), list(STRATEGIES))};"
                f" choose one of {', '.join(STRATEGIES)}",
                list(STRATEGIES),
            )
        )  # fmt: skip
    else:
        clean["strategy"] = strategy.name
    own = strategy.own if strategy else tuple({o for s in STRATEGIES.values() for o in s.own})
    for key in params:
        if key not in MERGE_COMMON and key not in own:
            known = [*MERGE_COMMON, *own]
            errors.append(
                ParamError(f"params.{key[:80]}", "unknown_field",
                           f"a {name if strategy else 'merge'} job has no parameter {key[:80]!r}{nearest(key, known)}",
                           known)
            )  # fmt: skip

    models = params.get("models")
    if not isinstance(models, (list, tuple)) or not all(isinstance(m, str) and m.strip() for m in models):
        errors.append(ParamError("params.models", "required", "models must be a list of artifact ids or names"))
        models = []
    elif strategy and not strategy.min_models <= len(models) <= strategy.max_models:
        wanted = str(strategy.min_models) if strategy.min_models == strategy.max_models else (
            f"{strategy.min_models} to {strategy.max_models}")  # fmt: skip
        errors.append(
            ParamError("params.models", "wrong_count",
                       f"{strategy.name} merges {wanted} models, not {len(models)}",
                       [strategy.min_models, strategy.max_models])
        )  # fmt: skip
    clean["models"] = [m.strip() for m in models]

    if strategy and "t" in strategy.own:
        t = _number(params.get("t", 0.5))
        if t is None or not 0.0 <= t <= 1.0:
            errors.append(
                ParamError("params.t", "out_of_range",
                           f"t must be a number from 0 (the first model) to 1 (the second), not {params.get('t')!r:.80}",
                           [0, 1])
            )  # fmt: skip
        clean["t"] = t
    if strategy and "weights" in strategy.own:
        weights = params.get("weights", [1.0] * len(models))
        numbers = [_number(w) for w in weights] if isinstance(weights, (list, tuple)) else [None]
        if any(w is None for w in numbers):
            errors.append(ParamError("params.weights", "not_a_number", "weights must be a list of finite numbers"))
        elif models and len(numbers) != len(models):
            errors.append(
                ParamError("params.weights", "wrong_count",
                           f"{len(numbers)} weights for {len(models)} models: give one weight a model", len(models))
            )  # fmt: skip
        clean["weights"] = numbers
        normalize = params.get("normalize", True)
        if not isinstance(normalize, bool):
            errors.append(ParamError("params.normalize", "not_a_boolean", "normalize must be true or false"))
        elif normalize and all(w is not None for w in numbers) and math.fsum(w or 0.0 for w in numbers) == 0.0:
            errors.append(
                ParamError("params.weights", "zero_sum",
                           "the weights sum to 0, so they can't be normalised: change one or set normalize to false")
            )  # fmt: skip
        clean["normalize"] = normalize

    for key in ("dtype", "out_dtype"):
        value = params.get(key)
        if value is not None and value not in DTYPES:
            errors.append(
                ParamError(f"params.{key}", "unknown_dtype",
                           f"{key} must be one of {', '.join(DTYPES)}, not {str(value)[:80]!r}", list(DTYPES))
            )  # fmt: skip
        if value is not None:
            clean[key] = value
    shard = params.get("max_shard_size")
    if shard is not None:
        if isinstance(shard, bool) or not isinstance(shard, int) or shard < 1_000_000:
            errors.append(
                ParamError("params.max_shard_size", "out_of_range",
                           "max_shard_size is a whole number of bytes, at least 1000000", 1_000_000)
            )  # fmt: skip
        clean["max_shard_size"] = shard
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
    "merge": Kind("merge", "Merge models", "merge", check_merge, merge_references),
}


def check_params(kind: str, params: Any) -> tuple[dict[str, Any], list[ParamError]]:
    """The clean parameters of ``kind`` and everything wrong with them; ``kind`` must be one of ``KINDS``."""
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        return {}, [ParamError("params", "not_an_object", "params must be an object")]
    return KINDS[kind].check(params)
