"""How does a job of a trace enter our queue? Its request, its level and its ``max_duration``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal

from scheduling.core.policy import Policy
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.snapshot import WaitingJob
from scheduling.core.units import MAX_DURATION_S, parse_memory
from scheduling.core.words import agree, jobs_in_words
from scheduling.simulation.runtime import SimJob
from scheduling.simulation.workload import NEEDS_WALLTIME, Trace, TraceJob

QUEUE = "merge"
CLASSES = ("none", "hash")
ESTIMATES = ("oracle", "requested")
Classes = Literal["none", "hash"]
Estimates = Literal["oracle", "requested"]


class QueueingError(ValueError):
    """The trace can't be queued as was asked; the message names the line, the column and what to do."""


def queue_jobs(
    trace: Trace, policy: Policy, *, classes: Classes = "none", estimates: Estimates = "oracle", types: bool = True
) -> tuple[SimJob, ...]:
    """The jobs of the trace in the order they come, all in the merge queue.

    ``classes``: "none" makes all of them Normal, "hash" draws a level from the id (:func:`hash_level`).
    ``estimates``: ``max_duration`` is the recorded duration ("oracle") or the asked walltime ("requested"): a job
    that ran longer runs on to its recorded end here too.
    ``types``: whether the wanted GPU types are required; False for a cluster that states none.
    QueueingError when the policy lacks the queue or a level of it, or a job has no walltime to go by.
    """
    values = _level_values(policy, ("Critical", "High", "Normal", "Low") if classes == "hash" else ("Normal",))
    made: list[SimJob] = []
    for job in trace.jobs:
        level = hash_level(job.id) if classes == "hash" else "Normal"
        limit_s = _limit_s(trace.name, job, estimates)
        waiting = WaitingJob(
            id=job.id,
            queue=QUEUE,
            level=level,
            level_value=values[level],
            project=job.project,
            user=job.user,
            submitted_ms=job.submit_ms,
            request=request_of(job, limit_s=limit_s, types=types),
            remaining_s=limit_s,
        )
        made.append(SimJob(waiting, job.duration_ms))
    return tuple(made)


def beyond_limit(trace: Trace, estimates: Estimates) -> tuple[str, ...]:
    """A sentence about the jobs that run on beyond their limit, as they did in the log, if there are any."""
    count = sum(1 for job in trace.jobs if job.duration_ms > 1000 * _limit_s(trace.name, job, estimates))
    if not count:
        return ()
    ran = f"{jobs_in_words(count)} ran longer than req_walltime_s says"
    runs = agree(count, "it runs on to its recorded end", "each runs on to its recorded end")
    return (f"{ran}: {runs}, where a live pool would end it at that limit",)


def hash_level(job_id: str) -> str:
    """A level that is the same in every run: the id's sha256 as a number, modulo 100. Below 2 it is Critical, below
    12 High, below 72 Normal, else Low."""
    drawn = int(hashlib.sha256(job_id.encode()).hexdigest(), 16) % 100
    if drawn < 2:
        return "Critical"
    if drawn < 12:
        return "High"
    return "Normal" if drawn < 72 else "Low"


def request_of(job: TraceJob, *, limit_s: int, types: bool = True) -> ResourceRequest:
    """What the job asks for: whole nodes and one remainder node, or with ``span`` its GPUs anywhere."""
    terms: Sequence[AffinityTerm] = ()
    if types and job.gpu_types:
        terms = (AffinityTerm("gpu_model", "In", job.gpu_types),)
    return ResourceRequest(
        gpu_count=job.gpus,
        node_count=job.nodes,
        gpus_per_node=job.gpus_per_node,
        gpu_memory_min_mib=parse_memory(job.gpu_mem_gb) if job.gpu_mem_gb else 0,
        max_duration_s=limit_s,
        affinity=tuple(terms),
        remainder=job.remainder,
        allow_span=job.span,
    )


def _level_values(policy: Policy, names: Sequence[str]) -> dict[str, int]:
    queue = policy.queue(QUEUE)
    if queue is None:
        raise QueueingError(f"--policy has no queue {QUEUE!r}; the jobs of a trace go there: leave it in")
    values: dict[str, int] = {}
    for name in names:
        level = queue.level(name)
        if level is None:
            raise QueueingError(
                f"--policy has no level {name!r} in queues.{QUEUE}.levels, where jobs of a trace go; add it"
            )
        values[name] = level.value
    return values


def _limit_s(name: str, job: TraceJob, estimates: Estimates) -> int:
    seconds = job.duration_ms / 1000 if estimates == "oracle" else job.walltime_s
    if not seconds:
        what = "is empty" if seconds is None else "is 0"
        raise QueueingError(f"--jobs: {name}, line {job.line}, column req_walltime_s: {what}; {NEEDS_WALLTIME}")
    return min(MAX_DURATION_S, max(1, math.ceil(seconds)))
