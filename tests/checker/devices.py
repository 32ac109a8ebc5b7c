"""Who held which GPU: granted once, used by whom it was granted to, fit for the work, and free only when it was."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.checker.evidence import Evidence, Process, Row, Run, Violation


def a_gpu_is_in_one_live_allocation(e: Evidence) -> Iterator[Violation]:
    """No GPU is granted between its grant to an attempt and that attempt's end."""
    holder: dict[str, Run] = {}
    for event in e.events:
        run = e.runs.get(event.attempt)
        if run is None or event.type not in ("granted", "attempt_ended"):
            continue
        for gpu in run.gpus:
            held = holder.get(gpu)
            if event.type == "attempt_ended":
                if held is run:
                    del holder[gpu]
                continue
            if held is not None:
                yield Violation(
                    "a GPU is in two live allocations",
                    f"attempt {held.attempt} has it: {held.granted}",
                    str(event),
                    run.job,
                    run.attempt,
                    gpu,
                    event.at,
                )
            holder[gpu] = run


def a_gpu_is_held_by_processes_of_one_attempt(e: Evidence) -> Iterator[Violation]:
    """By the processes' own word and by their locks, nobody began on a GPU while another attempt's process had it."""
    by_gpu: dict[str, list[Process]] = defaultdict(list)
    for process in e.processes:
        for gpu in process.gpus:
            by_gpu[gpu].append(process)
    for gpu, held in by_gpu.items():
        for before, after in pairwise(held):
            if (before.job, before.epoch) != (after.job, after.epoch) and after.start < before.until:
                yield Violation(
                    "processes of two attempts held a GPU at once",
                    f"{before.name} lived until {before.until:.3f}",
                    f"{after.name} began at {after.start:.3f}",
                    after.job,
                    gpu=gpu,
                    at=after.begins,
                )
    for row in e.told("collision"):
        holder = row["holder"]
        if row["on"].startswith("gpu:") and (holder["job"], holder["epoch"]) != (row["job"], row["epoch"]):
            yield Violation(
                "processes of two attempts held a GPU at once",
                f"process {holder['pid']} of job {holder['job']} or a fork of it had the lock",
                f"process {row['pid']} began at {row['at']:.3f}",
                row["job"],
                gpu=row["on"][4:],
                at=row["wall"],
            )


def processes_use_what_was_granted_and_end_before_its_release(e: Evidence) -> Iterator[Violation]:
    """Each process has a granted attempt, only that one's GPUs, and lies inside its grant; no success without one.

    The work of a lost node is the exception: its GPUs may count as released, but nobody gets one before it is free.
    """
    slack = e.house.slack_s
    for each in e.runs.values():
        if e.truth and each.outcome == "SUCCEEDED" and (each.job, each.epoch) not in e.processes_of:
            yield Violation(
                "success without a process", str(each.ended), "no process tells of it", each.job, each.attempt
            )
    granted = _grants_by_gpu(e)
    for process in e.processes:
        run = e.run_of.get((process.job, process.epoch))
        if run is None:
            yield Violation(
                "a process of an attempt that was never granted",
                process.name,
                "there is no such grant",
                process.job,
                at=process.begins,
            )
            continue
        about = {"job": run.job, "attempt": run.attempt}
        for gpu in sorted(set(process.gpus) - set(run.gpus)):
            yield Violation(
                "a process uses a GPU that it was not granted",
                process.name,
                str(run.granted),
                gpu=gpu,
                at=process.begins,
                **about,
            )
        if process.begins < run.granted.at - slack:
            yield Violation(
                "a process began before its grant",
                f"{process.name} began at {process.begins:.3f}",
                str(run.granted),
                at=process.begins,
                **about,
            )
        if run.ended is None:
            continue
        if process.begins > run.ended.at + slack:
            yield Violation(
                "a process began after its attempt had ended",
                f"it began at {process.begins:.3f}",
                str(run.ended),
                at=process.begins,
                **about,
            )
        elif run.outcome != "LOST" and process.alive > run.ended.at + slack:
            yield Violation(
                "GPUs were released before their process had ended",
                f"{process.name} lived until {process.alive:.3f}",
                str(run.ended),
                at=run.ended.at,
                **about,
            )
        elif run.outcome == "LOST":
            for gpu in process.gpus:
                for other in granted.get(gpu, ()):
                    if run.ended.at <= other.granted.at < process.alive - slack:
                        yield Violation(
                            "a GPU was given out while a lost attempt's process lived",
                            f"{process.name} lived until {process.alive:.3f}",
                            str(other.granted),
                            gpu=gpu,
                            at=other.granted.at,
                            **about,
                        )


def _grants_by_gpu(e: Evidence) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = defaultdict(list)
    for run in e.runs.values():
        for gpu in run.gpus:
            found[gpu].append(run)
    return found


def an_attempt_is_granted_whole_and_ends_together(e: Evidence) -> Iterator[Violation]:
    """One grant has every GPU of the attempt, no process begins before every node claimed, and all stop together."""
    for run in e.runs.values():
        job, held, about = e.jobs.get(run.job), e.allocations.get(run.attempt, []), {"attempt": run.attempt}
        if {row["gpu"] for row in held} != set(run.gpus) or len({row["granted_at"] for row in held}) > 1:
            yield Violation(
                "the grant and the allocations differ",
                str(run.granted),
                f"allocations of {sorted(row['gpu'] for row in held)}",
                run.job,
                at=run.granted.at,
                **about,
            )
        if len({row["released_at"] for row in held}) > 1:
            yield Violation(
                "the GPUs of one attempt were released apart",
                f"{held[0]['gpu']} at {held[0]['released_at']}",
                f"{held[-1]['gpu']} at {held[-1]['released_at']}",
                run.job,
                **about,
            )
        if job is not None and (
            len(run.gpus) < job["gpu_count"] or (len(run.gpus) != job["gpu_count"] and not job["nvlink_exclusive"])
        ):
            yield Violation(
                "an attempt has another number of GPUs than its job asked for",
                str(run.granted),
                f"the job asks for {job['gpu_count']}",
                run.job,
                at=run.granted.at,
                **about,
            )
        yield from _together(e, run)


def _together(e: Evidence, run: Run) -> Iterator[Violation]:
    parts = e.parts.get(run.attempt, [])
    # One node starts when it has claimed; several wait until all could.
    claims = [part["ready_at" if len(parts) > 1 else "claimed_at"] for part in parts]
    for process in e.processes_of.get((run.job, run.epoch), ()):
        if None in claims or process.begins < max(claims, default=0.0) - e.house.slack_s:
            yield Violation(
                "a process began before all nodes were ready",
                f"it began at {process.begins:.3f}",
                f"they were ready at: {claims}",
                run.job,
                run.attempt,
                at=process.begins,
            )
        for broke in (step for step in e.steps.get(run.job, ()) if step.attempt == run.attempt):
            if broke.data.get("cause") == "peer" and process.alive > _stopped_by(e, process, broke.at):
                yield Violation(
                    "a part of a gang outlived it",
                    f"{process.name} lived until {process.alive:.3f}",
                    str(broke),
                    run.job,
                    run.attempt,
                    at=broke.at,
                )


def _stopped_by(e: Evidence, process: Process, broke_at: float) -> float:
    """By when the process is to have stopped after its gang broke: a node that was cut off then hears of it when it is
    answered again, and until then only its fence ends what runs there."""
    node, soon = e.node_of(process), e.house.kill_s + e.house.slack_s
    calls = [row for row in e.told("answered") if row["node"] == node]
    heard = [row["wall"] for row in calls if row["wall"] - (row["at"] - row["sent"]) >= broke_at]
    if calls and not heard:
        return math.inf
    return max(broke_at + e.house.heartbeat_s, min(heard, default=0.0)) + soon


def an_nvlink_attempt_lies_in_one_group(e: Evidence) -> Iterator[Violation]:
    """All GPUs of an attempt whose job needs NVLink are of one group (as the groups are at the end)."""
    for run in e.runs.values():
        job = e.jobs.get(run.job)
        if job is None or not job["nvlink_required"]:
            continue
        groups = sorted({str(e.gpus[gpu]["nvlink_group"]) for gpu in run.gpus if gpu in e.gpus})
        if len(groups) != 1 or groups == ["None"]:
            yield Violation(
                "an NVLink job lies in no one group",
                str(run.granted),
                f"groups {groups}",
                run.job,
                run.attempt,
                at=run.granted.at,
            )


def granted_gpus_were_fit_for_it(e: Evidence) -> Iterator[Violation]:
    """At its grant each GPU was HEALTHY, its node READY, and its memory enough."""
    gpu_state: dict[str, str] = {}
    node_state: dict[str, str] = {}
    for event in e.events:
        if event.object == "gpu" and "to" in event.data:
            gpu_state[event.object_id] = event.data["to"]
        elif event.object == "node" and "to" in event.data:
            node_state[event.object_id] = event.data["to"]
        elif event.type == "granted":
            least = e.jobs.get(event.object_id, {}).get("gpu_memory_min_mib", 0)
            for uuid in event.data["gpus"]:
                gpu = e.gpus.get(uuid, {})
                wrong = [
                    f"it is {gpu_state.get(uuid, 'unheard of')}" if gpu_state.get(uuid) != "HEALTHY" else "",
                    f"its node is {node_state.get(gpu.get('node', ''), 'unheard of')}"
                    if node_state.get(gpu.get("node", "")) != "READY"
                    else "",
                    f"it has {gpu.get('memory_mib')} MiB of {least}" if gpu.get("memory_mib", 0) < least else "",
                ]
                for fact in filter(None, wrong):
                    yield Violation(
                        "a GPU was granted that was not fit for it",
                        str(event),
                        fact,
                        event.object_id,
                        event.attempt,
                        uuid,
                        event.at,
                    )


def a_lost_node_has_stopped_its_processes(e: Evidence) -> Iterator[Violation]:
    """When the server takes a silent node's work back, the node has ended it by itself already."""
    for process in e.processes:
        run = e.run_of.get((process.job, process.epoch))
        if run is None or run.ended is None or run.cause != "node_lost":
            continue
        if process.begins <= run.ended.at and process.alive > run.ended.at + e.house.slack_s:
            yield Violation(
                "a cut-off node's process outlived its lease",
                f"{process.name} lived until {process.alive:.3f}",
                str(run.ended),
                run.job,
                run.attempt,
                at=run.ended.at,
            )


def a_silent_node_stops_its_processes(e: Evidence) -> Iterator[Violation]:
    """No process lives longer than fence and kill after the last call of its node that the server answered.

    For nodes that write down their calls. A refusal since then pauses the fence, and only the taking back tells.
    """
    limit = e.house.fence_s + e.house.kill_s + e.house.slack_s
    calls: dict[str, list[Row]] = defaultdict(list)
    for row in e.truth:
        if row["event"] == "answered" or (row["event"] == "failed" and row["refused"]):
            calls[row["node"]].append(row)
    for process in e.processes:
        node = e.node_of(process)
        heard = [row["sent"] for row in calls[node] if row["event"] == "answered" and row["sent"] <= process.until]
        if not heard or any(r["event"] == "failed" and max(heard) < r["sent"] <= process.until for r in calls[node]):
            continue
        if process.until - max(heard) > limit:
            yield Violation(
                "a process outlived its node's fence",
                f"{process.name} lived until {process.until:.3f}",
                f"node {node} was last answered what it sent at {max(heard):.3f}",
                process.job,
                at=process.alive,
            )
