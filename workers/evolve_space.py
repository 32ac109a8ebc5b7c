"""What does a search change? Entries of a space become coordinates, and a point of it the settings of a merge.

An entry is a parameter of the strategy with its bounds: one value for all tensors, the points of a gradient over the
layers, or a value for each group of tensors. Where the strategy has a value for each model, each has its own. Standard
library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.merge_settings import MAX_POINTS
from workers.merge_values import RULES, as_number
from workers.model_layers import layer_of
from workers.param_errors import ParamError, nearest
from workers.said_back import shown

FIELD = "params.space"
ALL, LAYER, GROUP = "all", "layer", "group"
PER = (ALL, LAYER, GROUP)
MAX_ANCHORS = min(200, MAX_POINTS)
# The search keeps a square matrix of so many rows and takes it apart every few generations.
MAX_COORDINATES = 400
SHOWN = 5
Settings = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A parameter that is searched between ``low`` and ``high``. ``each``: it has a value for each model. ``anchors``:
    points of the gradient over the layers (None: one a layer); ``groups``: parts of names, the first that fits."""

    name: str
    low: float
    high: float
    per: str
    each: bool
    anchors: int | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A number that is searched: the parameter, what it is in words (``about``), its bounds, where it begins."""

    name: str
    about: str
    low: float
    high: float
    start: float


@dataclass(frozen=True, slots=True)
class _Block:
    """The coordinates of one entry: ``points`` for each of so many ``models``, or once for all (None)."""

    entry: Entry
    models: int | None
    labels: tuple[str, ...]
    groups: tuple[str | None, ...] = ()

    @property
    def size(self) -> int:
        return len(self.labels) * (self.models or 1)

    def setting(self, values: Sequence[float]) -> Any:
        if self.models is None:
            return self._one(values)
        points = len(self.labels)
        return [self._one(values[i * points : (i + 1) * points]) for i in range(self.models)]

    def _one(self, values: Sequence[float]) -> Any:
        if self.entry.per == ALL:
            return values[0]
        if self.entry.per == LAYER:
            return list(values)
        return [
            {"value": value} if group is None else {"filter": group, "value": value}
            for group, value in zip(self.groups, values, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Space:
    """The coordinates of a search in their order."""

    blocks: tuple[_Block, ...]
    coordinates: tuple[Coordinate, ...]

    @property
    def starts(self) -> tuple[float, ...]:
        """The point where it begins."""
        return tuple(each.start for each in self.coordinates)

    def settings(self, point: Sequence[float]) -> Settings:
        """The parameters of the merge at this point, by their names."""
        found: Settings = {}
        at = 0
        for block in self.blocks:
            found[block.entry.name] = block.setting(point[at : at + block.size])
            at += block.size
        return found

    def grid(self, steps: int) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Points with one value in all coordinates of an entry, so many from its low to its high, and the others where
        they begin: ``(what it is, the point)``, entry by entry."""
        at = 0
        for block in self.blocks:
            entry = block.entry
            for step in range(steps):
                value = entry.high if step == steps - 1 else entry.low + (entry.high - entry.low) * step / (steps - 1)
                point = list(self.starts)
                point[at : at + block.size] = [value] * block.size
                yield f"{entry.name} = {value:.6g}", tuple(point)
            at += block.size


def starts_of(entry: Entry, given: Any, models: int) -> tuple[list[float], str | None]:
    """Where the values of an entry begin, one a model where it has one each; and what is wrong with where they were
    said to. ``given``: the parameter of the merge, None for none, then its default if that is in bounds, else the
    middle."""
    count = max(models, 1) if entry.each else 1
    middle = entry.low + (entry.high - entry.low) / 2
    if given is None:
        default = as_number(RULES[entry.name].default)
        usual = default if default is not None and entry.low <= default <= entry.high else middle
        return [usual] * count, None
    listed = list(given) if entry.each and isinstance(given, (list, tuple)) else [given]
    numbers = [number for each in listed if (number := as_number(each)) is not None]
    if len(numbers) < len(listed):
        each = " or a list of one a model" if entry.each else ""
        return [middle] * count, (
            f"{entry.name} is searched, so here is only where it begins: one number{each}, not {shown(given)}"
        )
    if len(listed) not in (1, count):
        return [middle] * count, f"{entry.name}: {len(listed)}, models: {count}; give one number a model"
    outside = next((number for number in numbers if not entry.low <= number <= entry.high), None)
    if outside is not None:
        return [middle] * count, (
            f"{entry.name} begins at {outside:g}, which is outside of {entry.low:g} to {entry.high:g}: change one of "
            "them, or leave it out here"
        )
    return (numbers * count if len(numbers) == 1 else numbers), None


def space_of(
    entries: Sequence[Entry], starts: Mapping[str, Sequence[float]], models: int, tensors: Iterable[str],
    pattern: str | None = None,
) -> tuple[Space, list[ParamError]]:  # fmt: skip
    """The coordinates for so many models with these names of tensors, and what is wrong with the entries for them.

    ``starts``: where each entry begins, as :func:`starts_of` says.
    """
    names = sorted(tensors)
    blocks: list[_Block] = []
    coordinates: list[Coordinate] = []
    errors: list[ParamError] = []
    for place, entry in enumerate(entries):
        labels, groups, wrong = _points(f"{FIELD}.{place}", entry, names, pattern)
        errors += wrong
        if wrong:
            continue
        block = _Block(entry, models if entry.each else None, labels, groups)
        blocks.append(block)
        for model in range(block.models or 1):
            of = f", model {model + 1}" if block.models else ""
            coordinates += [
                Coordinate(entry.name, f"{entry.name}{of}{label}", entry.low, entry.high, starts[entry.name][model])
                for label in labels
            ]
    if len(coordinates) > MAX_COORDINATES:
        message = (
            f"the space has {len(coordinates)} coordinates, at most {MAX_COORDINATES} are searched: give fewer "
            "anchors or groups"
        )
        errors.append(ParamError(FIELD, "too_many", message, MAX_COORDINATES))
    return Space(tuple(blocks), tuple(coordinates)), errors


Points = tuple[tuple[str, ...], tuple[str | None, ...], list[ParamError]]


def _points(place: str, entry: Entry, names: Sequence[str], pattern: str | None) -> Points:
    if entry.per == ALL:
        return ("",), (), []
    if entry.per == GROUP:
        return _grouped(place, entry, names)
    layers = layer_count(names, pattern)
    if layers == 0:
        message = (
            "no name of a tensor has the number of a layer: say how with layer_pattern in merge, or take per "
            f"{GROUP} or {ALL}"
        )
        return (), (), [ParamError(f"{place}.per", "no_layers", message)]
    count = entry.anchors or layers
    if count > MAX_ANCHORS:
        message = f"the models have {layers} layers, at most {MAX_ANCHORS} points are searched: give anchors"
        return (), (), [ParamError(f"{place}.anchors", "too_many", message, MAX_ANCHORS)]
    called = "layer" if count == layers else "point"
    return tuple(f", {called} {at + 1} of {count}" for at in range(count)), (), []


def _grouped(place: str, entry: Entry, names: Sequence[str]) -> Points:
    """A value for each group, and one for the tensors that are in none, where there are some."""
    taken: dict[str | None, list[str]] = {group: [] for group in entry.groups}
    rest: list[str] = []
    for name in names:
        group = next((part for part in entry.groups if part in name), None)
        (rest if group is None else taken[group]).append(name)
    errors = []
    for at, group in enumerate(entry.groups):
        if taken[group]:
            continue
        earlier = next((part for part in entry.groups[:at] if any(group in name for name in taken[part])), None)
        if earlier is not None:
            why = f"all tensors that it fits are in {shown(earlier)} before it: put it first, or leave it out"
        else:
            words = sorted({word for name in names for word in name.split(".")})
            told = f"{', '.join(map(repr, names[:SHOWN]))}{' and more' if len(names) > SHOWN else ''}"
            why = f"it fits no tensor{nearest(group, words)}; there are {told}"
        errors.append(ParamError(f"{place}.groups.{at}", "fits_no_tensor", f"group {shown(group)}: {why}"))
    groups: tuple[str | None, ...] = (*entry.groups, *([None] if rest else []))
    return tuple(f", {'the rest' if group is None else group}" for group in groups), groups, errors


def layer_count(names: Iterable[str], pattern: str | None = None) -> int:
    """How many layers the names tell of, of those that begin alike the most."""
    found: dict[str, set[int]] = {}
    for name in names:
        layer = layer_of(name, pattern)
        if layer is not None:
            found.setdefault(layer[0], set()).add(layer[1])
    return max(map(len, found.values()), default=0)
