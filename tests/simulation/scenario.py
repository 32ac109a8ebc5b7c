"""Scenario files: a small world and what must happen in it, in seconds, readable without the code.

A file has ``about`` (what it shows), ``nodes`` or ``spec``, ``jobs``, ``expect``, and if need be ``policy`` (a patch),
``faults``, ``windows``, ``restore_s``, ``save_s``. A job runs for ``runs`` seconds; its ``limit`` is as long when not
given. ``expect`` is the whole timeline, one line for each thing that happens: second, what, job, and for a start the
GPUs (``n0/0-3`` is n0/0 to n0/3), which may be left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.core.policy import DEFAULT_POLICY, Policy
from scheduling.core.pool import Gpu, Node, Pool
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.snapshot import Snapshot, WaitingJob, Window
from scheduling.core.units import parse_memory
from scheduling.simulation.cluster import pool_of_spec
from scheduling.simulation.faults import Fault
from scheduling.simulation.outcome import Happening, Outcome
from scheduling.simulation.policy_patch import patched
from scheduling.simulation.runtime import SimJob
from scheduling.simulation.world import simulate

FOLDER = Path(__file__).parent / "scenarios"
KEYS = {"about", "nodes", "spec", "jobs", "expect", "policy", "faults", "windows", "restore_s", "save_s"}
JOB_KEYS = {
    "id", "at", "runs", "limit", "gpus", "nodes", "nvlink", "memory_gb", "level", "queue", "project", "user",
    "not_before", "start_by", "in_rack", "checkpoint_s",
}  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    """One file, read."""

    name: str
    expect: tuple[str, ...]
    jobs: tuple[SimJob, ...]
    begin: Snapshot
    faults: tuple[Fault, ...]
    restore_s: int
    save_s: int


def read(path: Path) -> Scenario:
    """The scenario in a file; a key that means nothing here is refused."""
    raw = json.loads(path.read_text())
    if unknown := set(raw) - KEYS:
        raise ValueError(f"{path.name}: unknown keys {sorted(unknown)}; known are {sorted(KEYS)}")
    policy = patched(DEFAULT_POLICY, raw.get("policy", {}))
    pool = pool_of_spec(raw["spec"]) if "spec" in raw else _pool(raw["nodes"])
    windows = tuple(
        Window(each["name"], tuple(each["nodes"]), each["from"] * 1000, each["to"] * 1000, each.get("project"))
        for each in raw.get("windows", [])
    )
    faults = tuple(
        Fault(
            each["at"] * 1000,
            node=each.get("node"),
            gpu=each.get("gpu"),
            repaired_ms=each["repaired"] * 1000 if "repaired" in each else None,
        )
        for each in raw.get("faults", [])
    )
    jobs = tuple(_job(each, policy) for each in raw["jobs"])
    begin = Snapshot(0, policy, pool, windows=windows)
    return Scenario(
        path.stem, tuple(raw["expect"]), jobs, begin, faults, raw.get("restore_s", 60), raw.get("save_s", 0)
    )


def play(scenario: Scenario) -> Outcome:
    """What happens in it."""
    begin = scenario.begin
    return simulate(
        scenario.jobs,
        begin.pool,
        begin.policy,
        restore_s=scenario.restore_s,
        save_s=scenario.save_s,
        faults=scenario.faults,
        initial=begin,
    )


def timeline(outcome: Outcome, expect: tuple[str, ...] = ()) -> list[str]:
    """The log as lines like those of ``expect``; a line that leaves its GPUs out is compared without them."""
    lines = [line(each) for each in outcome.log]
    return [
        text.partition(" on ")[0] if place < len(expect) and " on " not in expect[place] else text
        for place, text in enumerate(lines)
    ]


def line(happening: Happening) -> str:
    """One happening: ``60 start J1 on n0/0-3``."""
    ms, what, job, gpus = happening
    where = f" on {_ranges(gpus)}" if what == "start" else ""
    return f"{ms / 1000:g} {what} {job}{where}"


def _ranges(gpus: tuple[str, ...]) -> str:
    parts: list[tuple[str, int, int]] = []
    for gpu in gpus:
        node, _, number = gpu.rpartition("/")
        if parts and parts[-1][0] == node and parts[-1][2] + 1 == int(number):
            parts[-1] = (node, parts[-1][1], int(number))
        else:
            parts.append((node, int(number), int(number)))
    return " ".join(f"{node}/{a}" if a == b else f"{node}/{a}-{b}" for node, a, b in parts)


def _pool(raw: list[dict[str, Any]]) -> Pool:
    nodes, gpus = [], []
    for each in raw:
        name = each["name"]
        nodes.append(Node(name, each.get("rack", "r0"), each.get("gbps", 100.0)))
        sizes = each.get("nvlink", [])  # GPUs of each NVLink group on the node; the rest are in none
        groups = [f"{name}-g{place}" for place, size in enumerate(sizes) for _ in range(size)]
        for index in range(each["gpus"]):
            group = groups[index] if index < len(groups) else None
            memory = parse_memory(f"{each.get('memory_gb', 80)}GB")
            gpus.append(Gpu(f"{name}/{index}", name, index, each.get("model", "A100"), memory, group))
    return Pool(tuple(nodes), tuple(gpus))


def _job(raw: dict[str, Any], policy: Policy) -> SimJob:
    if unknown := set(raw) - JOB_KEYS:
        raise ValueError(f"job {raw.get('id')}: unknown keys {sorted(unknown)}; known are {sorted(JOB_KEYS)}")
    queue = policy.queue(raw.get("queue", "merge"))
    level = queue.level(raw.get("level", "Normal")) if queue else None
    if queue is None or level is None:
        raise ValueError(f"job {raw['id']}: there is no such queue or level")
    limit, nodes, each = raw.get("limit", raw["runs"]), raw.get("nodes", 1), raw.get("gpus", 1)
    racks = (AffinityTerm("rack_id", "In", (raw["in_rack"],)),) if "in_rack" in raw else ()
    request = ResourceRequest(
        gpu_count=each * nodes,
        node_count=nodes,
        gpu_memory_min_mib=parse_memory(f"{raw['memory_gb']}GB") if "memory_gb" in raw else 0,
        nvlink_required=raw.get("nvlink", False),
        max_duration_s=limit,
        affinity=racks,
    )
    project = raw.get("project", "A")
    waiting = WaitingJob(
        id=raw["id"],
        queue=queue.name,
        level=level.name,
        level_value=level.value,
        project=project,
        user=raw.get("user", f"user of {project}"),
        submitted_ms=raw.get("at", 0) * 1000,
        request=request,
        remaining_s=limit,
        not_before_ms=raw.get("not_before", 0) * 1000,
        start_by_ms=raw["start_by"] * 1000 if "start_by" in raw else None,
    )
    return SimJob(waiting, raw["runs"] * 1000, raw.get("checkpoint_s", 0))
