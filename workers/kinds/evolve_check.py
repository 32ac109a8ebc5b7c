"""Can this search be done? What it reads, opened and checked: everything that is wrong with it is told at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from workers.catalog import check_params
from workers.engines.candidates import Judge
from workers.engines.merging import Candidate, MergeEngine
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.samples import Samples
from workers.engines.tensors import TensorSet
from workers.evaluate_params import chosen_metrics, metric_faults
from workers.evolve_params import (
    DATASET,
    TEST,
    Plan,
    candidate_params,
    evaluation_field,
    evaluation_params,
    merge_field,
    not_searched,
    plan_of,
    same_data,
)
from workers.kinds.context import JobContext, JobInput
from workers.kinds.evaluate import samples_of
from workers.kinds.merge_check import checked
from workers.kinds.opening import config_of, file_of, problems_of, table_of
from workers.merge_recipe import Recipe, recipe_of
from workers.model_families import Family
from workers.rows_params import family_of, tensor_faults

GIVEN = (DATASET, TEST)


@dataclass(frozen=True, slots=True)
class Made:
    """A candidate: the merge that it is, and the context of the job of kind merge that would write it."""

    context: JobContext
    recipe: Recipe
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched, and by what candidates are judged: on the ``search`` set, and the best on the ``test`` set."""

    params: Mapping[str, Any]
    plan: Plan
    tensors: TensorSet
    models: tuple[JobInput, ...]
    context: JobContext
    search: Judge
    test: Judge | None

    def made(self, point: Sequence[float]) -> Made:
        """The candidate at this point; refuses as a merge does."""
        asked = candidate_params(self.params, self.plan.space.settings(point))
        params, errors = check_params("merge", asked)
        if errors:
            raise EngineRefusal.of(problems_of(errors))
        recipe = recipe_of(params)
        candidate = MergeEngine().follow(recipe, self.tensors, params, [i.name for i in self.models])
        return Made(replace(self.context, params=params), recipe, candidate)


def opened(context: JobContext) -> tuple[Subject, Candidate]:
    """All of it, and the candidate where the search begins; raises one refusal with everything that is wrong."""
    return _Opening(context).subject()


@dataclass(frozen=True, slots=True)
class _Begun:
    """The merge where the search begins, its opened models, and the candidate that it is."""

    recipe: Recipe
    tensors: TensorSet
    first: Candidate


class _Opening:
    def __init__(self, context: JobContext) -> None:
        self._inputs = context.inputs_by_name
        self._params, errors = check_params("evolve", context.params)
        self._problems = [Problem("config", e.message, {"field": e.field}) for e in errors]
        self._wrong = {e.field.split(".")[1] for e in errors if "." in e.field}
        self._models = tuple(i for i in context.inputs if i.name not in GIVEN)
        self._merging = replace(context, kind="merge", params=self._params["merge"], inputs=self._models)

    def subject(self) -> tuple[Subject, Candidate]:
        made = self._merge()
        plan = self._plan(made.first) if made and not self._wrong else None
        family, config = self._family(made)
        samples = {name: self._samples(name, family, config) for name in GIVEN if name in self._inputs}
        given = {self._inputs[name].artifact for name in GIVEN if name in self._inputs}
        if len(given) < len(samples) and not self._wrong and (error := same_data(self._params)):
            self._problems += problems_of([error])
        if self._problems or made is None or plan is None or family is None:
            raise EngineRefusal.of(self._problems)
        metrics = chosen_metrics(self._params["objective"], family.task)

        def judge(name: str) -> Judge | None:
            found = samples.get(name)
            size = self._params["objective"]["batch_size"]
            return None if found is None else Judge(family, config, found, size, metrics)

        search = judge(DATASET)
        if search is None:
            raise RuntimeError("a search without samples has been refused")
        subject = Subject(self._params, plan, made.tensors, self._models, self._merging, search, judge(TEST))
        return subject, made.first

    def _merge(self) -> _Begun | None:
        """The merge where the search begins; what is wrong with its parameters alone was told with the others."""
        try:
            return _Begun(*checked(self._merging, None))
        except EngineRefusal as refusal:
            told = [
                problem for problem in refusal.problems if not ("merge" in self._wrong and problem.code == "config")
            ]
            self._tell(told, merge_field)
            return None

    def _plan(self, candidate: Candidate) -> Plan | None:
        plan, errors = plan_of(self._params, (spec.name for spec in candidate.outputs))
        self._problems += problems_of(errors)
        return plan

    def _family(self, made: _Begun | None) -> tuple[Family | None, Mapping[str, Any]]:
        """What the candidates are: by the objective, else by the configuration that they carry."""
        if made is None or "objective" in self._wrong:
            return None, {}
        carrier = self._inputs[made.recipe.carries]
        asked = evaluation_params(self._params)
        family, config, errors = family_of(asked, config_of(carrier.directory), carrier.title)
        if family is not None and not errors:
            tensors = table_of(made.first.outputs)
            errors = not_searched(family) or [
                *metric_faults(family, asked), *tensor_faults(family, config, carrier.title, tensors)
            ]  # fmt: skip
        self._tell(problems_of(errors), evaluation_field)
        return (None, {}) if errors else (family, config)

    def _samples(self, name: str, family: Family | None, config: Mapping[str, Any]) -> Samples | None:
        test = name == TEST
        if family is None or self._wrong & {"objective", "test"}:
            return None
        asked = evaluation_params(self._params, test=test)
        file, errors = file_of(self._inputs[name], f"params.{DATASET}", asked, family, config)
        problems, samples = problems_of(errors), None
        if file is not None:
            try:
                samples = samples_of(file, asked)
            except EngineRefusal as refusal:
                problems += refusal.problems
        self._tell(problems, lambda field: evaluation_field(field, test=test))
        return samples

    def _tell(self, problems: Iterable[Problem], place: Any) -> None:
        for problem in problems:
            field = problem.details.get("field")
            details = {**problem.details, "field": place(str(field))} if field is not None else problem.details
            self._problems.append(replace(problem, details=details))


def memory_estimate(candidate: Candidate, workers: int) -> int:
    """Upper bound in bytes of what so many candidates take at once that are merged and loaded to compute with."""
    sizes = [spec.numel for spec in candidate.outputs]
    loaded = 8 * sum(sizes) + 16 * max(sizes, default=0)  # float64, and one tensor in parts and whole
    return candidate.memory_estimate(workers) + workers * loaded


def memory_problems(candidate: Candidate, free: int | None, devices: Sequence[torch.device]) -> list[Problem]:
    """A candidate for which the job's memory, or that of one of its GPUs, is too small."""
    needed = memory_estimate(candidate, 1)
    problems = []
    if free is not None and needed > free:
        message = (
            f"a candidate takes up to {needed} bytes of memory and the job's limit leaves {free}: run it where "
            "job_memory_bytes is higher"
        )
        problems.append(Problem("no_memory", message, {"needed": needed, "free": free}))
    loaded = 8 * sum(spec.numel for spec in candidate.outputs)
    for device in dict.fromkeys(device for device in devices if device.type == "cuda"):
        on_device = torch.cuda.mem_get_info(device)[0]
        if loaded > on_device:
            message = (
                f"a candidate takes {loaded} bytes to compute with (float64) and {device} has {on_device} free: ask "
                "for GPUs with more memory (gpu_memory_min)"
            )
            problems.append(Problem("no_memory", message, {"needed": loaded, "free": on_device}))
    return problems
