"""A search by CMA-ES that can be stopped after any evaluation and played again from what was recorded.

The search works in the unit cube, where every coordinate is as wide as its bounds. Its random numbers come from a
generator of its own, and what it learns of a generation is only the order of its candidates: so the same scores always
lead to the same points, on one type of CPU.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workers.engines.refusals import EngineRefusal

ENGINE_VERSION = "1"
Point = tuple[float, ...]
Row = Mapping[str, Any]
Key = tuple[float, ...]
# It ends by its budget, or when a step can change no coordinate any more: the order of scores says nothing of how far
# they lie apart, so what stops at small or equal differences must not.
_NEVER: Mapping[str, Any] = {
    "tolfun": 0, "tolfunhist": 0, "tolfunrel": 0, "tolflatfitness": 10**9, "tolstagnation": 10**9,
    "tolxstagnation": False, "maxiter": math.inf, "maxfevals": math.inf, "timeout": math.inf,
}  # fmt: skip


def library() -> Any:
    """The package cma. Refuses a machine that lacks it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has no plots without matplotlib, and says so
            return importlib.import_module("cma")
    except ImportError as error:
        raise EngineRefusal(
            "no_cma",
            f"this node can't search: it has no package cma ({error}); install there what requirements/node.txt lists, "
            "or run the search on a node that has it",
            {"package": "cma"},
        ) from error


@dataclass(frozen=True, slots=True)
class Ask:
    """An evaluation that is due: its place among all, its generation (0 before the search), what it is, and its point
    (None for a model as it is)."""

    index: int
    generation: int
    what: str
    point: Point | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lowest and the highest value of every coordinate."""

    low: Point
    high: Point

    def inside(self, unit: Iterable[float]) -> Point:
        """The point in these bounds for one of the unit cube; its ends are the bounds themselves."""
        return tuple(
            high if u >= 1.0 else min(max(low + (high - low) * float(u), low), high) if u > 0.0 else low
            for u, low, high in zip(unit, self.low, self.high, strict=True)
        )

    def unit(self, point: Point) -> list[float]:
        """The point of the unit cube for one in these bounds."""
        return [
            min(max((value - low) / (high - low), 0.0), 1.0)
            for value, low, high in zip(point, self.low, self.high, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is searched: first the ``models`` by their names, then the ``fixed`` points, then so many generations from
    the best of these. ``sigma``: the first step as a share of the bounds."""

    bounds: Bounds
    models: tuple[str, ...]
    fixed: tuple[tuple[str, Point], ...]
    population: int
    generations: int
    sigma: float
    seed: int

    @property
    def total(self) -> int:
        """How many evaluations that comes to at most."""
        return len(self.models) + len(self.fixed) + self.generations * self.population


def order_of(rows: Sequence[Row], directions: Mapping[str, int]) -> list[int]:
    """The places of the rows from the best to the worst: by the first metric, then by those after it, then by their
    order. ``directions``: 1 for a metric that is to be high, -1 for one that is to be low. What failed comes last."""
    return sorted(range(len(rows)), key=lambda place: (key_of(rows[place], directions), place))


def key_of(row: Row, directions: Mapping[str, int]) -> Key:
    """The lower the better; a metric that is no number is worse than any."""
    metrics = row["metrics"] or {}
    values = (metrics.get(name) for name in directions)
    return tuple(
        math.inf if value is None or not math.isfinite(value) else -sign * value
        for value, sign in zip(values, directions.values(), strict=True)
    )


class Search:
    """What is to be evaluated next, by what was found so far. ``directions`` as :func:`order_of` has them."""

    def __init__(self, plan: Plan, directions: Mapping[str, int]) -> None:
        self.plan = plan
        self.is_exact = True
        self.ended_by = ""
        self._directions = directions
        self._generation = 0
        self._index = 0
        self._strategy: Any = None
        self._asked: list[Any] = []
        self._best: tuple[Key, int, Point] | None = None

    def due(self) -> list[Ask]:
        """The evaluations of the next generation, none of which depends on another; empty when the search is over."""
        if self._generation == 0:
            named = [(name, None) for name in self.plan.models]
            whole = [*named, *self.plan.fixed]
        elif self._is_over():
            whole = []
        else:
            self._asked = self._strategy.ask()
            whole = [("candidate", self.plan.bounds.inside(unit)) for unit in self._asked]
        return [Ask(self._index + at, self._generation, what, point) for at, (what, point) in enumerate(whole)]

    def told(self, asks: Sequence[Ask], rows: Sequence[Row]) -> None:
        """What came of them, a row each. Points that were recorded and are not those asked for are taken as they are,
        and the search is exact no more."""
        for ask, row in zip(asks, rows, strict=True):
            point = None if row["x"] is None else tuple(row["x"])
            key = key_of(row, self._directions)
            if point is not None and not math.isinf(key[0]) and (self._best is None or key < self._best[0]):
                self._best = key, ask.index, point
        if self._generation == 0:
            self._begin()
        else:
            ranks = [0.0] * len(rows)
            for rank, place in enumerate(order_of(rows, self._directions)):
                ranks[place] = float(rank)
            self._strategy.tell(self._units(asks, rows), ranks)
        self._index += len(asks)
        self._generation += 1

    @property
    def best(self) -> tuple[int, Point] | None:
        """The best evaluation of a point so far: its index and the point; the first of equals. None while none has a
        score."""
        return None if self._best is None else self._best[1:]

    def _units(self, asks: Sequence[Ask], rows: Sequence[Row]) -> list[Any]:
        same = all(list(ask.point or ()) == list(row["x"]) for ask, row in zip(asks, rows, strict=True))
        if same:
            return self._asked
        self.is_exact = False
        return [np.array(self.plan.bounds.unit(tuple(row["x"]))) for row in rows]

    def _begin(self) -> None:
        start = self.plan.fixed[0][1] if self._best is None else self._best[2]
        options = {
            **_NEVER,
            "bounds": [[0.0] * len(start), [1.0] * len(start)],
            "popsize": self.plan.population,
            "seed": math.nan,  # leaves numpy's global generator alone
            "randn": np.random.RandomState(self.plan.seed).randn,
            "verbose": -9,
            "verb_log": 0,
            "verb_disp": 0,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._strategy = library().CMAEvolutionStrategy(self.plan.bounds.unit(start), self.plan.sigma, options)

    def _is_over(self) -> bool:
        if self._best is None:
            self.ended_by = "no point has a score"
        elif self._generation > self.plan.generations:
            self.ended_by = "budget"
        elif found := self._strategy.stop():
            self.ended_by = f"converged ({', '.join(sorted(found))})"
        return bool(self.ended_by)


def versions() -> dict[str, str]:
    """Whose versions the points depend on. Refuses a machine that lacks one of them."""
    return {"cma": str(library().__version__), "numpy": str(np.__version__)}
