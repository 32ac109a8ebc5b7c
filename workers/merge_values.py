"""What one value of a merge parameter may be, what it is by default, and what is said of one that can't be.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from workers.merge_settings import is_filters, setting_faults, varies
from workers.merge_strategies import GRANULARITIES, RESCALES, Strategy
from workers.said_back import shown

Fault = tuple[str, str]
"""Where in a setting (empty for all of it), and what is wrong there."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A parameter: which values are ``right``, ``said`` of another one in its place, ``code`` of that error and the
    ``limit`` it tells. ``each``: it has a value for each model; ``one`` is what that is called, and ``many`` is
    said of giving all of them. ``numbers``: between
    two values there are others. ``default`` None: it is needed, and ``about`` says what it is."""

    name: str
    right: Callable[[Any], bool]
    said: str
    code: str
    limit: Any = None
    default: Any = None
    each: bool = False
    one: str = "number"
    many: str = ""
    numbers: bool = True
    about: str = ""

    def value_unless_given(self, strategy: Strategy) -> Any:
        """What it is where nothing was said; None for one that is needed."""
        return strategy.normalize if self.name == "normalize" else self.default

    def faults(self, setting: Any, *, called: str = "", alone: bool = False) -> Iterator[Fault]:
        """Everything wrong with a setting, as whole sentences. ``called``: its name there; ``alone``: it is that of one
        model, where there are no others."""
        name, many = called or self.name, "" if alone else self.many
        for where, what, value in setting_faults(setting, self.right, numbers=self.numbers):
            yield where, f"{name} {what}" if what else self.said.format(shown(value), name=name, many=many)


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


def in_floats(setting: Any) -> Any:
    """The same setting with each number as a float."""
    if is_filters(setting):
        return [{**entry, "value": in_floats(entry["value"])} for entry in setting]
    if varies(setting):
        return [in_floats(each) for each in setting]
    number = as_number(setting)
    return setting if number is None else number


def _is_number(value: Any) -> bool:
    return as_number(value) is not None


def _is_share(value: Any) -> bool:
    number = as_number(value)
    return number is not None and 0.0 <= number <= 1.0


def _share(name: str, about: str, *, above: bool = False, default: float | None = None) -> Rule:
    """From 0 to 1, one a model; ``above``: 0 itself is none."""
    said = f"{{name}} is {about}{{many}}; {{}} is not"
    return Rule(
        name, lambda value: _is_share(value) and (not above or value > 0), said, "out_of_range", [0, 1], default,
        each=True, about=about, many=": one number, or a list of one a model",
    )  # fmt: skip


def _word(name: str, known: tuple[str, ...]) -> Rule:
    said = f"{name} must be one of {', '.join(known)}, not {{}}"
    return Rule(
        name, lambda value: isinstance(value, str) and value in known, said, "unknown_word", list(known), known[0],
        one="word", numbers=False,
    )  # fmt: skip


_ALL = (
    Rule("t", _is_share, "t must be a number from 0 (the first model) to 1 (the second), not {}", "out_of_range",
         [0, 1], 0.5),
    Rule("weights", _is_number, "{name} must be a finite number{many}, not {}", "not_a_number", default=1.0,
         each=True, one="weight", many=" for each model"),
    Rule("normalize", lambda value: isinstance(value, bool), "normalize must be true or false", "not_a_boolean",
         numbers=False),
    Rule("lambda", _is_number, "lambda must be a finite number (1 by default), not {}", "not_a_number", default=1.0),
    Rule("scale", _is_number, "scale must be a finite number (1 by default), not {}", "not_a_number", default=1.0),
    _share("density", "the share of each model's changes that is kept, above 0 and at most 1", above=True),
    _share("epsilon", "how far the chance to be kept goes below and above density, from 0 to 1"),
    _share("gamma", "the share of the largest changes that is dropped, from 0 to 1", default=0.01),
    _word("rescale", RESCALES),
    _word("granularity", GRANULARITIES),
)  # fmt: skip
RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
