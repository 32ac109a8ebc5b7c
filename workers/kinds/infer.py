"""Kind infer: open the model, read the rows whole, make a line of each, store them in parts."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workers.engines.durable import write_file
from workers.engines.given import Numbers, Passages, Prompts, read_given
from workers.engines.inferring import ENGINE_VERSION, Inference
from workers.engines.results import Results
from workers.infer_params import generation_of
from workers.kinds.by_batches import Speech, begun, cut_in_words, digest, lineage, made, refusing
from workers.kinds.context import DONE, JobContext
from workers.kinds.opening import DataFile, Subject, open_subject
from workers.model_families import LANGUAGE

OUTPUT, MANIFEST = "inference", "manifest.json"
Given = Numbers | Prompts | Passages
SPEECH = Speech("row", "EMEP_INFER_THROTTLE_S")
PART_ROWS = 100_000


def run(context: JobContext) -> int:
    """Run one attempt of an inference; returns its exit code."""
    return refusing(context, _run)


def _run(context: JobContext) -> int:
    devices = begun(context)
    subject = open_subject(context, devices, _rows)
    told = lineage(context, subject.params, subject.config, subject.model.version(ENGINE_VERSION), devices[0])
    ask = generation_of(subject.params)
    inference = Inference(subject.model, subject.samples, ask, subject.params["batch_size"])
    results = Results(context.checkpoint_dir, digest(told))
    context.log(
        f"plan: {SPEECH.counted(inference.count)}, {inference.batch_size} at a time, architecture {subject.family.name}"
        + (
            f", {'at most ' if subject.model.library else ''}{ask.tokens} new tokens each"
            if subject.family.task == LANGUAGE
            else ""
        )
    )
    if subject.samples.bad:
        context.log(f"plan: {SPEECH.counted(len(subject.samples.bad))} can't be read and only say why")
    if isinstance(subject.samples, Passages) and subject.samples.cut:
        context.log(f"plan: {cut_in_words(SPEECH, len(subject.samples.cut), subject.config)}")
    if not made(context, inference, results, SPEECH):
        return context.checkpoint_exit_code
    return _store(context, subject, results, told)


def _rows(file: DataFile, params: Mapping[str, Any]) -> Given:
    spared = params["max_bad_rows"]
    return read_given(
        file.path, file.config, file.family.task, limit=file.limit, label=file.label, field=file.field,
        spared=spared if type(spared) is int and spared > 0 else 0, words=file.words,
    )  # fmt: skip


def _store(
    context: JobContext, subject: Subject[Given], results: Results, told: Mapping[str, Any]
) -> int:  # fmt: skip
    destination = context.output_dir / OUTPUT
    shutil.rmtree(destination, ignore_errors=True)  # what an attempt left that was killed while it published
    destination.mkdir(parents=True)
    counts = {"rows": 0, "bad_rows": 0, "not_finite": 0, "new_tokens": 0}
    parts = []
    for path, rows in results.publish_parts(destination, PART_ROWS):
        before = counts["rows"]
        _count(rows, counts)
        parts.append({"file": path.name, "rows": counts["rows"] - before, "sha256": _sha256(path)})
    manifest = {
        "counts": counts,
        "parts": parts,
        "architecture": subject.family.name,
        "engine_version": subject.model.version(ENGINE_VERSION),
    }
    write_file(destination / MANIFEST, json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n")
    for name in ("new_tokens", "bad_rows", "not_finite"):
        if counts[name]:
            context.events.emit("metric", name=name, step=counts["rows"], value=counts[name])
    context.log(f"made: {', '.join(f'{name} {count}' for name, count in counts.items())}")
    context.announce(OUTPUT, "output", {**told, "counts": counts})
    context.log(f"store: {OUTPUT} with {len(parts)} part{'' if len(parts) == 1 else 's'} and {MANIFEST}")
    context.events.emit("done")
    return DONE


def _count(rows: Iterable[Mapping[str, Any]], counts: dict[str, int]) -> None:
    """Adds what the rows are to the counts."""
    for row in rows:
        counts["rows"] += 1
        counts["bad_rows"] += "error" in row
        counts["not_finite"] += _lacks(row)
        counts["new_tokens"] += len(row.get("tokens") or ())


def _lacks(row: Mapping[str, Any]) -> bool:
    """Whether a number of the row is not finite, and so null."""
    return any(value is None or (isinstance(value, list) and None in value) for value in row.values())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
