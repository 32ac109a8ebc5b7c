"""Which value does each tensor of a merge get, and from which models? As rows for people. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.merge_layout import Part
from workers.merge_recipe import Recipe, in_recipe, rules_of
from workers.model_layers import layer_of
from workers.model_table import Table

SHOWN = 3
LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor of the result: ``origins`` are ``(model, tensor there)``, a base last, by what people call the models.
    ``values`` are the strategy's parameters for it by their names in a recipe, one a model where there are several;
    none for what is copied whatever the strategy. ``note``: how it was put together where models have it otherwise than
    each other. A tensor that is ``left out`` of the result has as origins the models that have it."""

    tensor: str
    origins: tuple[tuple[str, str], ...]
    values: Mapping[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """The ``tensors`` that have the same models, the same ``values`` and the same ``note``, which ``said`` writes
    out."""

    models: tuple[str, ...]
    values: Mapping[str, Any]
    note: str
    tensors: tuple[str, ...]

    @property
    def said(self) -> str:
        """The values as ``t = 0.25, lambda = 1``, and the note."""
        return ", ".join(
            [*(f"{name} = {_said(value)}" for name, value in self.values.items()), *filter(None, [self.note])]
        )

    @property
    def shown(self) -> str:
        """The first few tensors, and how many there are besides."""
        rest = len(self.tensors) - SHOWN
        return ", ".join(self.tensors[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def is_worth_telling(recipe: Recipe) -> bool:
    """May two tensors of the result differ in their values, their models, or in how models were put together?"""
    return recipe.is_sliced or recipe.on_mismatch is not None or any(each.varies for each in recipe.slices)


def rows_of(recipe: Recipe, parts: Sequence[Part], tables: Mapping[str, Table]) -> list[Row]:
    """A row for every tensor, in the order of the layers, then for those that ``on_mismatch`` leaves out."""
    names = [(rule.name, in_recipe(rule)) for rule in rules_of(recipe.strategy)]
    made = [
        Row(
            part.name,
            tuple((tables[name].label, tensor) for name, tensor in part.origins),
            {told: part.values[name] for name, told in names if name in part.values},
            _note(part),
        )
        for part in parts
    ]
    return made + _left_out(recipe, {part.name for part in parts}, tables)


def layers_left_out(rows: Sequence[Row], pattern: str | None) -> list[int]:
    """The layers of which a model has tensors and the result has none, though nobody asked for a part of the layers."""
    found: dict[bool, set[int]] = {True: set(), False: set()}
    for row in rows:
        if (layer := layer_of(row.tensor, pattern)) is not None:
            found[row.note == LEFT_OUT].add(layer[1])
    return sorted(found[True] - found[False])


def _left_out(recipe: Recipe, made: set[str], tables: Mapping[str, Table]) -> list[Row]:
    """What models have and the result has not. Of layers that slices leave out nothing is told: they say it."""
    if recipe.on_mismatch is None:
        return []
    inputs = dict.fromkeys(source.input for each in recipe.slices for source in each.origins)
    having: dict[str, list[str]] = {}
    for name in inputs:
        for tensor in tables[name].tensors:
            if tensor not in made and not (recipe.is_sliced and layer_of(tensor, recipe.pattern)):
                having.setdefault(tensor, []).append(tables[name].label)
    return [Row(each, tuple((label, each) for label in having[each]), {}, LEFT_OUT) for each in sorted(having)]


def grouped(rows: Sequence[Row]) -> list[Group]:
    """The rows by models and values, each group at the place of its first tensor. Values that all rows share are left
    out."""
    names = dict.fromkeys(name for row in rows for name in row.values)
    differing = [name for name in names if len({repr(row.values[name]) for row in rows if name in row.values}) > 1]
    found: dict[str, tuple[Row, list[str]]] = {}
    for row in rows:
        models = [model for model, _ in row.origins]
        key = repr((models, [row.values.get(name) for name in differing], row.note))
        found.setdefault(key, (row, []))[1].append(row.tensor)
    return [
        Group(
            tuple(model for model, _ in row.origins),
            {name: row.values[name] for name in differing if name in row.values},
            row.note,
            tuple(tensors),
        )
        for row, tensors in found.values()
    ]


def _note(part: Part) -> str:
    if part.settled.copied:
        return "copied"
    return "" if part.settled.rows is None else f"the first {part.settled.rows} rows"


def _said(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(_said(each) for each in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
