"""TensorEngine: opens models and lines their tensors up. Opening reads headers only, never data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from workers.engines.compatibility import compatibility_problems
from workers.engines.dtypes import TensorSpec, output_order
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.sources import Model, open_model


@dataclass(frozen=True, slots=True)
class TensorInputs:
    """What one tensor of the output is made of: a tensor of each of these ``models``, whose ``names`` there may be
    others. ``based``: the last of them is the base of the others. ``rows``: only so many of each, from the first."""

    name: str
    models: tuple[Model, ...]
    names: tuple[str, ...]
    based: bool = False
    rows: int | None = None

    @property
    def count(self) -> int:
        """Number of models that are merged: a base is not counted."""
        return len(self.models) - self.based

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """Its description in each model, of the rows that are taken."""
        found = (m.specs[name] for m, name in zip(self.models, self.names, strict=True))
        if self.rows is None:
            return tuple(found)
        return tuple(replace(spec, shape=(self.rows, *spec.shape[1:])) for spec in found)

    @property
    def numel(self) -> int:
        """Number of elements, the same in all models."""
        return self.specs[0].numel

    def stored(self, model: int, start: int, stop: int) -> torch.Tensor:
        """Elements ``start`` to ``stop`` of model number ``model``, flat, in their stored type, on the CPU."""
        source = self.models[model]
        return source.reader.read(source.specs[self.names[model]], start, stop)


@dataclass(frozen=True, slots=True)
class TensorSet:
    """Opened models; ``based``: the last is the base of the others."""

    models: tuple[Model, ...]
    based: bool = False

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The tensors as the first model stores them, in processing order."""
        return tuple(sorted(self.models[0].specs.values(), key=output_order))


def inspect(
    *sources: Path | str,
    labels: Sequence[str] = (),
    based: bool = False,
    sliced: bool = False,
    reconciled: Callable[[Sequence[Model]], Collection[str]] = lambda models: (),
) -> tuple[TensorSet, list[Problem]]:
    """Open every source and say everything that is wrong with them; what could not be opened is left out.

    ``based``: the last source is the base of the others. ``sliced``: they are looked at each on its own, since a recipe
    takes layers of them. ``labels`` name the models in messages (default: the last part of each path, numbered if two
    are equal). ``reconciled``: which tensors can be merged although the models have them otherwise than each other.
    """
    paths = [Path(s) for s in sources]
    names = list(labels) if labels else _labels(paths)
    models: list[Model] = []
    problems: list[Problem] = []
    for path, label in zip(paths, names, strict=True):
        try:
            models.append(open_model(path, label))
        except EngineRefusal as refusal:
            problems += refusal.problems
    if not sources:
        problems.append(Problem("no_models", "give at least one model"))
    groups = [[model] for model in models] if sliced else [models]
    settled = reconciled(models)
    problems += [problem for group in groups for problem in compatibility_problems(group, settled)]
    return TensorSet(tuple(models), based), problems


def load_tensors(
    *sources: Path | str, labels: Sequence[str] = (), based: bool = False, sliced: bool = False
) -> TensorSet:
    """Open models (a file, or a directory with one file or an index and shards) and check that they match.

    ``based``: the last one is the base of the others. ``sliced``: they need not match each other. Raises
    :class:`EngineRefusal` with every problem of every model together.
    """
    tensors, problems = inspect(*sources, labels=labels, based=based, sliced=sliced)
    if problems:
        raise EngineRefusal.of(problems)
    return tensors


def _labels(paths: Sequence[Path]) -> list[str]:
    names = [p.name for p in paths]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
