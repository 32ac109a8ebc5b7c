"""Can this merge be done? Whatever can be known before data is read, and every reason against it at once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.catalog import check_params
from workers.engines.merging import Candidate, MergeEngine, table_of
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.tensors import TensorSet, inspect
from workers.engines.writing import PART
from workers.kinds.checkpoint import FRAMEWORK
from workers.kinds.companions import companions_of
from workers.kinds.context import JobContext
from workers.merge_mismatch import reconciled
from workers.merge_recipe import BASE_INPUT, Recipe, names_base, recipe_of
from workers.tokenizer_files import has_tokenizer
from workers.tokenizer_source import lacks_tokenizer


def checked(context: JobContext, free_memory: int | None) -> tuple[Recipe, TensorSet, Candidate]:
    """The merge, its opened models and its candidate; refuses with all that is wrong with parameters, models, layers,
    tokenizer, disk and memory. ``free_memory``: bytes that the job may still take, None where nothing limits it."""
    params, errors = check_params("merge", context.params)
    recipe = None if errors else recipe_of(params)
    sliced = recipe.is_sliced if recipe else params.get("recipe") is not None
    problems = [Problem("config", e.message, {"field": e.field}) for e in errors]
    based = context.input(BASE_INPUT) is not None
    tensors, found = inspect(
        *(i.directory for i in context.inputs), labels=_titles(context), based=based, sliced=sliced,
        reconciled=lambda models: reconciled(
            params.get("on_mismatch"), [table_of(model) for model in models], based=names_base(params)
        ),
    )  # fmt: skip
    problems += found
    candidate: Candidate | None = None
    if recipe and not problems:
        try:
            candidate = MergeEngine().follow(recipe, tensors, _of_all(params), [i.name for i in context.inputs])
            problems += _space_problems(sum(spec.nbytes for spec in candidate.outputs), context.checkpoint_dir)
            problems += _memory_problems(candidate.memory_estimate(), free_memory)
        except EngineRefusal as refusal:
            problems += refusal.problems
    elif not sliced:
        problems += _space_problems(_whole_size(tensors, params), context.checkpoint_dir)
    problems += _tokenizer_problems(context, recipe) if recipe else []
    if recipe and candidate and not problems:
        return recipe, tensors, candidate
    raise EngineRefusal.of(problems)


def _tokenizer_problems(context: JobContext, recipe: Recipe) -> list[Problem]:
    """A model that was named for its tokenizer and has none."""
    source = context.inputs_by_name[recipe.tokenizer]
    if not recipe.names_tokenizer or has_tokenizer(companions_of(source.directory)):
        return []
    return [Problem("no_tokenizer", lacks_tokenizer(source.title), {"model": source.title})]


def _of_all(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that hold for all tensors, wherever they stand."""
    document = params.get("recipe") or {}
    return {**params, **{name: document[name] for name in ("dtype", "out_dtype") if document.get(name) is not None}}


def _titles(context: JobContext) -> list[str]:
    """What people call the models; two of one name are told apart by their place in the recipe."""
    titles = [i.title for i in context.inputs]
    return [f"{i.title} ({i.name})" if titles.count(i.title) > 1 else i.title for i in context.inputs]


def _whole_size(tensors: TensorSet, params: Mapping[str, Any]) -> int:
    """Bytes that whole models come to when they are merged, as far as that is known before they are found to match."""
    if not tensors.models:
        return 0
    widths = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
    width = widths.get(str(params.get("out_dtype") or params.get("dtype")))
    return sum(s.numel * (width if width and s.dtype.kind == "float" else s.dtype.size) for s in tensors.specs)


def _space_problems(needed: int, work: Path) -> list[Problem]:
    left = (work / FRAMEWORK).glob("*" + PART), (work / FRAMEWORK).glob("step-*/*.bin")  # either makes room for it
    held = sum(path.stat().st_size for paths in left for path in paths)
    free = shutil.disk_usage(work).free
    if needed <= free + held:
        return []
    return [
        Problem(
            "no_space",
            f"the output needs {needed} bytes and the disk has {free} free; free space and run it again",
            {"needed": needed, "free": free},
        )
    ]


def _memory_problems(needed: int, free: int | None) -> list[Problem]:
    if free is None or needed <= free:
        return []
    return [
        Problem(
            "no_memory",
            f"the merge takes up to {needed} bytes of memory for data and the job's limit leaves {free}: run it where "
            "job_memory_bytes is higher",
            {"needed": needed, "free": free},
        )
    ]
