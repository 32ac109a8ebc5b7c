"""The merge strategies: what each does in words, how many models it takes, which parameters are its own.

Form, REST, the published schema and the engines read this table. A new strategy is one line here and its kernel in
``workers/engines/strategies``. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MAX_MODELS = 32
RESCALES = ("inverse", "l1", "none")
GRANULARITIES = ("tensor", "row")
BaseRule = Literal["none", "optional", "required"]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A merge strategy: its formula in words, how many models it takes (a base not counted), its own parameters.

    ``base``: whether ``base_model`` must or may be given. ``normalize``: the default of that parameter where it is
    among ``own``. ``by_sum``: normalising divides by the plain sum of the weights, which then must not be 0.
    """

    name: str
    summary: str
    min_models: int
    max_models: int
    own: tuple[str, ...]
    base: BaseRule = "none"
    normalize: bool = False
    by_sum: bool = True


_SUM = ("base_model", "weights", "normalize", "lambda")


def _of_task_vectors(name: str, summary: str, *own: str, normalize: bool = False, by_sum: bool = True) -> Strategy:
    """A strategy on the differences of one model or more to a base."""
    return Strategy(name, summary, 1, MAX_MODELS, (*_SUM, *own), base="required", normalize=normalize, by_sum=by_sum)


_ALL = (
    Strategy("slerp", "spherical interpolation of two models, t = 0 is the first", 2, 2, ("t",)),
    Strategy("linear", "weighted mean of the models", 2, MAX_MODELS, ("weights", "normalize"), normalize=True),
    Strategy(
        "nuslerp", "spherical interpolation of two models by their weights, of their changes to a base if there is one",
        2, 2, ("base_model", "weights", "granularity"), base="optional",
    ),
    _of_task_vectors("task_arithmetic", "adds the weighted changes of each model to the base"),
    _of_task_vectors(
        "ties", "keeps the largest changes of each model, then the mean of those that agree in sign", "density",
        normalize=True, by_sum=False,
    ),
    _of_task_vectors("dare_linear", "drops changes at random, enlarges the rest and adds them", "density", "rescale"),
    _of_task_vectors(
        "dare_ties", "drops changes at random, enlarges the rest and adds those that agree in sign", "density",
        "rescale", by_sum=False,
    ),
    _of_task_vectors(
        "della", "drops changes at random, small ones rather, then the mean of those that agree in sign", "density",
        "epsilon", "rescale", normalize=True, by_sum=False,
    ),
    _of_task_vectors(
        "della_linear", "drops changes at random, small ones rather, and adds the rest", "density", "epsilon", "rescale"
    ),
    _of_task_vectors("breadcrumbs", "drops the largest and the smallest changes and adds the rest", "density", "gamma"),
    _of_task_vectors(
        "breadcrumbs_ties", "drops the largest and the smallest changes and adds those that agree in sign", "density",
        "gamma", by_sum=False,
    ),
    Strategy(
        "model_stock", "as far from the base towards the mean of the models as the angles between them say", 2,
        MAX_MODELS, ("base_model", "granularity"), base="required",
    ),
    Strategy("passthrough", "copies one model, each tensor times scale; by a recipe's slices layers of several", 1, 1,
             ("scale",)),
)  # fmt: skip
STRATEGIES: dict[str, Strategy] = {each.name: each for each in _ALL}
