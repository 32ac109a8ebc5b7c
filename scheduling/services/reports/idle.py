"""Which jobs and projects held GPUs and left them idle? By job and by project, with GPU-hours."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings

from scheduling.services.reports.asked import Asked
from scheduling.store.queries import idle as queries
from scheduling.store.queries.access import Actor


@dataclass
class IdleJob:
    """What a job left idle in the period: ``gpu_s`` GPU-seconds in so many ``stretches``, of which the ``longest`` took
    so many seconds, on ``gpus`` (node, number); ``now``: some of it is idle still.

    Of a job that the reader may not know of only the project, the kind and the queue are told: ``job`` is None.
    """

    job: UUID | None
    name: str
    project: str
    user: str
    kind: str
    queue: str
    gpu_s: float = 0.0
    stretches: int = 0
    longest_s: float = 0.0
    now: bool = False
    gpus: set[tuple[str, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class IdleReport:
    """What was idle, the most first: by job, and in GPU-seconds by project and in all. It was below ``percent`` for at
    least ``minutes``."""

    jobs: list[IdleJob]
    projects: dict[str, float]
    total_s: float
    percent: float
    minutes: float


def idle(actor: Actor, asked: Asked) -> IdleReport:
    """What was held and idle in the period. A stretch counts by its length within; its whole length decides whether it
    is told."""
    start, end, minutes = asked.period.start, asked.period.end, float(settings.IDLE_MINUTES)
    jobs: dict[tuple[UUID | None, str, str, str], IdleJob] = {}
    projects: dict[str, float] = defaultdict(float)
    for each in queries.stretches(asked.jobs, start, end, minutes * 60):
        known = actor.sees(each.project)
        key = (each.job if known else None, each.project, each.kind, each.queue)
        row = jobs.setdefault(
            key,
            IdleJob(
                key[0], each.name if known else "", each.project, each.user if known else "", each.kind, each.queue
            ),
        )
        seconds = (min(each.until, end) - max(each.since, start)).total_seconds()
        row.gpu_s += seconds
        row.stretches += 1
        row.longest_s = max(row.longest_s, seconds)
        row.now = row.now or each.open
        row.gpus.add((each.node, each.gpu))
        projects[each.project] += seconds
    return IdleReport(
        jobs=sorted(jobs.values(), key=lambda row: (-row.gpu_s, row.project, str(row.job))),
        projects=dict(sorted(projects.items(), key=lambda each: (-each[1], each[0]))),
        total_s=sum(projects.values()), percent=float(settings.IDLE_PERCENT), minutes=minutes,
    )  # fmt: skip
