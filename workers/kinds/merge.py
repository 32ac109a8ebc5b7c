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

from workers.engines.merging import ENGINE_VERSION, Candidate, device_class
from workers.engines.planning import OutputPlan, PlannedTensor, plan_output
from workers.engines.producing import partition, produce
from workers.engines.refusals import EngineRefusal
from workers.engines.writing import PlannedWriter
from workers.kinds.checkpoint import FRAMEWORK, Checkpoints
from workers.kinds.companions import copy_companions
from workers.kinds.context import DONE, REFUSED, JobContext
from workers.kinds.devices import prepare_devices, sharing
from workers.kinds.memory import fitting, room
from workers.kinds.merge_check import checked
from workers.kinds.result_config import fit_config, is_untied, layers_taken, rows_cut, stored_type
from workers.merge_recipe import BASE_INPUT, Recipe, recipe_references, renamed
from workers.merge_table import LEFT_OUT, grouped, is_worth_telling, layers_left_out
from workers.model_layers import layer_of
from workers.tokenizer_files import is_of_tokenizer

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
    free_memory = room()
    recipe, _, candidate = checked(context, free_memory)
    count = fitting(candidate.memory_estimate, len(devices), free_memory)
    if count < len(devices):
        context.log(f"memory for {count} of {len(devices)} devices: the others are not used")
        devices = devices[:count]
    told = lineage_of(context, recipe, candidate, device_class(devices[0]))
    plan = planned(context, candidate, told)
    context.log(
        f"plan: {_counted(len(plan.tensors), 'tensor')}, {plan.size} bytes in {_counted(len(plan.files), 'file')}, "
        f"at most {candidate.memory_estimate(len(devices))} bytes of memory for data, {plan.digest}"
    )
    if recipe.pattern is not None:
        context.log(f"plan: {_layers_found(recipe, candidate)}")
    for line in _values(recipe, candidate):
        context.log(f"plan: {line}")
    writer = PlannedWriter(plan, context.checkpoint_dir / FRAMEWORK)
    checkpoints = Checkpoints(context, writer, told)
    try:
        kept = checkpoints.open()
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
            on_tensor=_Progress(context, writer, len(devices), checkpoints).on_tensor,
            should_stop=context.stop.requested,
            must_stop=context.stop.overdue,
        )
        if not complete:
            return checkpoints.leave()
        store(context, writer, told, recipe, candidate)
        context.events.emit("done")
        checkpoints.forget()
        return DONE
    except EngineRefusal:
        raise
    except Exception:
        checkpoints.at_fault()
        raise
    finally:
        writer.close()


def lineage_of(context: JobContext, recipe: Recipe, candidate: Candidate, device: str) -> dict[str, Any]:
    """What the output's bytes depend on, and the key of it: this becomes the artifact's lineage."""
    parents = [i.artifact for i in context.inputs]
    return _Lineage(_recipe(context, recipe, candidate), parents, device).document()


def planned(context: JobContext, candidate: Candidate, lineage: Mapping[str, Any]) -> OutputPlan:
    """Where every byte of the output will lie; its digest identifies the merge."""
    return plan_output(
        candidate.outputs,
        metadata=candidate.metadata,
        identity=lineage,
        max_shard_size=context.params.get("max_shard_size"),
    )


def _values(recipe: Recipe, candidate: Candidate) -> Iterator[str]:
    """A line for each group of tensors that share models and values, where not all do."""
    if is_worth_telling(recipe):
        for group in grouped(candidate.table):
            made = f"of {' and '.join(group.models)}" if recipe.is_sliced or group.note == LEFT_OUT else ""
            how = ", ".join(filter(None, (group.said, made))) or "alike in all models"
            yield f"{how}: {_counted(len(group.tensors), 'tensor')}, {group.shown}"
        if layers := layers_left_out(candidate.table, recipe.pattern):
            numbers = ", ".join(map(str, layers))
            fits = "config.json is carried as it is: see to it that its number of layers fits"
            yield f"left out as a whole: {'layer' if len(layers) == 1 else 'layers'} {numbers}; {fits}"


def _layers_found(recipe: Recipe, candidate: Candidate) -> str:
    """Which layers the pattern finds in the result."""
    layers = [layer for spec in candidate.outputs if (layer := layer_of(spec.name, recipe.pattern)) is not None]
    numbers = sorted({number for _, number, _ in layers})
    told = f"{_counted(len(numbers), 'layer')}, {numbers[0]} to {numbers[-1]}"
    return f"layer_pattern {recipe.pattern!r} finds {told}, in {len(layers)} of {len(candidate.outputs)} tensors"


def _recipe(context: JobContext, recipe: Recipe, candidate: Candidate) -> dict[str, Any]:
    """The candidate's recipe with the artifacts in the place of their names, and the one that is its base, which tells
    the last parent from the others."""
    asked, base = candidate.recipe(), context.input(BASE_INPUT)
    artifacts = {i.name: i.artifact for i in context.inputs}
    if "tokenizer_source" in asked:
        asked["tokenizer_source"] = artifacts[recipe.tokenizer]
    if "recipe" in asked:
        names = {name: artifacts[given] for _, name, given in recipe_references(asked["recipe"])}
        asked["recipe"] = renamed(asked["recipe"], names)
    return {**asked, **({"base_model": base.artifact} if base else {})}


class _Progress:
    """Tells of finished tensors and has them saved now and then; with the throttle set (demos, tests) takes its time
    about each, on several devices so much longer that as many are finished in a second."""

    def __init__(self, context: JobContext, writer: PlannedWriter, devices: int, checkpoints: Checkpoints) -> None:
        self._context = context
        self._checkpoints = checkpoints
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
        self._checkpoints.now_and_then()
        if self._throttle_s:
            self._context.stop.wait(self._throttle_s)


def store(
    context: JobContext, writer: PlannedWriter, lineage: Mapping[str, Any], recipe: Recipe, candidate: Candidate,
    name: str = OUTPUT,
) -> None:  # fmt: skip
    """The written output lies in the output directory with its small files, and is announced under ``name``."""
    destination = context.output_dir / name
    shutil.rmtree(destination, ignore_errors=True)  # what an attempt left that was killed while it published
    copied, carried = _carry(context, recipe, destination)
    taken = layers_taken(recipe) if recipe.is_sliced else None
    stored, cut = stored_type(candidate.outputs), rows_cut(candidate)
    for changed in fit_config(destination, taken=taken, stored=stored, cut=cut, untied=is_untied(candidate)):
        context.log(f"store: {changed}")
    published = writer.publish(destination)
    context.announce(name, "model", {**lineage, **carried})
    context.log(
        f"store: {name} with {_counted(len(published), 'weight file')}, {writer.plan.size} bytes,"
        f" and {', '.join(copied) or 'no other file'}"
    )


def _carry(context: JobContext, recipe: Recipe, destination: Path) -> tuple[list[str], dict[str, str]]:
    """Copy the small files and the tokenizer into the result: their names, and the artifacts that they are of."""
    files, tokenizer = (context.inputs_by_name[name] for name in (recipe.carries, recipe.tokenizer))
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


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
