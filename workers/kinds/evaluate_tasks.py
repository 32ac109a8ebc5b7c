"""Kind evaluate by tasks of lm-eval: build them, answer every request, measure by the library, store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from workers.engines.durable import write_file
from workers.engines.evaluating import ENGINE_VERSION
from workers.engines.harness import Answers, Scored, Tasks, harness_library, open_tasks, scored
from workers.engines.harness_files import TaskFile, read_task_files
from workers.engines.huggingface import TheirWords
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.results import Results
from workers.kinds.by_batches import Speech, digest, lineage, made
from workers.kinds.context import DONE, JobContext
from workers.kinds.opening import DataFile, Subject, open_subject

OUTPUT = "evaluation"
RESULTS, METRICS = "results.jsonl", "metrics.json"
SPEECH = Speech("request", "EMEP_EVALUATE_THROTTLE_S")
Read = tuple[Tasks, TheirWords | None]


def evaluate_by_tasks(context: JobContext, devices: Sequence[torch.device]) -> int:
    """Run one attempt of an evaluation by a harness's tasks; returns its exit code."""
    subject = open_subject(context, devices, lambda file, params: tasks_of(file, params, context.scratch_dir))
    tasks, words = subject.samples
    if words is None:
        raise RuntimeError("a causal language model of Hugging Face has a tokenizer")
    version = f"{subject.model.version(ENGINE_VERSION)}, {tasks.version}"
    told = lineage(context, subject.params, subject.config, version, devices[0])
    work = Answers(
        subject.model, tasks, subject.params["batch_size"], words.tokenizer, subject.config["context"]
    )  # fmt: skip
    results = Results(context.checkpoint_dir, digest(told))
    names = ", ".join(file.name for file in tasks.files)
    context.log(f"plan: {SPEECH.counted(work.count)} of the tasks {names}, {work.batch_size} at a time")
    if not made(context, work, results, SPEECH):
        return context.checkpoint_exit_code
    found = scored(tasks, results.publish(context.scratch_dir / "answers.jsonl"))
    return _store(context, subject, found, version, told)


def tasks_of(file: DataFile, params: Mapping[str, Any], scratch: Path) -> Read:
    """The tasks that ``params`` name of the data set, as the library builds them, and the model's tokenizer; refuses
    with everything that is wrong with them, and a node without the library."""
    problems: list[Problem] = []
    named = params.get("tasks")
    files: list[TaskFile] = []
    for work in (harness_library, lambda: files.extend(read_task_files(file.path, named, file.label))):
        try:
            work()
        except EngineRefusal as refusal:
            problems += refusal.problems
    if problems:
        raise EngineRefusal.of(problems)
    return open_tasks(files, file.limit, scratch / "datasets"), file.words if isinstance(
        file.words, TheirWords
    ) else None


def _store(context: JobContext, subject: Subject[Read], found: Scored, version: str, told: Mapping[str, Any]) -> int:
    destination = context.output_dir / OUTPUT
    shutil.rmtree(destination, ignore_errors=True)  # what an attempt left that was killed while it published
    destination.mkdir(parents=True)
    counts = {"samples": sum(found.samples.values()), "not_finite": found.not_finite}
    document = {
        "metrics": found.metrics,
        "stderr": found.stderr,
        "counts": counts,
        "tasks": {name: {"samples": found.samples[name], **about} for name, about in found.about.items()},
        "architecture": subject.family.name,
        "batch_size": subject.params["batch_size"],
        "engine_version": version,
    }
    lines = (json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n" for row in found.rows)
    write_file(destination / RESULTS, b"".join(lines))
    write_file(destination / METRICS, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")
    _tell(context, found)
    context.announce(OUTPUT, "eval", {**told, "metrics": found.metrics, "counts": counts})
    context.log(f"store: {OUTPUT} with {RESULTS} and {METRICS}")
    context.events.emit("done")
    return DONE


def _tell(context: JobContext, found: Scored) -> None:
    """Each metric as an event and in the log, at the step that is the number of its task's samples."""
    for name, value in found.metrics.items():
        if value is not None:
            context.events.emit("metric", name=name, step=found.samples[name.partition("/")[0]], value=value)
    if found.not_finite:
        context.events.emit("metric", name="not_finite", step=sum(found.samples.values()), value=found.not_finite)
        context.log(f"metrics: {SPEECH.counted(found.not_finite)} had no finite answer, so their tasks have no metrics")
    words = [f"{name} {'is no finite number' if v is None else f'{v:.6g}'}" for name, v in found.metrics.items()]
    context.log(f"metrics: {', '.join(words)}")
