"""Which tensors will a merge write, from which of its models, with which values? Known from names and shapes alone.

A layer is what shares the first whole number in the dotted names of its tensors: ``model.layers.3.mlp.weight`` belongs
to layer 3. A pattern finds it elsewhere. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workers.merge_mismatch import FLOATS, Settled, had, rule_for, settle
from workers.merge_recipe import Recipe, Slice, Source, in_recipe, rules_of
from workers.model_layers import Stack, places_of, stack_of, unfitting
from workers.model_table import Table
from workers.param_errors import ParamError
from workers.said_back import shown
from workers.strategy_params import check_strategy

SHOWN = 5
MAX_ERRORS = 50
PATTERN = "params.layer_pattern"
# A tensor outside of the layers whose name has one of these lies before them, any other behind them.
BEFORE = ("emb", "wte", "wpe", "cls_token", "pos_")
_BEHIND = "embed_out"


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of the result: the ``(input, tensor)`` that it is made of, and the strategy's parameters for it.
    ``based``: the last of them is the base of the others. ``settled``: how models are put together that have it
    otherwise than each other; the strategy has no part in what is copied, which has no ``values``."""

    name: str
    origins: tuple[tuple[str, str], ...]
    based: bool
    values: Mapping[str, Any]
    settled: Settled


def settled_faults(recipe: Recipe) -> list[ParamError]:
    """What is wrong between values that are the same for all tensors, whichever these are."""
    values = _Values(recipe)
    for each in recipe.slices:
        if not each.varies:
            values.of(each, "", 0.0)
    return values.errors()


def lay_out(recipe: Recipe, tables: Mapping[str, Table]) -> tuple[list[Part], list[ParamError]]:
    """Every tensor of the result, and everything that keeps it from being made; ``tables`` by the name of the input.

    Of whole models only tensors that all of them have are told, and nothing of names and shapes that differ: whoever
    opened the models has compared them.
    """
    errors = _unfitting(recipe, tables)
    if errors:
        return [], errors
    values = _Values(recipe)
    parts, errors = (_sliced if recipe.is_sliced else _whole)(recipe, tables, values)
    found = [*errors, *values.errors()]
    if len(found) > MAX_ERRORS:
        more = len(found) - MAX_ERRORS
        found[MAX_ERRORS:] = [ParamError(recipe.field, "more_errors", f"and {more} more")]
    return parts, found


def _unfitting(recipe: Recipe, tables: Mapping[str, Table]) -> list[ParamError]:
    """Models of which the pattern finds no layer."""
    if recipe.pattern is None:
        return []
    names = dict.fromkeys(source.input for each in recipe.slices for source in each.origins)
    told = {tables[name].label: unfitting(recipe.pattern, tables[name].tensors) for name in names}
    field, what = PATTERN, f"layer_pattern {shown(recipe.pattern)} fits no tensor of"
    return [ParamError(field, "fits_no_tensor", f"{what} {label!r}: {fault}") for label, fault in told.items() if fault]


class _Values:
    """The parameters for each tensor, checked once where they are the same."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._known: dict[str, Mapping[str, Any]] = {}
        self._wrong: dict[str, list[ParamError]] = {}
        self._tensors: dict[str, list[str]] = {}

    def of(self, each: Slice, tensor: str, position: float) -> Mapping[str, Any]:
        """The strategy's parameters for a tensor of this slice."""
        given = each.values_at(tensor, position) if each.varies or each.path not in self._known else None
        key = json.dumps([each.path, given], sort_keys=True) if each.varies else each.path
        if given is not None and key not in self._known:
            self._known[key], self._wrong[key] = self._checked(each, given)
        self._tensors.setdefault(key, []).append(tensor)
        return self._known[key]

    def errors(self) -> list[ParamError]:
        """Everything that is wrong: of values that vary, with the first tensor that it is wrong for."""
        return [replace(error, message=f"{error.message}{self._where(key)}") for key in self._wrong
                for error in self._wrong[key]]  # fmt: skip

    def _where(self, key: str) -> str:
        names = [name for name in self._tensors[key] if name]
        if not names or not key.startswith("["):
            return ""
        return f" (tensor {names[0]!r}{f' and {len(names) - 1} more' if len(names) > 1 else ''})"

    def _checked(self, each: Slice, given: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[ParamError]]:
        lacking = [
            self._error(each, f"{source.path}.parameters.{in_recipe(rule)}", rule.name, "required",
                        f"{in_recipe(rule)} has no value here: add an entry without a filter for all other tensors")
            for rule in rules_of(self._recipe.strategy)
            if rule.each
            for source, value in zip(each.sources, given[rule.name], strict=True)
            if value is None
        ]  # fmt: skip
        if lacking:
            return given, lacking
        clean, errors = check_strategy(self._recipe.strategy, given, len(each.sources))
        found = (
            self._error(each, each.path, e.field.removeprefix("params."), e.code, e.message, e.limit) for e in errors
        )
        return clean, list(found)

    def _error(self, each: Slice, path: str, name: str, code: str, message: str, limit: Any = None) -> ParamError:
        """Of plain parameters by the parameter's name, of a recipe by the path in the document."""
        if self._recipe.field == "params":
            return ParamError(f"params.{name}", code, message, limit)
        field = f"{self._recipe.field}.{path}" if path else self._recipe.field
        return ParamError(field, code, f"{path}: {message}" if path else message, limit)


def _whole(recipe: Recipe, tables: Mapping[str, Table], values: _Values) -> tuple[list[Part], list[ParamError]]:
    (each,) = recipe.slices
    names = sorted({name for source in each.origins for name in tables[source.input].tensors})
    places = places_of(names, recipe.pattern)
    parts = []
    for name in names:
        found = _settled(recipe, each, name, [(source.input, name) for source in each.origins], tables)
        if found is not None and found.origins:
            parts.append(_part(each, name, found, values, places[name]))
    return parts, list(_carried(recipe, tables, [part for part in parts if part.settled.copied]))


def _settled(
    recipe: Recipe, each: Slice, name: str, origins: Sequence[tuple[str, str]], tables: Mapping[str, Table]
) -> Settled | None:
    """What a tensor of the result is made of; None where models have it otherwise and nothing says what to do."""
    base = recipe.carries if recipe.names_base else None
    at = next((i for i, source in enumerate(each.origins) if source.input == base), None)
    return settle(had(tables, origins), rule_for(recipe.on_mismatch, name), at)


def _part(each: Slice, name: str, found: Settled, values: _Values, position: float) -> Part:
    if found.copied:
        return Part(name, found.origins, False, {}, found)
    return Part(name, found.origins, each.base is not None, values.of(each, name, position), found)


def _sliced(recipe: Recipe, tables: Mapping[str, Table], values: _Values) -> tuple[list[Part], list[ParamError]]:
    stacks, errors = _stacks(recipe, tables)
    if not errors:
        errors = _ranges(recipe, tables, stacks)
    if errors:
        return [], errors
    errors = _alike(recipe, tables, stacks)
    out = stacks[recipe.slices[0].sources[0].input]
    parts: list[Part] = []
    for each, wanted, position in _wanted(recipe, tables, stacks, out):
        for name in sorted(wanted):
            origins = wanted[name]
            read = [(source.input, tensor) for source, tensor in origins]
            found = _settled(recipe, each, name, read, tables)
            if found is None:
                errors += _faults(recipe, each, name, origins, tables)
            elif found.origins:
                parts.append(_part(each, name, found, values, position))
    return parts, errors or list(_carried(recipe, tables, [part for part in parts if not out.holds(part.name)]))


def _carried(recipe: Recipe, tables: Mapping[str, Table], outside: Sequence[Part]) -> Iterator[ParamError]:
    """A configuration or tokenizer of a model whose tensors outside of the layers have other shapes than the result's:
    with it the result could not be loaded."""
    carried = [("small files are", recipe.carries, "base_model")]
    if recipe.tokenizer != recipe.carries:
        carried.append(("tokenizer is", recipe.tokenizer, "tokenizer_source"))
    for what, name, place in carried:
        for part in (part for part in outside if part.settled.rows is None):
            read = tables[part.origins[0][0]]
            there, ours = tables[name].tensors.get(part.name), read.tensors[part.origins[0][1]]
            if there is not None and there[1] != ours[1]:
                message = (
                    f"{part.name!r} is {_shape(there[1])} in {tables[name].label!r}, whose {what} carried, and "
                    f"{_shape(ours[1])} in {read.label!r}, of which it is made: name one that has its shape"
                )
                yield _error(recipe, place, "shape_mismatch", message)


Origins = list[tuple[Source, str]]


def _wanted(
    recipe: Recipe, tables: Mapping[str, Table], stacks: Mapping[str, Stack], out: Stack
) -> Iterator[tuple[Slice, dict[str, Origins], float]]:
    """For every layer of the result, and for what lies outside of the layers: the slice that it comes from, what each
    of its tensors is made of, and the position of its values."""
    for each, behind in ((recipe.slices[0], False), (recipe.slices[-1], True)):
        names = {
            name
            for source in each.origins
            for name in tables[source.input].tensors
            if not out.holds(name) and _is_behind(name) is behind
        }
        yield each, {name: [(source, name) for source in each.origins] for name in names}, 0.0
    at = 0
    for each in recipe.slices:
        layers = each.layers or 0
        for offset in range(layers):
            found: dict[str, Origins] = {}
            for rest in {rest for source in each.origins for rest in stacks[source.input].layer(_at(source, offset))}:
                read = [(s, stacks[s.input].name(_at(s, offset), rest)) for s in each.origins]
                found[out.name(at, rest)] = read
            yield each, found, offset / (layers - 1) if layers > 1 else 0.0
            at += 1


def _at(source: Source, offset: int) -> int:
    return (source.first or 0) + offset


def _is_behind(name: str) -> bool:
    """Does a tensor outside of the layers lie behind them?"""
    return _BEHIND in name or not any(word in name for word in BEFORE)


def _stacks(recipe: Recipe, tables: Mapping[str, Table]) -> tuple[dict[str, Stack], list[ParamError]]:
    """The layers of every model; or why a model has none that can be taken by their number."""
    found: dict[str, Stack] = {}
    errors: list[ParamError] = []
    for source in _once(recipe):
        label = tables[source.input].label
        stack = stack_of(tables[source.input].tensors, recipe.pattern)
        if isinstance(stack, str):
            errors.append(_error(recipe, source.path, "no_layers", f"{label!r} {stack}"))
        else:
            found[source.input] = stack
    prefixes = {stack.prefix for stack in found.values()}
    if not errors and len(prefixes) > 1:
        told = ", ".join(f"{stack.prefix!r} in {tables[name].label!r}" for name, stack in found.items())
        errors.append(_error(recipe, "slices", "missing_tensor", f"the names of layers begin differently: {told}"))
    return found, errors


def _once(recipe: Recipe) -> Iterable[Source]:
    """Each model at the first place that names it."""
    found: dict[str, Source] = {}
    for each in recipe.slices:
        for source in each.origins:
            found.setdefault(source.input, source)
    return found.values()


def _ranges(recipe: Recipe, tables: Mapping[str, Table], stacks: Mapping[str, Stack]) -> list[ParamError]:
    """Layers that a model hasn't."""
    errors = []
    for each in recipe.slices:
        for source in each.origins:
            count, end = len(stacks[source.input].numbers), _at(source, each.layers or 0)
            if end > count:
                lowest = max(_at(source, 0), count)
                missing = f"{lowest}" if lowest == end - 1 else f"{lowest} to {end - 1}"
                message = f"{tables[source.input].label!r} has {count} layers and no layer {missing}: end at {count}"
                errors.append(_error(recipe, f"{source.path}.layer_range", "missing_layer", message, count))
    return errors


def _alike(recipe: Recipe, tables: Mapping[str, Table], stacks: Mapping[str, Stack]) -> list[ParamError]:
    """Layers of two models that can't follow each other: a tensor that has other shapes in one than in the other."""
    seen: dict[str, tuple[str, set[tuple[int, ...]]]] = {}
    errors = []
    for source in _once(recipe):
        table, stack = tables[source.input], stacks[source.input]
        shapes: dict[str, set[tuple[int, ...]]] = {}
        for at in range(len(stack.numbers)):
            for rest in stack.layer(at):
                shapes.setdefault(rest, set()).add(table.tensors[stack.name(at, rest)][1])
        for rest, found in sorted(shapes.items()):
            label, known = seen.setdefault(rest, (table.label, found))
            if not known & found:
                one, other = _shape(min(known)), _shape(min(found))
                message = f"{stack.prefix}*{rest} is {one} in {label!r} and {other} in {table.label!r}"
                errors.append(_error(recipe, source.path, "shape_mismatch", message))
    return errors


def _faults(
    recipe: Recipe, each: Slice, name: str, origins: Origins, tables: Mapping[str, Table]
) -> Iterator[ParamError]:
    """What keeps one tensor from being made of these: it is missing in one, or differs in shape or kind."""
    rows = [(source, tensor, tables[source.input].tensors.get(tensor)) for source, tensor in origins]
    for source, tensor, row in rows:
        if row is None:
            message = f"{tables[source.input].label!r} has no tensor {tensor!r}, of which {name!r} would be made"
            yield _error(recipe, source.path, "missing_tensor", message)
    there = [(source, tensor, row) for source, tensor, row in rows if row is not None]
    for source, tensor, (dtype, shape) in there[1:]:
        first, theirs, (first_dtype, first_shape) = there[0]
        between = f"in {tables[first.input].label!r} ({theirs}) and", f"in {tables[source.input].label!r} ({tensor})"
        if shape != first_shape:
            message = f"{name!r} is {_shape(first_shape)} {between[0]} {_shape(shape)} {between[1]}"
            yield _error(recipe, source.path, "shape_mismatch", message)
        elif dtype != first_dtype and not {dtype, first_dtype} <= FLOATS:
            message = f"{name!r} is {first_dtype} {between[0]} {dtype} {between[1]}"
            yield _error(recipe, source.path, "dtype_mismatch", message)


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "a single number"


def _error(recipe: Recipe, path: str, code: str, message: str, limit: Any = None) -> ParamError:
    return ParamError(f"{recipe.field}.{path}", code, f"{path}: {message}", limit)
