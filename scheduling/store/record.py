"""Facts that are no states: heartbeats, progress, logs, metrics, the last tick, liveness of the web processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Func

from scheduling.core.snapshot import SilenceGuard
from scheduling.models import (
    Attempt,
    AttemptNode,
    Availability,
    Job,
    LogChunk,
    MetricPoint,
    NodeLive,
    SchedulerState,
)
from scheduling.store import journal
from scheduling.store.commit import attempts
from scheduling.store.fixed import Fixed, FixedUpdate

_HEARD = FixedUpdate(lambda node, seq: NodeLive.objects.filter(node__name=node, seq__lte=seq))
_RENEWED = FixedUpdate(lambda node: NodeLive.objects.filter(node__name=node))
_PROGRESS = FixedUpdate(lambda job: Job.objects.filter(pk=job), version=F("version") + 1)
_TICKED = FixedUpdate(lambda: SchedulerState.objects.filter(pk=1), ticks=F("ticks") + 1)
_LAST_CHUNK = Fixed(
    lambda attempt, rank: (
        LogChunk.objects.filter(attempt_id=attempt, rank=rank).order_by("-offset").values_list("offset", "size")[:1]
    )
)
_SEEN = FixedUpdate(
    lambda now, lately: Availability.objects.filter(pk=1, last_seen_at__lt=now, last_seen_at__gte=lately)
)
_KEPT = Fixed(
    lambda attempt, rank: (
        LogChunk.objects.filter(attempt_id=attempt, rank=rank).order_by().values_list(Func(F("size"), function="SUM"))
    )
)
CUT = "\n[log capped: the job wrote more than is kept]\n"


def heard(
    *, seq: int, disk_low: bool, leaving: bool, samples: Sequence[Mapping[str, Any]] | None, now: datetime
) -> dict[str, Any]:
    """What a message of a node says of it, as columns of its narrow row."""
    said: dict[str, Any] = {"last_heartbeat_at": now, "seq": seq, "disk_low": disk_low, "leaving": leaving}
    if samples is not None:
        said |= {"sampled_at": now, "samples": {str(s.get("uuid")): dict(s) for s in samples}}
    return said


def heartbeat(node: str, said: Mapping[str, Any]) -> bool:
    """The node's lease is renewed; one narrow row is written. False when unknown.

    A message that others have overtaken on the way renews the lease and says nothing else.
    """
    newer = _HEARD(node, said["seq"], **said)
    return bool(newer or _RENEWED(node, last_heartbeat_at=said["last_heartbeat_at"]))


def accepting(now: datetime, *, gap_s: float) -> None:
    """A web process could accept heartbeats at ``now``; after a gap everybody's lease starts anew (D21)."""
    if _SEEN(now, now - timedelta(seconds=gap_s), last_seen_at=now):
        return
    _, made = Availability.objects.get_or_create(pk=1, defaults={"since": now, "last_seen_at": now})
    if not made:
        Availability.objects.filter(pk=1, last_seen_at__lt=now - timedelta(seconds=gap_s)).update(
            last_seen_at=now, since=now
        )


def progress(part: AttemptNode, *, step: int, total: int, unit: str, rate: float | None, now: datetime) -> None:
    """The job's progress is at least ``step``; the page hears of it by an event of type ``progress``."""
    attempts.got_on(part.attempt, step, now)
    _PROGRESS(
        part.attempt.job_id, progress_step=step, progress_total=total, progress_unit=unit[:31], progress_rate=rate
    )
    _tell(part, "progress", {"step": step, "total": total}, now)


def metric(part: AttemptNode, *, name: str, step: int, value: float) -> None:
    """The value of the series at that step is kept; a repeated step keeps the newest."""
    MetricPoint.objects.update_or_create(
        attempt_id=part.attempt_id, name=name[:80], step=step, defaults={"value": value}
    )


@transaction.atomic
def log(part: AttemptNode, *, offset: int, text: str, limit: int, now: datetime) -> int:
    """The log has grown by what is new of ``text`` at byte ``offset``; returns the next offset wanted.

    Chunks may come twice; a gap is answered with the offset to send again from. Past ``limit`` bytes nothing more
    is kept, and the last line says so.
    """
    attempt_id = part.attempt_id
    # A NUL can't be stored by PostgreSQL, a lone surrogate by neither: both are shown as what they are.
    clean = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    size = len(text.encode("utf-8", "surrogatepass"))
    wanted = sum(next(iter(_LAST_CHUNK(attempt_id, part.rank)), (0, 0)))
    if offset != wanted:
        return wanted if offset > wanted or offset + size <= wanted else _rest(part, wanted, offset, text, limit, now)
    if not size:
        return wanted
    kept = _KEPT(attempt_id, part.rank)[0][0] or 0
    if kept + size > limit:
        if kept < limit:
            begin = clean.encode()[: limit - kept].decode("utf-8", "ignore")
            LogChunk.objects.create(attempt_id=attempt_id, rank=part.rank, offset=offset, size=size, text=begin + CUT)
            Attempt.objects.filter(pk=attempt_id).update(log_bytes=limit)
        return offset + size
    LogChunk.objects.create(attempt_id=attempt_id, rank=part.rank, offset=offset, size=size, text=clean)
    Attempt.objects.filter(pk=attempt_id).update(log_bytes=F("log_bytes") + size)
    _tell(part, "log", {"end": offset + size}, now)
    return offset + size


def _rest(part: AttemptNode, wanted: int, offset: int, text: str, limit: int, now: datetime) -> int:
    """A chunk that overlaps what is kept: only its new end is added."""
    tail = text.encode("utf-8", "surrogatepass")[wanted - offset :].decode("utf-8", "replace")
    return log(part, offset=wanted, text=tail, limit=limit, now=now)


def _tell(part: AttemptNode, kind: str, data: dict[str, Any], now: datetime) -> None:
    version, project = journal.of_job(part.attempt.job_id)
    journal.write(
        [
            journal.Note(kind, "job", str(part.attempt.job_id), actor=f"node {part.node.name}", version=version,
                         project=project, attempt=part.attempt_id, epoch=part.attempt.epoch, data=data)
        ],
        now,
    )  # fmt: skip


def refused(node: str, attempt: str, epoch: int, what: str, now: datetime) -> None:
    """A stale message was refused, and that is on record (I7)."""
    journal.write(
        [
            journal.Note("write_refused", "node", node, actor=f"node {node}", node=node, epoch=epoch,
                         attempt=_uuid(attempt), message=f"{what} of a fenced attempt")
        ],
        now,
    )  # fmt: skip


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def tick(
    now: datetime, *, milliseconds: float, holds: Mapping[str, Any] | None, alarms: Sequence[Mapping[str, Any]],
    guard: SilenceGuard,
) -> None:  # fmt: skip
    """The scheduler's row shows its last tick, whom it guards, and why jobs wait (one entry a shape); None when that is
    as it was."""
    told: dict[str, Any] = {} if holds is None else {"holds": dict(holds)}
    told["silence_guard"] = {"nodes": dict(guard.nodes), "until_ms": guard.until_ms} if guard.nodes else {}
    _TICKED(last_tick_at=now, last_tick_ms=milliseconds, alarms=list(alarms), **told)
