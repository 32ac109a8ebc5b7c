"""How was a model made? In a few words, for a line of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workers.merge_strategies import STRATEGIES
from workers.merge_values import RULES

LONGEST = 60
ALWAYS = ("t",)  # what tells one merge from the next, whatever it is


def made_by(meta: Mapping[str, Any]) -> str:
    """``slerp, t = 0.5``; of a recipe its strategy, and "" for what no merge made."""
    recipe = meta.get("recipe")
    if not isinstance(recipe, Mapping):
        return ""
    document = recipe.get("recipe")
    if isinstance(document, Mapping):
        return f"{document.get('merge_method', '')}, by a recipe"
    strategy = recipe.get("strategy")
    return ", ".join([str(strategy), *_values(recipe)]) if strategy else ""


def _values(recipe: Mapping[str, Any]) -> Iterator[str]:
    strategy = STRATEGIES.get(str(recipe.get("strategy")))
    for name, rule in RULES.items():
        value, usual = recipe.get(name), rule.value_unless_given(strategy) if strategy else rule.default
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            value = value[0]
        if value is None or (value == usual and name not in ALWAYS):
            continue
        said = f"{name} = {value}"
        yield said if len(said) <= LONGEST else f"{name} that differs"
