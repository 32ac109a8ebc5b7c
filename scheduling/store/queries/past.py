"""What was recorded of some days: jobs with their runs, what was consumed before, when nodes and GPUs took no work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet, Sum

from scheduling.core.decay import interval
from scheduling.core.ledger import MICRO
from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.resources import ResourceRequest
from scheduling.core.snapshot import Account, Usage, WaitingJob
from scheduling.models import (
    Allocation,
    Attempt,
    AttemptNode,
    BillingWeight,
    Event,
    FairShareSettings,
    Gpu,
    Job,
    Level,
    LostWork,
    Membership,
    Node,
    PlanningSettings,
    PreemptionRule,
    Project,
    Queue,
)
from scheduling.models.jobs import ENDED
from scheduling.store.clock import to_ms
from scheduling.store.load_jobs import terms
from scheduling.store.topology import restored

FADED = 12  # half-lives after which a four-thousandth counts
Stretch = tuple[int, int]

_REQUEST = ("gpu_count", "node_count", "gpus_per_node", "remainder", "gpu_memory_min_mib", "nvlink_required",
            "nvlink_exclusive", "max_duration_s")  # fmt: skip
_JOB = (
    "id", "state", "queue__name", "level__name", "level__value", "project__name", "user__username", "submitted_at",
    "not_before", "start_by", "group", "preemptible", "awaits", "kept_back", "resume_saved_at", "affinity", "topology",
    *_REQUEST,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt, its instants in ms. ``ended_ms``: None while it goes on; ``limit_ms``: when its ``max_duration`` is
    used up; ``lost``: the stretches that were in vain for no fault of the job's."""

    attempt: UUID
    number: int
    epoch: int
    granted_ms: int
    started_ms: int | None
    ended_ms: int | None
    limit_ms: int
    evicted: bool
    lost: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job with its runs, the first one first. ``over``: it has ended; ``kept``: it is held, or in no queue;
    ``saves``: it has stored a checkpoint. ``waiting.not_before_ms``: since when it could start."""

    waiting: WaitingJob
    runs: tuple[Run, ...]
    over: bool
    kept: bool
    saves: bool


class Held(NamedTuple):
    """The GPUs of an attempt, with its nodes by rank and millionths of the billing weight of all of them."""

    gpus: tuple[str, ...]
    nodes: tuple[str, ...]
    billing_micro: int


def _rows(since: datetime, until: datetime, prefix: str = "") -> Q:
    """Jobs that were there at some time of these days."""
    ended = Q(**{f"{prefix}ended_at__isnull": True}) | Q(**{f"{prefix}ended_at__gt": since})
    return Q(**{f"{prefix}submitted_at__lt": until}) & ended & ~Q(**{f"{prefix}state": JobState.REJECTED})


def count(since: datetime, until: datetime) -> int:
    """How many jobs were there at some time of these days."""
    return Job.objects.filter(_rows(since, until)).count()


def jobs(since: datetime, until: datetime) -> list[PastJob]:
    """Every accepted job that was there at some time of these days, as it was by ``until``."""
    runs = _runs(since, until)
    released = _released(since)
    requests: dict[tuple[Any, ...], ResourceRequest] = {}
    found = []
    for row in Job.objects.filter(_rows(since, until)).order_by("submitted_at", "id").values_list(*_JOB):
        (key, state, queue, level, value, project, user, submitted, not_before, start_by, group, preemptible, awaits,
         kept_back, saved_at, affinity, topology, *asked) = row  # fmt: skip
        shape = (*asked, str(affinity), str(topology))
        request = requests.get(shape)
        if request is None:
            request = requests[shape] = ResourceRequest(
                **dict(zip(_REQUEST, asked, strict=True)), affinity=terms(affinity), **restored(topology)
            )
        ran = tuple(runs.get(key, ()))
        first = ran[0].granted_ms if ran else to_ms(until)
        due = [to_ms(not_before)] if not_before else []
        due += [ms for ms in released.get(str(key), ()) if ms <= first]
        waiting = WaitingJob(
            id=str(key), queue=queue, level=level, level_value=value, project=project, user=user,
            submitted_ms=to_ms(submitted), request=request, remaining_s=request.max_duration_s,
            not_before_ms=max(due, default=0), start_by_ms=to_ms(start_by) if start_by else None,
            group=group or None, preemptible=preemptible,
        )  # fmt: skip
        kept = state == JobState.HELD or awaits > 0 or kept_back
        found.append(PastJob(waiting, ran, state in ENDED, kept, saved_at is not None))
    return found


def _runs(since: datetime, until: datetime) -> Mapping[UUID, list[Run]]:
    lost: dict[UUID, list[Stretch]] = defaultdict(list)
    losses = LostWork.objects.filter(_rows(since, until, "attempt__job__"))
    columns = ("attempt_id", "attempt__granted_at", "resume_until", "redo_since", "at")
    for attempt, granted, resumed, redo, at in losses.values_list(*columns):
        if resumed is not None:
            lost[attempt].append((to_ms(granted), to_ms(resumed)))
        if redo is not None:
            lost[attempt].append((to_ms(redo), to_ms(at)))
    found: dict[UUID, list[Run]] = defaultdict(list)
    rows = Attempt.objects.filter(_rows(since, until, "job__"), granted_at__lt=until).order_by("job_id", "number")
    for key, job, number, epoch, granted, started, ended, remaining, why, outcome in rows.values_list(
        "id", "job_id", "number", "epoch", "granted_at", "started_at", "ended_at", "remaining_s", "why", "outcome"
    ).iterator(chunk_size=2000):
        found[job].append(
            Run(
                key, number, epoch, to_ms(granted), to_ms(started) if started else None,
                to_ms(ended) if ended else None, to_ms(started or granted) + remaining * 1000,
                outcome == "PREEMPTED" and why == "preempt", tuple(lost.get(key, ())),
            )
        )  # fmt: skip
    return found


def _released(since: datetime) -> Mapping[str, list[int]]:
    """When jobs that were held, or waited for others, became free to start."""
    found: dict[str, list[int]] = defaultdict(list)
    rows = Event.objects.filter(at__gte=since, object="job", type__in=("eligible", "requeued")).order_by("id")
    for job, kind, at, data in rows.values_list("object_id", "type", "at", "data").iterator(chunk_size=2000):
        if kind == "eligible" or data.get("from") == JobState.HELD:
            found[job].append(to_ms(at))
    return found


def held(attempts: Iterable[UUID]) -> Mapping[UUID, Held]:
    """What each of these attempts held from its grant on."""
    wanted = list(attempts)
    gpus: dict[UUID, list[tuple[str, str, int]]] = defaultdict(list)
    allocations = Allocation.objects.filter(attempt__in=wanted).order_by("gpu__uuid")
    for attempt, uuid, node, billing in allocations.values_list(
        "attempt_id", "gpu__uuid", "gpu__node__name", "billing"
    ):
        gpus[attempt].append((uuid, node, round(billing * MICRO)))
    return {
        attempt: Held(
            tuple(uuid for uuid, _, _ in rows),
            tuple(dict.fromkeys(node for _, node, _ in rows)),
            sum(micro for _, _, micro in rows),
        )
        for attempt, rows in gpus.items()
    }


def usage(at: datetime, *, half_life_s: float) -> Usage:
    """What every entity had consumed by attempts that had ended by then, lost work credited, as it counted then."""
    half_life, at_ms = round(half_life_s * 1000), to_ms(at)
    since = at - timedelta(seconds=FADED * half_life_s) if half_life_s else None
    sums: dict[str, dict[Any, float]] = {"queue": {}, "project": {}, "user": {}}

    def charge(owner: tuple[str, str, str], gpu_ms: float) -> None:
        queue, project, user = owner
        for ledger, key in (("queue", queue), ("project", project), ("user", (project, user))):
            sums[ledger][key] = sums[ledger].get(key, 0.0) + gpu_ms

    spans = _lately(Allocation.objects.filter(released_at__lte=at), "released_at", since).order_by()
    for granted, released, billing, *owner in spans.values_list(
        "granted_at", "released_at", "billing", *_owner("attempt__job__")
    ).iterator(chunk_size=2000):
        cost = interval(billing, to_ms(granted), to_ms(released), at_ms, half_life_ms=half_life)
        charge((owner[0], owner[1], owner[2]), cost)
    losses = _lately(LostWork.objects.filter(at__lte=at), "at", since).order_by()
    columns = ("attempt__granted_at", "resume_until", "redo_since", "at", *_owner("attempt__job__"))
    weighed = losses.values_list(*columns).annotate(weight=Sum("attempt__allocations__billing"))
    for granted, resumed, redo, ended, *owner, weight in weighed.iterator(chunk_size=2000):
        for start, end in ((granted, resumed), (redo, ended)):
            if start is not None and end is not None:
                given = interval(weight or 0.0, to_ms(start), to_ms(end), at_ms, half_life_ms=half_life)
                charge((owner[0], owner[1], owner[2]), -given)
    made = {ledger: {key: Account(ms, at_ms) for key, ms in found.items()} for ledger, found in sums.items()}
    return Usage(made["queue"], made["project"], made["user"])


def _owner(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}queue__name", f"{prefix}project__name", f"{prefix}user__username"


def _lately(rows: QuerySet[Any], field: str, since: datetime | None) -> QuerySet[Any]:
    return rows if since is None else rows.filter(**{f"{field}__gt": since})


def policy_changes(since: datetime, until: datetime) -> int:
    """How often weights, levels, rules or settings were changed in these days."""
    kinds = (Queue, Level, PreemptionRule, Project, Membership, FairShareSettings, PlanningSettings, BillingWeight)
    return sum(
        kind.history.filter(history_date__gt=since, history_date__lte=until).exclude(history_type="+").count()
        for kind in kinds
    )


class Closed(NamedTuple):
    """A time in which a node, or a GPU, took no work, in ms; ``spares``: what ran there went on."""

    node: str | None
    gpu: str | None
    start_ms: int
    end_ms: int
    spares: bool


_NODE_EVENTS = ("node_registered", "node_lost", "node_ready", "node_cordoned", "node_draining")


def closed(since: datetime, until: datetime) -> list[Closed]:
    """When nodes were lost, cordoned, draining or not there yet, and GPUs out of service, as the events of these days
    say; what no event tells of has stood as it stands now."""
    nodes = Node.objects.filter(registered_at__isnull=False).values_list("name", "state")
    # Events go after a time, and a node that has run something was there.
    worked = AttemptNode.objects.filter(attempt__granted_at__lt=since).order_by().values_list("node__name", flat=True)
    gpus = Gpu.objects.exclude(state=GpuState.RETIRED).values_list("uuid", "state")
    found = [
        Closed(name, None, start, end, state in (NodeState.CORDONED, NodeState.DRAINING))
        for name, state, start, end in _stood(dict(nodes), "node", _NODE_EVENTS, since, until, set(worked.distinct()))
        if state != NodeState.READY
    ]
    found += [
        Closed(None, uuid, start, end, state in (GpuState.SUSPECT, GpuState.QUARANTINED))
        for uuid, state, start, end in _stood(dict(gpus), "gpu", ("gpu_state",), since, until, set())
        if state != GpuState.HEALTHY
    ]
    return found


def _stood(
    present: Mapping[str, str], what: str, types: tuple[str, ...], since: datetime, until: datetime, worked: set[str]
) -> Iterable[tuple[str, str, int, int]]:
    """(name, state, from, to) of each of the things in these days; ABSENT before the first word of it, unless it is
    among those that had ``worked`` before."""
    rows = Event.objects.filter(object=what, type__in=types)
    before: dict[str, str] = {}
    for name, data in rows.filter(at__lt=since).order_by("id").values_list("object_id", "data"):
        before[name] = data.get("to", before.get(name, ""))
    changes: dict[str, list[tuple[int, str, dict[str, Any]]]] = defaultdict(list)
    for name, at, message, data in (
        rows.filter(at__gte=since, at__lt=until).order_by("id").values_list("object_id", "at", "message", "data")
    ):
        if name in present and data.get("to"):
            changes[name].append((to_ms(at), message, data))
    for name, state_now in present.items():
        told = changes.get(name, [])
        state, start = before.get(name) or _first(what, told, state_now, name in worked), to_ms(since)
        for ms, _, data in told:
            if ms > start:
                yield name, state, start, ms
            state, start = str(data["to"]), ms
        if to_ms(until) > start:
            yield name, state, start, to_ms(until)


def _first(what: str, told: list[tuple[int, str, dict[str, Any]]], state_now: str, worked: bool) -> str:
    """How something stood before the first word of it."""
    if not told:
        return state_now
    _, message, data = told[0]
    if data.get("from"):
        return str(data["from"])
    if what == "node":
        return str(NodeState.READY) if worked else "ABSENT"
    return "ABSENT" if message.endswith("has joined") else str(GpuState.HEALTHY)
