"""Which of what a simulation was given changes nothing in it? A sentence for each, for whoever gave it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from scheduling.core.fields import nearest, shown
from scheduling.core.policy import DEFAULT_POLICY, Policy
from scheduling.core.pool import Pool
from scheduling.core.words import agree, jobs_in_words
from scheduling.simulation.cluster import UNLIMITED_MIB, says_types
from scheduling.simulation.policy_patch import already
from scheduling.simulation.queueing import QUEUE, Classes, Estimates
from scheduling.simulation.workload import Trace

MAX_NAMED = 5
SAVES_AT_ONCE = "evicted jobs save at once"
_SUBMITTING = ("default_max_duration_s", "max_duration_cap_s", "default_level")  # rules for what is submitted


def idle_rules(old: Policy, new: Policy, *, saving: str) -> tuple[str, ...]:
    """The rules of queues that differ and that no simulation asks for. ``saving``: how long evicted jobs save here."""
    found = []
    for queue in new.queues:
        before = old.queue(queue.name)
        changed = [name for name in (*_SUBMITTING, "grace_s") if getattr(before, name) != getattr(queue, name)]
        for name in changed:
            why = saving if name == "grace_s" else "it is a rule for jobs that are submitted"
            found.append(f"queues.{queue.name}.{name} of the policy changes nothing here: {why}")
    return tuple(found)


def idle_values(old: Policy, patch: Mapping[str, Any]) -> tuple[str, ...]:
    """What a patch that can be applied says of the policy that holds already."""
    return tuple(
        f"{path} of the policy is {shown(value)} already: it changes nothing" for path, value in already(old, patch)
    )


def idle_policy(policy: Policy, trace: Trace, pool: Pool) -> tuple[str, ...]:
    """What of the policy for a trace has no effect: weights of whom the trace or the cluster does not have, other
    queues than the one of all its jobs, and what no simulation asks for."""
    projects = {job.project for job in trace.jobs}
    users = {f"{job.project}/{job.user}" for job in trace.jobs}
    by_user = {"/".join(key): weight for key, weight in policy.user_weights.items()}
    found = [
        *_strangers("project_weights", policy.project_weights, projects, "project of the jobs"),
        *_strangers("user_weights", by_user, users, "user of the jobs"),
        *_strangers("billing", policy.billing, {gpu.model for gpu in pool.gpus}, "GPU type of the cluster"),
    ]
    others = [each.name for each in policy.queues if each.name != QUEUE and each != DEFAULT_POLICY.queue(each.name)]
    found += [f"queues.{name} of the policy changes nothing here: all jobs are in queue {QUEUE}" for name in others]
    if policy.retry != DEFAULT_POLICY.retry:
        found.append("retry of the policy changes nothing here: no hardware fails")
    rules = idle_rules(DEFAULT_POLICY, policy, saving="evicted jobs save for --save-s")
    return (*found, *(rule for rule in rules if rule.startswith(f"queues.{QUEUE}.")))


def _strangers(key: str, weights: Mapping[str, float], known: Collection[str], what: str) -> Iterator[str]:
    """A sentence for the names that have a weight and are not known."""
    names = [name for name in weights if name not in known]
    if names:
        hint = nearest(names[0], sorted(known)) if len(names) == 1 else ""
        yield f"{key} of the policy names {_listed(names)}{hint}, which is no {what}: it changes nothing"


def idle_columns(trace: Trace, pool: Pool, *, classes: Classes, estimates: Estimates) -> tuple[str, ...]:
    """What the columns of a trace say that is not asked for, or not as it is written there."""
    found = []
    types = sum(1 for job in trace.jobs if job.gpu_types)
    if types and not says_types(pool):
        found.append(f"{_jobs(types)} for a gpu_type, and the cluster states none: any GPU is taken for it; "
                     "write types like 8x10:A100, or name a file of nodes")  # fmt: skip
    memory = sum(1 for job in trace.jobs if job.gpu_mem_gb)
    if memory and all(gpu.memory_mib == UNLIMITED_MIB for gpu in pool.gpus):
        found.append(f"{_jobs(memory)} for gpu_mem_gb, and the cluster states no memory: every GPU has enough; "
                     "name a file of nodes with gpu_mem_gb")  # fmt: skip
    if trace.parts:
        found.append(f"{_jobs(trace.parts)} for a part of a GPU (gpu_milli below 1000): each takes a whole one")
    if "class" in trace.said:
        found.append("the column class is not used: "
                     + ("levels are drawn by job id" if classes == "hash" else "all jobs are Normal")
                     + f" (--classes {classes})")  # fmt: skip
    idle = [column for column in ("cpus", "mem_gb", "status") if column in trace.said]
    if idle:
        found.append(f"{_columns(idle)} not used: only GPUs are counted, and jobs run for duration_s")
    if "req_walltime_s" in trace.said and estimates == "oracle":
        found.append("the column req_walltime_s is not used: it is for --estimates requested")
    return tuple(found)


def _jobs(count: int) -> str:
    return f"{jobs_in_words(count)} {agree(count, 'asks', 'ask')}"


def _columns(names: Sequence[str]) -> str:
    count = len(names)
    return f"the {agree(count, 'column', 'columns')} {', '.join(names)} {agree(count, 'is', 'are')}"


def _listed(names: Iterable[str]) -> str:
    told = [shown(name) for name in names]
    more = f" and {len(told) - MAX_NAMED} more" if len(told) > MAX_NAMED else ""
    return ", ".join(told[:MAX_NAMED]) + more
