"""How far is the moving of an attempt's files? Kept with the node's part of it while it goes on, told to who looks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from scheduling.models import AttemptNode, Event, Job
from scheduling.store import journal

# What was told longer ago says nothing of the present: its agent may have been restarted since.
FRESH = timedelta(seconds=120)
KB, MB = 1000, 1_000_000
# By these two transfers of a node for an attempt are told apart.
WHICH = ("what", "step", "begun", "of_files", "of_bytes")
SAVING = "saving checkpoint"
CAME = {
    "fetching inputs": "fetched its inputs",
    "fetching checkpoint": "fetched the checkpoint",
    SAVING: "saved the checkpoint",
    "storing results": "stored its results",
}


def told(part: AttemptNode, moved: Mapping[str, Any], *, over: bool, whole: bool, now: datetime) -> None:
    """The node moves ``moved`` for its part: ``{what, files, of_files, bytes, of_bytes, step, begun}``; ``over``: no
    more; ``whole``: because all has come.

    Pages hear of every telling. The timeline is told once, of one that was long enough to be told of and has arrived
    as a whole; what is told of it after that, by a report that was sent again, changes nothing.
    """
    if _has_come(part, moved):
        return
    kept = None if over else {**moved, "at": now.isoformat()}
    AttemptNode.objects.filter(pk=part.pk).update(transfer=kept)
    job = Job.objects.select_related("project").get(pk=part.attempt.job_id)
    journal.write(
        [
            journal.Note("transferred" if whole else "transfer", "job", str(job.pk), actor=f"node {part.node.name}",
                         version=job.version, project=job.project.name if job.project else "", attempt=part.attempt_id,
                         epoch=part.attempt.epoch, node=part.node.name,
                         message=come_in_words(moved) if whole else in_words(moved), data=dict(moved))
        ],
        now,
    )  # fmt: skip


def _has_come(part: AttemptNode, moved: Mapping[str, Any]) -> bool:
    same = {f"data__{name}": moved[name] for name in WHICH}
    come = Event.objects.filter(object="job", object_id=str(part.attempt.job_id), type="transferred")
    return come.filter(attempt=part.attempt_id, node=part.node.name, **same).exists()


def in_words(moved: Mapping[str, Any]) -> str:
    """``saving checkpoint: 120 of 5000 files, 0.5 of 20.5 MB``."""
    unit, name = _unit(moved["of_bytes"])
    size = f"{_amount(moved['bytes'], unit)} of {_amount(moved['of_bytes'], unit)} {name}"
    return f"{moved['what']}: {moved['files']} of {_files(moved['of_files'])}, {size}"


def come_in_words(moved: Mapping[str, Any]) -> str:
    """``saved the checkpoint of step 30: 2 files, 0.3 kB``; without a step where it has none."""
    unit, name = _unit(moved["of_bytes"])
    step = f" of step {moved['step']}" if moved["step"] else ""
    return f"{CAME[moved['what']]}{step}: {_files(moved['of_files'])}, {_amount(moved['of_bytes'], unit)} {name}"


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _unit(size: int) -> tuple[int, str]:
    return (MB, "MB") if size >= MB // 10 else (KB, "kB")


def _amount(size: int, unit: int) -> str:
    return f"{size / unit:.1f}" if size < 100 * unit else f"{size / unit:.0f}"


def under_way(parts: list[AttemptNode], now: datetime | None) -> dict[str, Any] | None:
    """What is moved for an attempt just now, on the first of its nodes that moves anything; None for nothing."""
    for part in parts:
        moved = part.transfer
        if part.ended_at is not None or moved is None:
            continue
        if now is None or now - datetime.fromisoformat(moved["at"]) <= FRESH:
            shown = {name: moved[name] for name in ("what", "files", "of_files", "bytes", "of_bytes")}
            return {"node": part.node.name, **shown, "message": in_words(moved)}
    return None
