"""How far is the moving of an attempt's files? Kept with the node's part of it while it goes on, told to who looks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from scheduling.models import AttemptNode, Job
from scheduling.store import journal

# What was told longer ago says nothing of the present: its agent may have been restarted since.
FRESH = timedelta(seconds=120)
MB = 1_000_000


def told(part: AttemptNode, moved: Mapping[str, Any], *, over: bool, now: datetime) -> None:
    """The node moves ``moved`` for its part: ``{what, files, of_files, bytes, of_bytes}``; ``over``: no more.

    Pages hear of every telling. The timeline is told once, of one that was long enough to be told of and has arrived
    as a whole.
    """
    kept = None if over else {**moved, "at": now.isoformat()}
    AttemptNode.objects.filter(pk=part.pk).update(transfer=kept)
    whole = over and moved["files"] == moved["of_files"]
    job = Job.objects.select_related("project").get(pk=part.attempt.job_id)
    journal.write(
        [
            journal.Note("transferred" if whole else "transfer", "job", str(job.pk), actor=f"node {part.node.name}",
                         version=job.version, project=job.project.name if job.project else "", attempt=part.attempt_id,
                         epoch=part.attempt.epoch, node=part.node.name, message=in_words(moved), data=dict(moved))
        ],
        now,
    )  # fmt: skip


def in_words(moved: Mapping[str, Any]) -> str:
    """``saving checkpoint: 120 of 5000 files, 0.5 of 20.5 MB``."""
    size = f"{_mb(moved['bytes'])} of {_mb(moved['of_bytes'])} MB"
    return f"{moved['what']}: {moved['files']} of {moved['of_files']} files, {size}"


def _mb(size: int) -> str:
    return f"{size / MB:.1f}" if size < 100 * MB else f"{size / MB:.0f}"


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
