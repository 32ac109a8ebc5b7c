"""Kind evaluate: open the model, read the data set whole, compute sample by sample, measure, store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workers.engines.durable import write_file
from workers.engines.evaluating import ENGINE_VERSION, Evaluation
from workers.engines.measuring import Measured, measure
from workers.engines.results import Results
from workers.engines.samples import Labelled, Samples, read_samples
from workers.evaluate_params import chosen_metrics
from workers.harness_params import HARNESS
from workers.kinds.by_batches import Speech, begun, cut_in_words, digest, lineage, made, refusing
from workers.kinds.context import DONE, JobContext
from workers.kinds.evaluate_tasks import METRICS, OUTPUT, RESULTS, evaluate_by_tasks
from workers.kinds.opening import DataFile, Subject, open_subject

SPEECH = Speech("sample", "EMEP_EVALUATE_THROTTLE_S")


def run(context: JobContext) -> int:
    """Run one attempt of an evaluation; returns its exit code."""
    return refusing(context, _run)


def _run(context: JobContext) -> int:
    devices = begun(context)
    if context.params.get(HARNESS) is not None:
        return evaluate_by_tasks(context, devices)
    subject = open_subject(context, devices, samples_of)
    metrics = chosen_metrics(subject.params, subject.family.task)
    told = lineage(
        context,
        {**subject.params, "metrics": metrics},
        subject.config,
        subject.model.version(ENGINE_VERSION),
        devices[0],
    )
    evaluation = Evaluation(subject.model, subject.samples, subject.params["batch_size"])
    results = Results(context.checkpoint_dir, digest(told))
    context.log(
        f"plan: {SPEECH.counted(evaluation.count)}, {evaluation.batch_size} at a time, architecture"
        f" {subject.family.name}, metrics {', '.join(metrics)}"
    )
    if isinstance(subject.samples, Labelled) and subject.samples.cut:
        context.log(f"plan: {cut_in_words(SPEECH, len(subject.samples.cut), subject.config)}")
    if not made(context, evaluation, results, SPEECH):
        return context.checkpoint_exit_code
    return _store(context, subject, metrics, results, told)


def samples_of(file: DataFile, params: Mapping[str, Any]) -> Samples:
    """The samples that an evaluation reads of the file; refuses with everything that is wrong with them."""
    return read_samples(
        file.path, file.config, file.family.task, limit=file.limit, label=file.label, words=file.words
    )  # fmt: skip


def _store(
    context: JobContext, subject: Subject[Samples], metrics: list[str], results: Results, told: Mapping[str, Any]
) -> int:
    destination = context.output_dir / OUTPUT
    shutil.rmtree(destination, ignore_errors=True)  # what an attempt left that was killed while it published
    destination.mkdir(parents=True)
    found = measure(results.publish(destination / RESULTS), subject.family.task, metrics)
    document = {
        **asdict(found),
        "architecture": subject.family.name,
        "batch_size": subject.params["batch_size"],
        "engine_version": subject.model.version(ENGINE_VERSION),
    }
    write_file(destination / METRICS, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")
    _tell(context, found)
    context.announce(OUTPUT, "eval", {**told, **asdict(found)})
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
            f"metrics: the loss of {odd} of {SPEECH.counted(samples)} is no finite number, so theirs and its sums are"
            " not"
        )
