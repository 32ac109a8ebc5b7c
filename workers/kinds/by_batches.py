"""How a job makes its rows batch by batch: it tells how far it is, saves now and then, and leaves with what is done."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from workers.engines.in_batches import Batched, compute
from workers.engines.merging import device_class
from workers.engines.refusals import EngineRefusal
from workers.engines.results import Results
from workers.kinds.context import REFUSED, JobContext
from workers.kinds.devices import prepare_devices, sharing

TELL_EVERY_S = 0.1  # the agent takes 100 lines a second
SAVE_EVERY_S = 30.0
# Or as seldom as this share of the time so far, so that a job of days has some hundred steps and not thousands.
SAVE_SHARE = 0.05
UNSAVED_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class Speech:
    """What the job calls its rows (``unit``), and the variable that says how long it waits after each batch (demos,
    tests)."""

    unit: str
    throttle: str

    def counted(self, count: int) -> str:
        """So many of them, in words."""
        return f"{count} {self.unit}{'' if count == 1 else 's'}"


def cut_in_words(speech: Speech, count: int, config: Mapping[str, Any]) -> str:
    """That so many texts are longer than a model of this configuration reads."""
    return (
        f"of {speech.counted(count)} only the first {config['context']} tokens are read, with which the model is full"
    )


def refusing(context: JobContext, work: Callable[[JobContext], int]) -> int:
    """The exit code of ``work``; what an engine refuses is told by an event and a line on stderr."""
    try:
        return work(context)
    except EngineRefusal as refusal:
        context.events.error(refusal.code, refusal.message, refusal.details)
        sys.stderr.write(f"refused ({refusal.code}): {refusal.message}\n")
        return REFUSED


def begun(context: JobContext) -> list[torch.device]:
    """The devices that the job's rows are shared out to; its log says which, and what it has loaded."""
    found, why = prepare_devices(context.gpu_count)
    context.log(why)
    context.log(f"load: {', '.join(f'{i.name} {i.title} ({i.artifact})' for i in context.inputs)}")
    return sharing(found, context.gpu_count)


def lineage(
    context: JobContext, params: Mapping[str, Any], config: Mapping[str, Any], version: str, device: torch.device
) -> dict[str, Any]:
    """What the rows depend on: this identifies the plan and becomes the artifact's lineage. ``params``: the clean ones;
    ``config``: that of the model; ``version``: that of the engine."""
    artifacts = {i.name: i.artifact for i in context.inputs}
    recipe = {
        **{name: value for name, value in params.items() if value is not None},
        **artifacts,
        "architecture": digest(config),  # itself it may be long
    }
    basis = {
        "recipe": recipe,
        "parents": [i.artifact for i in context.inputs],
        "engine_version": version,
        "device_class": device_class(device),
    }
    return {**basis, "derivation_key": digest(basis)}


def digest(document: Mapping[str, Any]) -> str:
    """The sha256, in hex, of the document as canonical JSON."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def made(context: JobContext, work: Batched, results: Results, speech: Speech) -> bool:
    """Go on from the newest checkpoint; True when all rows are there, False when the job is asked to leave and what is
    done is saved. What ends by a fault is saved too, for a retry."""
    kept = results.restore()
    if context.resuming:
        context.log(f"resume: {kept} of {speech.counted(work.count)} verified and kept")
    pace = _Pace(context, results, work.count, speech)
    try:
        complete = compute(
            work, results, on_batch=pace.on_batch, should_stop=context.stop.requested, must_stop=context.stop.overdue
        )
    except (torch.OutOfMemoryError, MemoryError) as error:
        pace.save()
        raise EngineRefusal(
            "out_of_memory",
            f"{speech.counted(work.batch_size)} at a time don't fit into memory ({str(error)[:200]}): lower batch_size,"
            " or ask for GPUs with more memory",
            {"field": "params.batch_size", "limit": work.batch_size},
        ) from error
    except Exception:
        pace.save()
        raise
    if not complete:
        pace.save()
        context.log(f"checkpoint: {len(results)} of {speech.counted(work.count)}")
    return complete


class _Pace:
    """Tells of finished rows and saves them now and then; with the throttle set takes its time."""

    def __init__(self, context: JobContext, results: Results, total: int, speech: Speech) -> None:
        self._context = context
        self._results = results
        self._total = total
        self._speech = speech
        self._throttle_s = float(context.environ.get(speech.throttle) or 0.0)
        self._begun_at = self._saved_at = context.elapsed()
        self._begun_with = len(results)
        self._told_at = self._begun_at - TELL_EVERY_S

    def on_batch(self) -> None:
        """After each batch that is appended."""
        step, now, unit = len(self._results), self._context.elapsed(), self._speech.unit
        if step == self._total or now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            rate = round((step - self._begun_with) / max(now - self._begun_at, 1e-3), 2)
            self._context.events.emit("progress", step=step, total=self._total, unit=unit, rate=rate)
            self._context.log(f"{self._context.kind} {step}/{self._total} {rate} {unit}s/s")
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
