"""Kind merge: load_tensors, plan, merge tensor by tensor, store. Reads as the sequence of the specification."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workers.catalog import check_params
from workers.engines.merging import ENGINE_VERSION, Candidate, MergeEngine, device_class
from workers.engines.planning import PlannedTensor, plan_output
from workers.engines.producing import partition, produce
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.tensors import TensorSet, inspect
from workers.engines.writing import PART, PlannedWriter
from workers.kinds.checkpoint import FRAMEWORK, save, spent_before
from workers.kinds.companions import companions_of, copy_companions
from workers.kinds.context import DONE, REFUSED, JobContext, JobInput
from workers.kinds.devices import prepare_devices, sharing
from workers.kinds.memory import fitting, room
from workers.kinds.result_config import fit_config, layers_taken, stored_type
from workers.merge_recipe import BASE_INPUT, Recipe, recipe_of, recipe_references, renamed
from workers.merge_table import grouped, is_worth_telling
from workers.model_layers import layer_of
from workers.tokenizer_files import has_tokenizer, is_of_tokenizer
from workers.tokenizer_source import lacks_tokenizer

OUTPUT = "merged"
THROTTLE = "EMEP_MERGE_THROTTLE_S"
TELL_EVERY_S = 0.1  # the agent takes 100 lines a second; a model has thousands of tensors


@dataclass(frozen=True, slots=True)
class _Lineage:
    """What the output's bytes depend on: this identifies the plan and becomes the artifact's lineage."""

    recipe: Mapping[str, Any]
    parents: list[str]
    device_class: str

    def document(self) -> dict[str, Any]:
        basis = {
            "recipe": self.recipe,
            "parents": self.parents,
            "engine_version": ENGINE_VERSION,
            "device_class": self.device_class,
        }
        key = hashlib.sha256(json.dumps(basis, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        return {**basis, "derivation_key": key}


def run(context: JobContext) -> int:
    """Run one attempt of a merge; returns its exit code."""
    try:
        return _run(context)
    except EngineRefusal as refusal:
        context.events.error(refusal.code, refusal.message, refusal.details)
        sys.stderr.write(f"refused ({refusal.code}): {refusal.message}\n")
        return REFUSED


def _run(context: JobContext) -> int:
    prepared, why = prepare_devices(context.gpu_count)
    devices = sharing(prepared, context.gpu_count)
    context.log(why)
    if len(prepared) > len(devices):
        context.log(f"{device_class(devices[0])} only: the other {len(prepared) - len(devices)} would give other bits")
    context.log(f"load_tensors: {', '.join(f'{i.title} ({i.artifact})' for i in context.inputs)}")
    recipe, candidate = _candidate(context)
    devices = _with_room(context, candidate, devices)
    lineage = _Lineage(
        _recipe(context, recipe, candidate), [i.artifact for i in context.inputs], device_class(devices[0])
    )
    told = lineage.document()
    plan = plan_output(
        candidate.outputs,
        metadata=candidate.metadata,
        identity=told,
        max_shard_size=context.params.get("max_shard_size"),
    )
    context.log(
        f"plan: {_counted(len(plan.tensors), 'tensor')}, {plan.size} bytes in {_counted(len(plan.files), 'file')}, "
        f"at most {candidate.memory_estimate(len(devices))} bytes of memory for data, {plan.digest}"
    )
    if recipe.pattern is not None:
        context.log(f"plan: {_layers_found(recipe, candidate)}")
    for line in _values(recipe, candidate):
        context.log(f"plan: {line}")
    before = spent_before(context.checkpoint_dir, plan.digest) if context.resuming else 0.0
    writer = PlannedWriter(plan, context.checkpoint_dir / FRAMEWORK)
    try:
        kept = writer.open()
        if context.resuming:
            context.log(f"resume: {len(kept)} of {_counted(len(plan.tensors), 'tensor')} verified and kept")
        if len(devices) > 1:
            shares = partition([t for t in plan.tensors if t.spec.name not in kept], len(devices))
            sizes = ", ".join(str(sum(t.spec.nbytes for t in share)) for share in shares)
            context.log(f"merge: shared out to {len(devices)} devices by size: {sizes} bytes")
        complete = produce(
            candidate,
            writer,
            devices=devices,
            on_tensor=_Progress(context, writer, len(devices)).on_tensor,
            should_stop=context.stop.requested,
            must_stop=context.stop.overdue,
        )
        if not complete:
            return _checkpoint(context, writer, told, before)
        return _store(context, writer, told, recipe, stored_type(candidate.outputs))
    finally:
        writer.close()


def _with_room(context: JobContext, candidate: Candidate, devices: list[torch.device]) -> list[torch.device]:
    """As many of the devices as there is memory to compute on at once. Refuses where there is too little for one."""
    free = room()
    count = fitting(candidate.memory_estimate, len(devices), free)
    if count == 0:
        needed = candidate.memory_estimate()
        raise EngineRefusal(
            "no_memory",
            f"the merge takes up to {needed} bytes of memory for data and the job's limit leaves {free}: run it where "
            "job_memory_bytes is higher",
            {"needed": needed, "free": free},
        )
    if count < len(devices):
        context.log(f"memory for {count} of {len(devices)} devices: the others are not used")
    return devices[:count]


def _candidate(context: JobContext) -> tuple[Recipe, Candidate]:
    """The merge and its candidate. Everything that can be checked without reading data is refused together."""
    params, errors = check_params("merge", context.params)
    recipe = None if errors else recipe_of(params)
    sliced = recipe.is_sliced if recipe else params.get("recipe") is not None
    problems = [Problem("config", e.message, {"field": e.field}) for e in errors]
    tensors, found = inspect(
        *(i.directory for i in context.inputs), labels=_titles(context), based=_base(context) is not None, sliced=sliced
    )
    problems += found
    candidate: Candidate | None = None
    if recipe and not problems:
        try:
            candidate = MergeEngine().follow(recipe, tensors, _of_all(params), [i.name for i in context.inputs])
            problems += _space_problems(sum(spec.nbytes for spec in candidate.outputs), context.checkpoint_dir)
        except EngineRefusal as refusal:
            problems += refusal.problems
    elif not sliced:
        problems += _space_problems(_whole_size(tensors, params), context.checkpoint_dir)
    problems += _tokenizer_problems(context, recipe) if recipe else []
    if recipe and candidate and not problems:
        return recipe, candidate
    raise EngineRefusal.of(problems)


def _tokenizer_problems(context: JobContext, recipe: Recipe) -> list[Problem]:
    """A model that was named for its tokenizer and has none."""
    source = _input(context, recipe.tokenizer)
    if not recipe.names_tokenizer or has_tokenizer(companions_of(source.directory)):
        return []
    return [Problem("no_tokenizer", lacks_tokenizer(source.title), {"model": source.title})]


def _of_all(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that hold for all tensors, wherever they stand."""
    document = params.get("recipe") or {}
    return {**params, **{name: document[name] for name in ("dtype", "out_dtype") if document.get(name) is not None}}


def _values(recipe: Recipe, candidate: Candidate) -> Iterator[str]:
    """A line for each group of tensors that share models and values, where not all do."""
    if is_worth_telling(recipe):
        for group in grouped(candidate.table):
            made = f"of {' and '.join(group.models)}" if recipe.is_sliced else ""
            how = ", ".join(filter(None, (group.said, made)))
            yield f"{how}: {_counted(len(group.tensors), 'tensor')}, {group.shown}"


def _layers_found(recipe: Recipe, candidate: Candidate) -> str:
    """Which layers the pattern finds in the result."""
    layers = [layer for spec in candidate.outputs if (layer := layer_of(spec.name, recipe.pattern)) is not None]
    numbers = sorted({number for _, number, _ in layers})
    told = f"{_counted(len(numbers), 'layer')}, {numbers[0]} to {numbers[-1]}"
    return f"layer_pattern {recipe.pattern!r} finds {told}, in {len(layers)} of {len(candidate.outputs)} tensors"


def _base(context: JobContext) -> JobInput | None:
    """The model that the others were tuned from; it is the last input."""
    return next((i for i in context.inputs if i.name == BASE_INPUT), None)


def _recipe(context: JobContext, recipe: Recipe, candidate: Candidate) -> dict[str, Any]:
    """The candidate's recipe with the artifacts in the place of their names, and the one that is its base, which tells
    the last parent from the others."""
    asked, base = candidate.recipe(), _base(context)
    artifacts = {i.name: i.artifact for i in context.inputs}
    if "tokenizer_source" in asked:
        asked["tokenizer_source"] = artifacts[recipe.tokenizer]
    if "recipe" in asked:
        names = {name: artifacts[given] for _, name, given in recipe_references(asked["recipe"])}
        asked["recipe"] = renamed(asked["recipe"], names)
    return {**asked, **({"base_model": base.artifact} if base else {})}


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
    held = sum(p.stat().st_size for p in (work / FRAMEWORK).glob("*" + PART))
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


class _Progress:
    """Tells of finished tensors; with the throttle set (demos, tests) takes its time about each, on several devices so
    much longer that as many are finished in a second."""

    def __init__(self, context: JobContext, writer: PlannedWriter, devices: int) -> None:
        self._context = context
        self._total, self._step = len(writer.plan.tensors), len(writer.done)
        self._throttle_s = float(context.environ.get(THROTTLE) or 0.0) * devices
        self._lock = threading.Lock()
        self._bytes = 0
        self._begun_at = context.elapsed()
        self._told_at = self._begun_at - TELL_EVERY_S

    def on_tensor(self, tensor: PlannedTensor) -> None:
        with self._lock:
            self._bytes += tensor.spec.nbytes
            self._step += 1
            step, total, now = self._step, self._total, self._context.elapsed()
            if step == total or now - self._told_at >= TELL_EVERY_S:
                self._told_at = now
                rate = round(self._bytes / 1e6 / max(now - self._begun_at, 1e-3), 2)
                self._context.events.emit("progress", step=step, total=total, unit="tensor", rate=rate)
                self._context.log(f"merge {step}/{total} {tensor.spec.name} {list(tensor.spec.shape)} {rate} MB/s")
        if self._throttle_s:
            self._context.stop.wait(self._throttle_s)


def _checkpoint(context: JobContext, writer: PlannedWriter, lineage: Mapping[str, Any], before: float) -> int:
    step, total = len(writer.done), len(writer.plan.tensors)
    experiment = {
        "kind": "merge",
        "params": dict(context.params),
        "seed": context.params.get("seed", 0),
        "step": step,
        "total": total,
        "lineage": dict(lineage),
        "plan": writer.plan.digest,
        "torch": torch.__version__,
    }
    told = save(context.checkpoint_dir, writer, experiment=experiment, spent_s=before + context.elapsed())
    context.events.emit("checkpoint", step=step, path=".", **told)
    what = "kept, shipping is cheaper than redoing" if told["output_kept"] else "dropped, redoing is cheaper"
    context.log(f"checkpoint: {step} of {_counted(total, 'tensor')}; the part-written output is {what}")
    return context.checkpoint_exit_code


def _store(
    context: JobContext, writer: PlannedWriter, lineage: Mapping[str, Any], recipe: Recipe, stored: str | None
) -> int:
    destination = context.output_dir / OUTPUT
    shutil.rmtree(destination, ignore_errors=True)  # what an attempt left that was killed while it published
    copied, carried = _carry(context, recipe, destination)
    taken = layers_taken(recipe) if recipe.is_sliced else None
    for changed in fit_config(destination, taken=taken, stored=stored):
        context.log(f"store: {changed}")
    published = writer.publish(destination)
    context.events.emit("artifact", name=OUTPUT, path=OUTPUT, kind="model", meta={**lineage, **carried})
    context.log(
        f"store: {OUTPUT} with {_counted(len(published), 'weight file')}, {writer.plan.size} bytes,"
        f" and {', '.join(copied) or 'no other file'}"
    )
    context.events.emit("done")
    return DONE


def _carry(context: JobContext, recipe: Recipe, destination: Path) -> tuple[list[str], dict[str, str]]:
    """Copy the small files and the tokenizer into the result: their names, and the artifacts that they are of."""
    files, tokenizer = (_input(context, name) for name in (recipe.carries, recipe.tokenizer))
    if files is tokenizer:
        parts = [copy_companions(files.directory, destination)]
        context.log(f"store: small files of {files.title}")
    else:
        parts = [
            copy_companions(files.directory, destination, lambda path: not is_of_tokenizer(path)),
            copy_companions(tokenizer.directory, destination, is_of_tokenizer),
        ]
        context.log(f"store: small files of {files.title}, tokenizer of {tokenizer.title}")
    for name in (name for part in parts for name in part.skipped):
        context.log(f"not copied, too large for a companion file: {name}")
    copied = sorted(name for part in parts for name in part.copied)
    return copied, {"small_files_of": files.artifact, "tokenizer_of": tokenizer.artifact}


def _input(context: JobContext, name: str) -> JobInput:
    return next(i for i in context.inputs if i.name == name)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
