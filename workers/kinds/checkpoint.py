"""The checkpoints of a merge (D8): now and then on its way, and when it leaves; each only where shipping is cheaper
than redoing."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from workers.engines.durable import write_file
from workers.engines.refusals import EngineRefusal
from workers.engines.saved_tensors import SavedTensors
from workers.engines.writing import PlannedWriter
from workers.kinds.by_batches import SAVE_EVERY_S, SAVE_SHARE
from workers.kinds.context import JobContext

EXPERIMENT = "experiment.json"
FRAMEWORK = "framework"
# A 1 Gbit/s network carries this much; the job cannot measure the link its agent will use.
UPLOAD_BYTES_PER_S = 100e6
# The first comes after so long, the next when the time so far has doubled, until SAVE_EVERY_S lie between two.
SAVE_FIRST_S = 5.0
LOOK_EVERY_S = 1.0
# Small files, log and events, which take of the job's disk too.
BESIDE_BYTES = 64_000_000


def worth_shipping(unsaved_bytes: int, spent_s: float, upload_bytes_per_s: float = UPLOAD_BYTES_PER_S) -> bool:
    """Ship what is finished and in no checkpoint yet only if that takes less time than was spent on it."""
    return unsaved_bytes > 0 and unsaved_bytes / upload_bytes_per_s < spent_s


def due_s(elapsed_s: float, cost_s: float) -> float:
    """How long after the last checkpoint the next one is due, ``elapsed_s`` after the start, where the last one held
    the merge up for ``cost_s``: at most a twentieth of the time goes into them."""
    often = min(SAVE_EVERY_S, max(SAVE_FIRST_S, elapsed_s / 2))
    return max(often, SAVE_SHARE * elapsed_s, cost_s / SAVE_SHARE)


class Checkpoints:
    """What the merge has finished so far, kept where the agent takes it from. Several threads may finish tensors."""

    def __init__(self, context: JobContext, writer: PlannedWriter, lineage: Mapping[str, Any]) -> None:
        self._context = context
        self._writer = writer
        self._lineage = lineage
        self._saved = SavedTensors(context.checkpoint_dir / FRAMEWORK, writer.plan)
        self._total = len(writer.plan.tensors)
        self._inputs = _bytes_of(*(each.directory for each in context.inputs))
        self._saved_at = self._cost_s = self._look_at = 0.0
        self._told = ""
        self._lock = threading.Lock()

    def open(self) -> frozenset[str]:
        """The writer is open and has all that an earlier attempt saved; the names of what is finished."""
        found = _bytes_of(*self._saved.directory.glob("step-*"))
        if found and (why := self._no_room(found, held=found)):
            self._context.log(f"resume: the checkpoint makes room for the output: {why}")
            self._saved.turn_back(self._writer.work)
        self._writer.open()
        self._saved.restore(self._writer)
        return self._writer.done

    def now_and_then(self) -> None:
        """After each tensor: a checkpoint when one is due, is worth it, and has room. One that fails for want of room
        costs only itself."""
        if not self._is_due() or not self._lock.acquire(blocking=False):
            return
        try:
            self._look_at = self._context.elapsed() + LOOK_EVERY_S
            if len(self._writer.done) < self._total and not self._context.stop.requested():
                self._save()
        finally:
            self._lock.release()

    def at_fault(self) -> None:
        """The merge ends by a fault that may be another's: what is finished is there for a retry."""
        with self._lock:
            self._save()

    def leave(self) -> int:
        """The merge was asked to leave: both parts of its checkpoint are written; returns the exit code. The writer is
        closed."""
        finished, unsaved = self._writer.finished_bytes(), self._saved.unsaved(self._writer)
        step, spent = len(self._writer.done), self._context.elapsed()
        worth = worth_shipping(unsaved, spent - self._saved_at)
        if worth and (not self._saved.names or self._no_room(unsaved)):
            self._saved.hand_over(self._writer)
        elif worth:
            self._saved.save(self._writer)
        self._writer.discard()
        kept = len(self._saved.names)
        told = {"output_kept": kept > 0, "finished_bytes": finished, "spent_s": round(spent, 3)}
        document = {
            "kind": "merge",
            "params": dict(self._context.params),
            "seed": self._context.params.get("seed", 0),
            "step": step,
            "total": self._total,
            "lineage": dict(self._lineage),
            "plan": self._writer.plan.digest,
            "torch": torch.__version__,
            **told,
        }
        written = json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"
        write_file(self._context.checkpoint_dir / EXPERIMENT, written)
        parts = [EXPERIMENT, FRAMEWORK + "/"]
        self._context.events.emit("checkpoint", step=step, path=".", parts=parts, **told)
        what = "kept, shipping is cheaper than redoing" if kept == step else "dropped, redoing is cheaper"
        if 0 < kept < step:
            what = f"kept as far as {kept}, redoing the rest is cheaper"
        self._context.log(f"checkpoint: {step} of {self._counted()}; the part-written output is {what}")
        return self._context.checkpoint_exit_code

    def forget(self) -> None:
        """The output is complete elsewhere."""
        self._saved.drop()

    def _is_due(self) -> bool:
        now = self._context.elapsed()
        return now >= self._look_at and now - self._saved_at >= due_s(now, self._cost_s)

    def _save(self) -> None:
        now, unsaved = self._context.elapsed(), self._saved.unsaved(self._writer)
        if not worth_shipping(unsaved, now - self._saved_at):
            return
        if why := self._no_room(unsaved):
            self._tell(f"no checkpoint on the way: {why}")
            return
        try:
            step = self._saved.save(self._writer)
        except EngineRefusal as refusal:
            self._tell(f"no checkpoint on the way: {refusal.message}")
            return
        self._saved_at = self._context.elapsed()
        self._cost_s = self._saved_at - now
        count = len(self._saved.names)
        self._context.events.emit("checkpoint", step=count, path=f"{FRAMEWORK}/{step}", finished_bytes=unsaved)
        self._context.log(f"checkpoint: {count} of {self._counted()}, {unsaved} bytes more than before")

    def _no_room(self, copy: int, held: int = 0) -> str:
        """Why the disk has no room for a copy of so many bytes beside the output, ``held`` of them there already; ""
        when it has."""
        free = shutil.disk_usage(self._context.checkpoint_dir).free
        wanted = copy if not held else self._writer.plan.size
        if wanted > free / 2:  # the rest is for others
            return f"it would take {wanted} bytes of disk, more than half of the {free} that are free"
        limit = self._context.disk_bytes
        used = self._inputs + self._writer.plan.size + self._saved.size() + copy + BESIDE_BYTES
        if limit is not None and used > limit:
            return f"with it the job would take {used} bytes of disk, its limit is {limit} (job_disk_bytes)"
        return ""

    def _tell(self, text: str) -> None:
        if not self._told:
            self._context.log(text)
        self._told = text

    def _counted(self) -> str:
        return f"{self._total} tensor{'' if self._total == 1 else 's'}"


def _bytes_of(*directories: Path) -> int:
    """What all files below take; one that has several names counts once."""
    found = {}
    for directory in directories:
        for folder, _, names in os.walk(directory):
            for name in names:
                about = (Path(folder) / name).lstat()
                found[about.st_dev, about.st_ino] = about.st_size
    return sum(found.values())
