"""Which layer does a tensor belong to? The first whole number in its dotted name tells, or a pattern. Standard library
only.

A pattern is a part of a name with ``{layer}`` in the place of the number: ``block{layer}_`` finds layer 3 in
``net.block3_conv.weight``. It begins where a name or a word between its dots begins, and its first fit counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from workers.said_back import shown

NUMBER = "{layer}"
MAX_PATTERN = 200
MAX_DIGITS = 9
SHOWN = 3
_INSTEAD = "take all of it, under models instead of slices"


@dataclass(frozen=True, slots=True)
class Stack:
    """The layers of a model: their names begin with ``prefix``, their ``numbers`` rise in equal steps and are written
    with at least so many ``digits``.

    Layer ``at`` is counted from 0 whatever its number is. ``rests`` is what follows the number, for each layer.
    """

    prefix: str
    numbers: tuple[int, ...]
    rests: Mapping[int, frozenset[str]]
    digits: int = 1
    pattern: str | None = None

    def layer(self, at: int) -> frozenset[str]:
        """What follows the number in the names of its tensors."""
        return self.rests[self.numbers[at]]

    def name(self, at: int, rest: str) -> str:
        """The tensor of layer ``at``, also of one behind the last."""
        step = self.numbers[1] - self.numbers[0] if len(self.numbers) > 1 else 1
        return f"{self.prefix}{self.numbers[0] + at * step:0{self.digits}d}{rest}"

    def holds(self, tensor: str) -> bool:
        """Does the tensor belong to one of its layers?"""
        layer = layer_of(tensor, self.pattern)
        return layer is not None and layer[0] == self.prefix


def pattern_fault(given: Any) -> tuple[str, str] | None:
    """``(code, what is wrong)`` with a pattern, whatever the models are."""
    like = f"a part of a tensor's name with {NUMBER} in the place of its number, such as h.{NUMBER}. or block{NUMBER}_"
    if not isinstance(given, str) or not 0 < len(given) <= MAX_PATTERN:
        return "not_a_pattern", f"is {like}, 1 to {MAX_PATTERN} characters, not {shown(given)}"
    if given.count(NUMBER) != 1:
        return "not_a_pattern", f"has {NUMBER} {given.count(NUMBER)} times, not once: it is {like}"
    before, after = given.split(NUMBER)
    if before[-1:].isdigit() or after[:1].isdigit():
        return "not_a_pattern", f"has a digit beside {NUMBER}, which stands for all digits of the number"
    return None


def unfitting(pattern: str, tensors: Iterable[str]) -> str | None:
    """What is said of a model of which the pattern finds no layer: what its names with numbers look like."""
    alike: dict[str, str] = {}
    for name in sorted(tensors):
        if layer_of(name, pattern) is not None:
            return None
        masked = re.sub("[0-9]+", "#", name)
        if masked != name:
            alike.setdefault(masked, name)
    names = list(alike.values())
    more = f" and {len(names) - SHOWN} more of other kinds" if len(names) > SHOWN else ""
    there = f"there are {', '.join(map(repr, names[:SHOWN]))}{more}" if names else "no name of its tensors has a number"
    return f"{there}; it begins where a name or a word between its dots begins"


def layer_of(tensor: str, pattern: str | None = None) -> tuple[str, int, str] | None:
    """``(what is before the number, the number, what follows)``; None for a tensor outside of any layer."""
    found = _written(tensor, pattern)
    return None if found is None else (found[0], int(found[1]), found[2])


def places_of(tensors: Iterable[str], pattern: str | None = None) -> dict[str, float]:
    """Where each tensor's layer lies among those whose names begin alike: 0 the first, 1 the last; 0 for one that
    belongs to no layer or to the only one."""
    names = list(tensors)
    found = {name: layer_of(name, pattern) for name in names}
    ends: dict[str, tuple[int, int]] = {}
    for layer in found.values():
        if layer is not None:
            low, high = ends.get(layer[0], (layer[1], layer[1]))
            ends[layer[0]] = min(low, layer[1]), max(high, layer[1])

    def place(layer: tuple[str, int, str] | None) -> float:
        if layer is None:
            return 0.0
        low, high = ends[layer[0]]
        return (layer[1] - low) / (high - low) if high > low else 0.0

    return {name: place(layer) for name, layer in found.items()}


def stack_of(tensors: Iterable[str], pattern: str | None = None) -> Stack | str:
    """The layers of a model; or what keeps them from being taken by number, to follow its name."""
    rests: dict[str, dict[int, set[str]]] = {}
    texts: dict[str, set[str]] = {}
    for layer in (_written(tensor, pattern) for tensor in tensors):
        if layer is not None:
            rests.setdefault(layer[0], {}).setdefault(int(layer[1]), set()).add(layer[2])
            texts.setdefault(layer[0], set()).add(layer[1])
    several = {prefix: layers for prefix, layers in rests.items() if len(layers) > 1} or rests
    otherwise = f"say how with layer_pattern, or {_INSTEAD}"
    if not several:
        return f"has no layers: no name of a tensor has a whole number between its dots; {otherwise}"
    if len(several) > 1:
        told = ", ".join(f"{prefix or 'none'!r} ({len(layers)})" for prefix, layers in sorted(several.items()))
        which = f"say which with layer_pattern, or {_INSTEAD}"
        return f"has layers of several kinds, and a range doesn't say of which ({told}); {which}"
    ((prefix, layers),) = several.items()
    numbers = sorted(layers)
    step = min((b - a for a, b in pairwise(numbers)), default=1)
    gap = next((a for a, b in pairwise(numbers) if b - a != step), None)
    if gap is not None:
        return f"lacks layer {gap + step}: its layers are {_shown(numbers)}; {_INSTEAD}"
    digits = max((len(text) for text in texts[prefix] if text.startswith("0")), default=1)
    odd = sorted(text for text in texts[prefix] if text != f"{int(text):0{digits}d}")
    if odd:
        return f"writes its layers in two ways ({odd[0]!r} has not {digits} digits as another has); {_INSTEAD}"
    return Stack(prefix, tuple(numbers), {n: frozenset(found) for n, found in layers.items()}, digits, pattern)


def _written(tensor: str, pattern: str | None) -> tuple[str, str, str] | None:
    """As :func:`layer_of`, with the number as it is written."""
    if pattern is not None:
        found = _compiled(pattern).search(tensor)
        return None if found is None else (tensor[: found.start(1)], found[1], tensor[found.end(1) :])
    words = tensor.split(".")
    for i, word in enumerate(words):
        if len(word) <= MAX_DIGITS and word.isascii() and word.isdigit() and word == str(int(word)):
            rest = "".join(f".{each}" for each in words[i + 1 :])
            return "".join(f"{each}." for each in words[:i]), word, rest
    return None


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    before, after = map(re.escape, pattern.split(NUMBER))
    return re.compile(rf"(?:^|(?<=\.)){before}([0-9]{{1,{MAX_DIGITS}}})(?![0-9]){after}")


def _shown(numbers: list[int]) -> str:
    told = ", ".join(map(str, numbers[:10]))
    return f"{told} and {len(numbers) - 10} more" if len(numbers) > 10 else told
