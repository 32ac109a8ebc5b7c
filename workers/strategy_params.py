"""The parameters that a merge strategy has of its own: checked with every reason at once. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from workers.merge_settings import is_filters, varies
from workers.merge_strategies import MAX_MODELS, Strategy
from workers.merge_values import RULES, Rule, exactly, in_floats
from workers.param_errors import ParamError
from workers.said_back import shown

MAX_TOLD = 5

Checked = tuple[dict[str, Any], list[ParamError]]


def check_strategy(strategy: Strategy, params: Mapping[str, Any], models: int) -> Checked:
    """The strategy's own parameters for so many models, with their defaults, and everything wrong with them.

    What is given once for all models comes out as a list of one a model. ``base_model`` is not looked at: a strategy
    has one or not, whatever it is called.
    """
    clean: dict[str, Any] = {}
    errors: list[ParamError] = []
    for rule in (RULES[name] for name in strategy.own if name in RULES):
        given = params.get(rule.name, rule.value_unless_given(strategy))
        clean[rule.name], wrong = _for_each(rule, given, models) if rule.each else _for_all(rule, given)
        errors += wrong
    wrong_names = {error.field.removeprefix("params.") for error in errors}
    right = {name: value for name, value in clean.items() if name not in wrong_names}
    return clean, [*errors, *_together(right, strategy)]


def _for_all(rule: Rule, given: Any) -> tuple[Any, list[ParamError]]:
    errors = _told(rule, rule.name, given)
    return given if errors else in_floats(given), errors


def _for_each(rule: Rule, given: Any, models: int) -> tuple[Any, list[ParamError]]:
    """One setting a model; what is no list, or one of filters, is for all of them."""
    if given is None:
        message = f"{rule.name} is needed: {rule.about}"
        return [], [ParamError(f"params.{rule.name}", "required", message, rule.limit)]
    listed = varies(given) and not is_filters(given)
    settings = list(given) if listed else [given] * max(models, 1)
    if listed and models and len(settings) != models:
        message = f"{rule.name}: {len(settings)}, models: {models}; give one {rule.one} a model"
        return settings, [ParamError(f"params.{rule.name}", "wrong_count", message, models)]
    places = [f"{rule.name}[{i}]" for i in range(len(settings))] if listed else [rule.name]
    errors = [
        each
        for place, setting in zip(places[:MAX_MODELS], settings, strict=False)
        for each in _told(rule, place, setting)
    ]
    return (settings if errors else [in_floats(setting) for setting in settings]), errors


def _told(rule: Rule, place: str, setting: Any) -> list[ParamError]:
    """What is wrong with a setting, the first few of it: of one that varies with where in it."""
    return [
        ParamError(f"params.{rule.name}", rule.code, f"{place}{where}: {what}" if varies(setting) else what, rule.limit)
        for where, what in islice(rule.faults(setting), MAX_TOLD)
    ]


def slerp_t(weights: list[float]) -> float:
    """Where nuslerp lies between its two models: the second weight's share, half if the weights sum to 0."""
    total = math.fsum(weights)
    return weights[1] / total if total else 0.5


def model_count_error(strategy: Strategy, count: int) -> ParamError | None:
    """What is wrong with merging so many models, the base not counted."""
    low, high = strategy.min_models, strategy.max_models
    if low <= count <= high:
        return None
    beside = " beside base_model" if strategy.base == "required" else ""
    message = f"{strategy.name} merges {range_in_words(low, high)} models{beside}, not {count}"
    return ParamError("params.models", "wrong_count", message, [low, high])


def base_error(strategy: Strategy, *, given: bool) -> ParamError | None:
    """What is wrong with merging with a base, or without one."""
    if given and strategy.base == "none":
        return ParamError("params.base_model", "unknown_field", f"{strategy.name} takes no base_model: leave it out")
    if not given and strategy.base == "required":
        message = f"{strategy.name} needs base_model: the id or name of the model that the others were tuned from"
        return ParamError("params.base_model", "required", message)
    return None


def range_in_words(low: int, high: int) -> str:
    """``2`` or ``2 to 32``."""
    return str(low) if low == high else f"{low} to {high}"


def _together(right: Mapping[str, Any], strategy: Strategy) -> list[ParamError]:
    """What is wrong between parameters that are ``right`` each on its own; of those that vary each tensor tells."""
    right = {name: value for name, value in right.items() if not _varies(name, value)}
    found = [rule(right, strategy) for rule in (_zero_sum, _outside, _chance)]
    return [error for error in found if error is not None]


def _varies(name: str, value: Any) -> bool:
    return any(map(varies, value)) if RULES[name].each else varies(value)


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


def _chance(right: Mapping[str, Any], strategy: Strategy) -> ParamError | None:
    for density, epsilon in zip(right.get("density", []), right.get("epsilon", []), strict=False):
        low, high = exactly(density) - exactly(epsilon), exactly(density) + exactly(epsilon)
        if low <= 0 or high >= 1:
            message = (
                f"density - epsilon and density + epsilon must lie above 0 and below 1, not at {float(low):g} and "
                f"{float(high):g}: make epsilon smaller"
            )
            return ParamError("params.epsilon", "out_of_range", message, [0, 1])
    return None
