"""Which layer does a tensor belong to? The first whole number in its dotted name tells. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

_INSTEAD = "take all of it, under models instead of slices"


@dataclass(frozen=True, slots=True)
class Stack:
    """The layers of a model: their names begin with ``prefix``, their ``numbers`` rise in equal steps.

    Layer ``at`` is counted from 0 whatever its number is. ``rests`` is what follows the number, for each layer.
    """

    prefix: str
    numbers: tuple[int, ...]
    rests: Mapping[int, frozenset[str]]

    def layer(self, at: int) -> frozenset[str]:
        """What follows the number in the names of its tensors."""
        return self.rests[self.numbers[at]]

    def name(self, at: int, rest: str) -> str:
        """The tensor of layer ``at``, also of one behind the last."""
        step = self.numbers[1] - self.numbers[0] if len(self.numbers) > 1 else 1
        return f"{self.prefix}{self.numbers[0] + at * step}{rest}"

    def holds(self, tensor: str) -> bool:
        """Does the tensor belong to one of its layers?"""
        layer = layer_of(tensor)
        return layer is not None and layer[0] == self.prefix


def layer_of(tensor: str) -> tuple[str, int, str] | None:
    """``(what is before the number, the number, what follows)``; None for a tensor outside of any layer."""
    words = tensor.split(".")
    for i, word in enumerate(words):
        if word.isascii() and word.isdigit() and word == str(int(word)):
            rest = "".join(f".{each}" for each in words[i + 1 :])
            return "".join(f"{each}." for each in words[:i]), int(word), rest
    return None


def places_of(tensors: Iterable[str]) -> dict[str, float]:
    """Where each tensor's layer lies among those whose names begin alike: 0 the first, 1 the last; 0 for one that
    belongs to no layer or to the only one."""
    names = list(tensors)
    found = {name: layer_of(name) for name in names}
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


def stack_of(tensors: Iterable[str]) -> Stack | str:
    """The layers of a model; or what keeps them from being taken by number, to follow its name."""
    rests: dict[str, dict[int, set[str]]] = {}
    for layer in map(layer_of, tensors):
        if layer is not None:
            rests.setdefault(layer[0], {}).setdefault(layer[1], set()).add(layer[2])
    several = {prefix: layers for prefix, layers in rests.items() if len(layers) > 1} or rests
    if not several:
        return f"has no layers: no name of a tensor has a whole number between its dots; {_INSTEAD}"
    if len(several) > 1:
        told = ", ".join(f"{prefix or 'none'!r} ({len(layers)})" for prefix, layers in sorted(several.items()))
        return f"has layers of several kinds, and a range doesn't say of which ({told}); {_INSTEAD}"
    ((prefix, layers),) = several.items()
    numbers = sorted(layers)
    step = min((b - a for a, b in pairwise(numbers)), default=1)
    gap = next((a for a, b in pairwise(numbers) if b - a != step), None)
    if gap is not None:
        return f"lacks layer {gap + step}: its layers are {_shown(numbers)}; {_INSTEAD}"
    return Stack(prefix, tuple(numbers), {number: frozenset(found) for number, found in layers.items()})


def _shown(numbers: list[int]) -> str:
    told = ", ".join(map(str, numbers[:10]))
    return f"{told} and {len(numbers) - 10} more" if len(numbers) > 10 else told
