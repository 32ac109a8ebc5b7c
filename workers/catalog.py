"""The kinds of job and their parameters: what may be asked, checked in one place. Standard library only.

Form, REST and the job itself read this file, so all three refuse alike. A new kind is one :class:`Kind` in
``KINDS``; a new merge strategy is one line in ``workers/merge_strategies.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workers.command_params import check_command, command_references
from workers.evaluate_params import DATASET, check_evaluate, evaluate_references, metric_faults
from workers.evolve_params import TEST, check_evolve, evolve_references
from workers.infer_params import INPUT, check_infer, generation_faults, infer_references
from workers.merge_params import check_merge, merge_references
from workers.model_families import Family
from workers.param_errors import ParamError as ParamError
from workers.param_errors import nearest as nearest
from workers.rows_params import MODEL


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job: its default queue, what a user sees, and ``check(params) -> (clean params, errors)``.

    ``takes`` are the kinds of artifact it reads; empty for any. ``reads`` says so of inputs by their names, where each
    is of another kind. ``over_nodes``: whether it may lie on several nodes. ``repeatable``: the same parameters and
    artifacts always come to the same result. ``fits``: of a kind that runs a model over the rows of a data set, what of
    the clean parameters a model of the family can't do; ``data`` is the input that holds them.
    """

    name: str
    title: str
    queue: str
    check: Callable[[Mapping[str, Any]], tuple[dict[str, Any], list[ParamError]]]
    references: Callable[[Mapping[str, Any]], list[tuple[str, str, str]]]
    takes: tuple[str, ...] = ()
    over_nodes: bool = False
    repeatable: bool = False
    reads: Mapping[str, str] = field(default_factory=dict)
    fits: Callable[[Family, Mapping[str, Any]], list[ParamError]] | None = None

    @property
    def data(self) -> str:
        """The name of the input that is a data set."""
        return next(name for name, kind in self.reads.items() if kind == "dataset")

    def kinds_of(self, name: str) -> tuple[str, ...]:
        """The kinds of artifact that the input of this name may be; empty for any."""
        return (self.reads[name],) if name in self.reads else self.takes


KINDS: dict[str, Kind] = {
    "merge": Kind("merge", "Merge models", "merge", check_merge, merge_references, takes=("model",), repeatable=True),
    "evolve": Kind(
        "evolve", "Search for the best merge", "merge", check_evolve, evolve_references, takes=("model",),
        repeatable=True, reads={DATASET: "dataset", TEST: "dataset"},
    ),
    "evaluate": Kind(
        "evaluate", "Evaluate a model", "eval", check_evaluate, evaluate_references, repeatable=True,
        reads={MODEL: "model", DATASET: "dataset"}, fits=metric_faults,
    ),
    "infer": Kind(
        "infer", "Run a model over rows", "inference", check_infer, infer_references, repeatable=True,
        reads={MODEL: "model", INPUT: "dataset"}, fits=generation_faults,
    ),
    "command": Kind("command", "Run a program", "merge", check_command, command_references, over_nodes=True),
}  # fmt: skip


def check_params(kind: str, params: Any) -> tuple[dict[str, Any], list[ParamError]]:
    """The clean parameters of ``kind`` and everything wrong with them; ``kind`` must be one of ``KINDS``."""
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        return {}, [ParamError("params", "not_an_object", "params must be an object")]
    return KINDS[kind].check(params)
