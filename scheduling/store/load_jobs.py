"""What waits, what runs, and what was consumed: rows become values, of all jobs or of some."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, Q, QuerySet, TextField
from django.db.models.functions import Cast

from scheduling.core.ledger import MICRO
from scheduling.core.lifecycle import JobState
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.snapshot import RESTORE_S, Account, LiveAttempt, Usage, WaitingJob
from scheduling.core.snapshot import Nomination as CoreNomination
from scheduling.models import Allocation, Attempt, Balance, Job, Nomination
from scheduling.models.jobs import LIVE
from scheduling.store import measured
from scheduling.store.clock import to_ms
from scheduling.store.fixed import FixedValues
from scheduling.store.topology import restored

Ids = Collection[UUID] | None
RECENT = timedelta(hours=24)
NOT_MEASURED = measured.Costs()
# So many ids are asked for in a query that is worded once for each number of them.
FEW = 8

_TEXTS = ("id", "submitted_at", "eligible_at", "not_before", "start_by", "affinity", "topology", "avoid")
_REQUEST = (
    "gpu_count", "node_count", "gpus_per_node", "remainder", "gpu_memory_min_mib", "nvlink_required",
    "nvlink_exclusive", "max_duration_s", "affinity_text", "topology_text",
)  # fmt: skip
_WAITING = (
    *_REQUEST, "id_text", "queue__name", "level__name", "level__value", "project__name", "user__username",
    "submitted_at_text", "ran_ms", "eligible_at_text", "avoid_text", "group", "not_before_text", "start_by_text",
    "preemptible", "no_evict_until",
)  # fmt: skip
_LIVE = (
    "id", "job_id", "epoch", "number", "granted_at", "started_at", "remaining_s", "stop_by", "asked_at",
    "job__state", "job__queue__name", "job__project__name", "job__user__username", "job__level__name",
    "job__level__value", "job__infra_failures", "job__preemptible", "job__group", "job__topology", "job__resume_id",
    "job__resume_saved_at", "job__resume__corrupt", "job__kind",
)  # fmt: skip


class Evictions(NamedTuple):
    """How often each job was evicted in the last day, and what an eviction costs by kind of job (D10)."""

    times: dict[UUID, int]
    costs: dict[str, measured.Costs]


_EVICTED = FixedValues(
    lambda since: (
        Attempt.objects.filter(ended_at__gt=since, outcome="PREEMPTED", why="preempt")
        .order_by("job_id")
        .values_list("job_id")
        .annotate(times=Count("pk"))
    )
)
_KEPT_FROM = FixedValues(lambda now: Job.objects.filter(no_evict_until__gt=now).order_by("pk").values_list("pk"))


def evictions(now: datetime) -> Evictions:
    """What is known of evictions now: a tick reads it once."""
    return Evictions(dict(_EVICTED(now - RECENT)), measured.costs())


class _OfJobs:
    """A query of all jobs, or of those with some ids; of a few it is worded once for each number of them."""

    def __init__(self, made: Callable[[Ids], QuerySet[Any, tuple[Any, ...]]]) -> None:
        self._made, self._worded = made, FixedValues(lambda *ids: made(ids))

    def __call__(self, ids: Ids) -> Iterable[tuple[Any, ...]]:
        """The rows."""
        if ids is not None and _few(ids):
            return self._worded(*ids)
        return self._made(ids).iterator(chunk_size=2000)


def _waiting_rows(ids: Ids) -> QuerySet[Any, tuple[Any, ...]]:
    rows = _only(Job.objects.filter(state=JobState.QUEUED, awaits=0, kept_back=False), "pk", ids)
    # As text, and equal texts are read once: of a hundred thousand rows the conversion is what takes long.
    texts = {f"{name}_text": Cast(name, TextField()) for name in _TEXTS}
    return rows.order_by().annotate(**texts).values_list(*_WAITING)


def _running(ids: Ids) -> QuerySet[Attempt, Attempt]:
    return _only(Attempt.objects.filter(ended_at__isnull=True, job__state__in=LIVE), "job_id", ids)


def _held_rows(ids: Ids) -> QuerySet[Any, tuple[Any, ...]]:
    rows = _only(Allocation.objects.filter(released_at__isnull=True), "attempt__job_id", ids)
    return rows.order_by("gpu__uuid").values_list("attempt_id", "gpu__uuid", "billing")


def _part_rows(ids: Ids) -> QuerySet[Any, tuple[Any, ...]]:
    said = ("nodes__claimed_at", "nodes__ready_at", "nodes__ended_at")
    rows = _running(ids).filter(nodes__isnull=False).order_by("id", "nodes__rank")
    return rows.values_list("id", "nodes__node__name", *said)


_WAIT, _RUN = _OfJobs(_waiting_rows), _OfJobs(lambda ids: _running(ids).order_by("id").values_list(*_LIVE))
_HELD, _PARTS = _OfJobs(_held_rows), _OfJobs(_part_rows)


def waiting(now: datetime, ids: Ids = None, *, known: Evictions | None = None) -> tuple[WaitingJob, ...]:
    """The QUEUED jobs that wait for no other and are not kept back, or those of them with these ids. ``known``:
    what is known of evictions, where it was read."""
    preempted = {str(job): times for job, times in (known or evictions(now)).times.items()}
    reader = _Reader(now)
    return tuple(reader.job(row, preempted) for row in _WAIT(ids))


class _Reader:
    """Reads rows of jobs; what many have in common is one object."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._requests: dict[tuple[Any, ...], ResourceRequest] = {}
        self._avoided: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def job(self, row: tuple[Any, ...], preempted: dict[str, int]) -> WaitingJob:
        """The job of the row."""
        asked = row[: len(_REQUEST)]
        request = self._requests.get(asked)
        if request is None:
            request = self._requests[asked] = _request(*asked)
        (key, queue, level, value, project, user, submitted, ran_ms, eligible, avoid, group, not_before, start_by,
         preemptible, no_evict_until) = row[len(_REQUEST) :]  # fmt: skip
        gpus, nodes = self._avoid(avoid)
        id_ = _uuid_text(key)
        return WaitingJob(
            id=id_, queue=queue, level=level, level_value=value, project=project, user=user,
            submitted_ms=_text_ms(submitted), request=request,
            remaining_s=max(1, request.max_duration_s - ran_ms // 1000),
            eligible_at_ms=_text_ms(eligible) if eligible else 0,
            avoid_gpus=gpus, avoid_nodes=nodes,
            not_before_ms=_text_ms(not_before) if not_before else 0,
            start_by_ms=_text_ms(start_by) if start_by else None,
            group=group or None, preemptible=preemptible, recent_preemptions=preempted.get(id_, 0),
            may_evict=no_evict_until is None or no_evict_until <= self._now,
        )  # fmt: skip

    def _avoid(self, text: str) -> tuple[frozenset[str], frozenset[str]]:
        if text not in self._avoided:
            avoid = json.loads(text)
            self._avoided[text] = frozenset(avoid.get("gpus", ())), frozenset(avoid.get("nodes", ()))
        return self._avoided[text]


def _request(
    count: int, nodes: int, per_node: int, remainder: int, mib: int, nvlink: bool, exclusive: bool, duration: int,
    affinity: str, topology: str,
) -> ResourceRequest:  # fmt: skip
    return ResourceRequest(
        gpu_count=count, node_count=nodes, gpus_per_node=per_node, remainder=remainder, gpu_memory_min_mib=mib,
        nvlink_required=bool(nvlink), nvlink_exclusive=bool(exclusive), max_duration_s=duration,
        affinity=terms(json.loads(affinity)), **restored(json.loads(topology)),
    )  # fmt: skip


def _uuid_text(text: str) -> str:
    """The id as :class:`uuid.UUID` writes it; SQLite keeps it without dashes."""
    return text if "-" in text else f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _text_ms(text: str) -> int:
    """Milliseconds of an instant as the database writes it; SQLite keeps UTC without saying so."""
    moment = datetime.fromisoformat(text)
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def terms(stored: Iterable[dict[str, object]]) -> tuple[AffinityTerm, ...]:
    """Affinity terms from their stored form."""
    return tuple(
        AffinityTerm(key=t["key"], op=t["op"], values=tuple(t["values"]), weight=t["weight"], required=t["required"])  # type: ignore[arg-type]
        for t in stored
    )


def live(now: datetime, ids: Ids = None, *, known: Evictions | None = None) -> tuple[LiveAttempt, ...]:
    """The attempts that hold GPUs, or those of them of the jobs with these ids; each with its nodes by rank.

    Its newest checkpoint counts when it made it itself: what it resumed from says nothing of what it would lose.
    ``known``: what is known of evictions, where it was read.
    """
    held: dict[UUID, list[tuple[str, float]]] = defaultdict(list)
    parts: dict[UUID, list[_Part]] = defaultdict(list)
    for attempt, uuid, billing in _HELD(ids):
        held[attempt].append((uuid, billing))
    for attempt, node, claimed, ready, ended in _PARTS(ids):
        parts[attempt].append(_Part(node, bool(claimed), bool(ready), bool(ended)))
    preempted, costs = known or evictions(now)
    return tuple(
        _live(row, held[row[0]], parts[row[0]], preempted, costs=costs.get(row[-1], NOT_MEASURED)) for row in _RUN(ids)
    )


class _Part(NamedTuple):
    """What a node of an attempt has said of its part."""

    node: str
    claimed: bool
    ready: bool
    ended: bool


def _live(
    row: tuple[Any, ...],
    held: list[tuple[str, float]],
    parts: list[_Part],
    preempted: dict[UUID, int],
    *,
    costs: measured.Costs,
) -> LiveAttempt:
    (id_, job, epoch, number, granted, started, remaining, stop_by, asked, state, queue, project, user, level,
     value, failures, preemptible, group, topology, saved, saved_at, corrupt, _) = row  # fmt: skip
    here = [part for part in parts if not part.ended]
    return LiveAttempt(
        attempt=str(id_), job=str(job), epoch=epoch, number=number, queue=queue, project=project, user=user,
        gpus=tuple(sorted(uuid for uuid, _ in held)), nodes=tuple(part.node for part in parts), state=JobState(state),
        granted_ms=to_ms(granted), started_ms=to_ms(started) if started else None,
        end_ms=to_ms(started or granted) + remaining * 1000, infra_failures=failures, level=level,
        level_value=value, preemptible=preemptible,
        saved_ms=to_ms(saved_at) if saved and saved_at and saved_at > granted and not corrupt else None,
        save_s=costs.save_s, restore_s=RESTORE_S if costs.restore_s is None else costs.restore_s,
        recent_preemptions=preempted.get(job, 0), billing_micro=sum(round(billing * MICRO) for _, billing in held),
        stop_by_ms=to_ms(stop_by) if stop_by and state != JobState.RUNNING else None,
        # Of one that was spared the end of its grace stays when it had passed: it had been asked in vain.
        asked_ms=to_ms(asked) if asked and stop_by else None,
        group=group or None, apart=restored(topology).get("apart"),
        unclaimed=tuple(part.node for part in here if not part.claimed),
        unready=tuple(part.node for part in here if part.claimed and not part.ready and len(parts) > 1),
        left=tuple(part.node for part in parts if part.ended),
    )  # fmt: skip


def eviction_mark(known: Evictions, now: datetime, *, protect_times: int) -> tuple[object, ...]:
    """Equal as long as nothing has changed about what evictions cost and who may evict, but by events of those jobs.

    Who was evicted often of late, who is kept from evicting, and what is measured of each kind.
    """
    often = [str(job) for job, times in known.times.items() if times >= protect_times]
    return (*sorted(often), "", *(str(job) for (job,) in _KEPT_FROM(now)), "", *known.costs.items())


def _only(rows: QuerySet[Any], field: str, ids: Ids) -> QuerySet[Any]:
    """Those of the rows with one of the ids: any of a few is asked for as such, since a list can't be worded once."""
    if ids is None:
        return rows
    if _few(ids):
        return rows.filter(reduce(or_, (Q((field, each)) for each in ids)))
    return rows.filter(**{f"{field}__in": list(ids)})


def _few(ids: Ids) -> bool:
    return ids is not None and 0 < len(ids) <= FEW


def nominations() -> tuple[CoreNomination, ...]:
    """The GPUs that are kept for jobs whose victims are leaving, also for those that wait no more: they are let go."""
    rows = Nomination.objects.values_list("job_id", "gpus", "deadline", "again")
    return tuple(CoreNomination(str(job), tuple(gpus), to_ms(deadline), again) for job, gpus, deadline, again in rows)


def usage() -> Usage:
    """What every entity had consumed by ended attempts, as settled; what runs is counted from its grant by the core."""
    found: dict[str, dict[str, Account]] = {"queue": {}, "project": {}, "user": {}}
    for ledger, key, gpu_ms, settled in Balance.objects.values_list("ledger", "key", "gpu_ms", "settled_at"):
        found[ledger][key] = Account(gpu_ms, to_ms(settled))
    users = {}
    for key, account in found["user"].items():
        project, _, name = key.partition("/")
        users[(project, name)] = account
    return Usage(found["queue"], found["project"], users)
