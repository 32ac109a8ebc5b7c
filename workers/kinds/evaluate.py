"""Kind evaluate: open the model, read the data set whole, compute sample by sample, measure, store."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from workers.catalog import check_params
from workers.engines.durable import write_file
from workers.engines.evaluating import ENGINE_VERSION, Evaluation, evaluate
from workers.engines.measuring import Measured, measure
from workers.engines.merging import device_class
from workers.engines.models import Loaded, load
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.results import Results
from workers.engines.samples import Rows, Texts, read_samples
from workers.engines.sources import Model, open_model
from workers.evaluate_params import (
    CONFIG,
    DATASET,
    MAX_CONFIG,
    MODEL,
    chosen_metrics,
    data_file,
    family_of,
    fit_faults,
    format_faults,
)
from workers.kinds.context import DONE, REFUSED, JobContext, JobInput
from workers.kinds.devices import prepare_devices, sharing
from workers.model_families import Family
from workers.param_errors import ParamError

OUTPUT = "evaluation"
RESULTS, METRICS = "results.jsonl", "metrics.json"
THROTTLE = "EMEP_EVALUATE_THROTTLE_S"
TELL_EVERY_S = 0.1  # the agent takes 100 lines a second
SAVE_EVERY_S = 30.0
# Or as seldom as this share of the time so far, so that an evaluation of days has some hundred steps and not thousands.
SAVE_SHARE = 0.05
UNSAVED_BYTES = 64_000_000
T = TypeVar("T")


def run(context: JobContext) -> int:
    """Run one attempt of an evaluation; returns its exit code."""
    try:
        return _run(context)
    except EngineRefusal as refusal:
        context.events.error(refusal.code, refusal.message, refusal.details)
        sys.stderr.write(f"refused ({refusal.code}): {refusal.message}\n")
        return REFUSED


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is evaluated: the parameters, the model with its family and configuration, and the samples."""

    params: Mapping[str, Any]
    family: Family
    config: Mapping[str, Any]
    model: Loaded
    samples: Rows | Texts

    @property
    def metrics(self) -> list[str]:
        """The metrics that are told, in their order."""
        return chosen_metrics(self.params, self.family.task)


def _run(context: JobContext) -> int:
    found, why = prepare_devices(context.gpu_count)
    devices = sharing(found, context.gpu_count)
    context.log(why)
    context.log(f"load: {', '.join(f'{i.name} {i.title} ({i.artifact})' for i in context.inputs)}")
    subject = _Opening(context).subject(devices)
    told = _lineage(context, subject, device_class(devices[0]))
    evaluation = Evaluation(subject.model, subject.samples, subject.params["batch_size"])
    results = Results(context.checkpoint_dir, _digest(told))
    context.log(
        f"plan: {_counted(len(subject.samples))}, {evaluation.batch_size} at a time, architecture"
        f" {subject.family.name}, metrics {', '.join(subject.metrics)}"
    )
    kept = results.restore()
    if context.resuming:
        context.log(f"resume: {kept} of {_counted(len(subject.samples))} verified and kept")
    pace = _Pace(context, results, len(subject.samples))
    try:
        complete = evaluate(
            evaluation, results, on_batch=pace.on_batch, should_stop=context.stop.requested,
            must_stop=context.stop.overdue,
        )  # fmt: skip
    except (torch.OutOfMemoryError, MemoryError) as error:
        pace.save()
        raise EngineRefusal(
            "out_of_memory",
            f"{evaluation.batch_size} samples at a time don't fit into memory ({str(error)[:200]}): lower batch_size,"
            " or ask for GPUs with more memory",
            {"field": "params.batch_size", "limit": evaluation.batch_size},
        ) from error
    except Exception:
        pace.save()  # what is done is there for a retry
        raise
    if not complete:
        pace.save()
        context.log(f"checkpoint: {len(results)} of {_counted(len(subject.samples))}")
        return context.checkpoint_exit_code
    return _store(context, subject, results, told)


class _Opening:
    """Opens what the job reads and gathers all that is wrong with it, as far as it can be known beside the rest."""

    def __init__(self, context: JobContext) -> None:
        self._inputs = {i.name: i for i in context.inputs}
        self._params, errors = check_params("evaluate", context.params)
        self._problems = [Problem("config", e.message, {"field": e.field}) for e in errors]

    def subject(self, devices: Sequence[torch.device]) -> _Subject:
        """All of it, checked; raises one refusal with everything that is wrong."""
        model, dataset = self._inputs[MODEL], self._inputs[DATASET]
        source = self._tried(lambda: open_model(model.directory, model.title))
        family, config = self._family(model)
        loaded = samples = None
        if family is not None:
            wrong = fit_faults(family, config, self._params, model.title, _table(source) if source else None)
            self._told(wrong)
            if source is not None and not any(each.field == "params.model" for each in wrong):
                loaded = self._tried(lambda: load(source, config, devices))
            samples = self._samples(dataset, family, config)
        if self._problems or family is None or loaded is None or samples is None:
            raise EngineRefusal.of(self._problems)
        return _Subject(self._params, family, config, loaded, samples)

    def _family(self, model: JobInput) -> tuple[Family | None, Mapping[str, Any]]:
        if any(str(p.details.get("field", "")).startswith("params.architecture") for p in self._problems):
            return None, {}
        family, config, errors = family_of(self._params, _config(model.directory), model.title)
        self._told(errors)
        return (None, {}) if errors else (family, config)

    def _samples(self, dataset: JobInput, family: Family, config: Mapping[str, Any]) -> Rows | Texts | None:
        files = [p.relative_to(dataset.directory).as_posix() for p in dataset.directory.rglob("*") if p.is_file()]
        path, errors = data_file(files, self._params.get("file"), dataset.title)
        if path is not None:
            errors += format_faults(path, family.task, dataset.title)
        self._told(errors)
        limit = self._params.get("limit")
        if path is None or errors or (limit is not None and type(limit) is not int):
            return None
        label = f"{dataset.title}: {path}" if dataset.title != path else path
        return self._tried(
            lambda: read_samples(dataset.directory / path, config, family.task, limit=limit, label=label)
        )

    def _told(self, errors: Sequence[ParamError]) -> None:
        self._problems += [Problem(e.code, e.message, {"field": e.field}) for e in errors]

    def _tried(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except EngineRefusal as refusal:
            self._problems += refusal.problems
            return None


def _config(directory: Path) -> Any:
    """What the model's ``config.json`` says; None where it has none that can be read."""
    path = directory / CONFIG
    try:
        return json.loads(path.read_text("utf-8")) if path.stat().st_size <= MAX_CONFIG else None
    except (OSError, ValueError, RecursionError):
        return None


def _table(source: Model) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (spec.dtype.name, spec.shape) for name, spec in source.specs.items()}


def _lineage(context: JobContext, subject: _Subject, device: str) -> dict[str, Any]:
    """What the results depend on: this identifies the plan and becomes the artifact's lineage."""
    artifacts = {i.name: i.artifact for i in context.inputs}
    recipe = {
        **{name: value for name, value in subject.params.items() if value is not None},
        **{name: artifacts[name] for name in (MODEL, DATASET)},
        "metrics": subject.metrics,
        "architecture": _digest(subject.config),  # itself it may be long
    }
    basis = {
        "recipe": recipe,
        "parents": [i.artifact for i in context.inputs],
        "engine_version": ENGINE_VERSION,
        "device_class": device,
    }
    return {**basis, "derivation_key": _digest(basis)}


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class _Pace:
    """Tells of finished samples and saves them now and then; with the throttle set (demos, tests) takes its time."""

    def __init__(self, context: JobContext, results: Results, total: int) -> None:
        self._context = context
        self._results = results
        self._total = total
        self._throttle_s = float(context.environ.get(THROTTLE) or 0.0)
        self._begun_at = self._saved_at = context.elapsed()
        self._begun_with = len(results)
        self._told_at = self._begun_at - TELL_EVERY_S

    def on_batch(self) -> None:
        """After each batch that is appended."""
        step, now = len(self._results), self._context.elapsed()
        if step == self._total or now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            rate = round((step - self._begun_with) / max(now - self._begun_at, 1e-3), 2)
            self._context.events.emit("progress", step=step, total=self._total, unit="sample", rate=rate)
            self._context.log(f"evaluate {step}/{self._total} {rate} samples/s")
        due = max(SAVE_EVERY_S, SAVE_SHARE * (now - self._begun_at))
        if step < self._total and (now - self._saved_at >= due or self._results.unsaved_bytes >= UNSAVED_BYTES):
            self.save()
        if self._throttle_s:
            self._context.stop.wait(self._throttle_s)

    def save(self) -> None:
        """What is there so far is a checkpoint, and announced as one."""
        self._saved_at = self._context.elapsed()
        path = self._results.save()
        self._context.events.emit("checkpoint", step=len(self._results), path=path)


def _store(context: JobContext, subject: _Subject, results: Results, lineage: Mapping[str, Any]) -> int:
    destination = context.output_dir / OUTPUT
    shutil.rmtree(destination, ignore_errors=True)  # what an attempt left that was killed while it published
    destination.mkdir(parents=True)
    found = measure(results.publish(destination / RESULTS), subject.family.task, subject.metrics)
    document = {
        **asdict(found),
        "architecture": subject.family.name,
        "batch_size": subject.params["batch_size"],
        "engine_version": ENGINE_VERSION,
    }
    write_file(destination / METRICS, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")
    _tell(context, found)
    meta = {**lineage, **asdict(found)}
    context.events.emit("artifact", name=OUTPUT, path=OUTPUT, kind="eval", meta=meta)
    context.log(f"store: {OUTPUT} with {RESULTS} and {METRICS}")
    context.events.emit("done")
    return DONE


def _tell(context: JobContext, found: Measured) -> None:
    """Each metric as an event and in the log; one that is no finite number can only be told in words."""
    samples, odd = found.counts["samples"], found.counts["not_finite"]
    told = {name: value for name, value in found.metrics.items() if value is not None}
    for name, value in {**told, **({"not_finite": odd} if odd else {})}.items():
        context.events.emit("metric", name=name, step=samples, value=value)
    words = [f"{name} {'is no finite number' if v is None else f'{v:.6g}'}" for name, v in found.metrics.items()]
    context.log(f"metrics: {', '.join(words)}")
    if odd:
        context.log(
            f"metrics: the loss of {odd} of {_counted(samples)} is no finite number, so theirs and its sums are not"
        )


def _counted(count: int) -> str:
    return f"{count} sample{'' if count == 1 else 's'}"
