"""The lives of jobs: one attempt at a time, one end, lawful steps, the place kept, limits and cancels obeyed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from tests.checker.evidence import ENDED, QUEUED, Event, Evidence, Process, Run, Violation
from tests.checker.replaced import since

# As published in the README's picture; written down here once more, so that a wrong table can't excuse itself.
EDGES = {
    "": {"QUEUED", "REJECTED"},
    "QUEUED": {"HELD", "DISPATCHING", "CANCELLED", "FAILED"},
    "HELD": {"QUEUED", "CANCELLED", "FAILED"},
    "DISPATCHING": {"RUNNING", "CANCELLING", "QUEUED", "FAILED"},
    "RUNNING": {"PREEMPTING", "CANCELLING", "QUEUED", "SUCCEEDED", "FAILED", "TIMED_OUT"},
    "PREEMPTING": {"RUNNING", "CANCELLING", "QUEUED", "SUCCEEDED", "FAILED", "TIMED_OUT"},
    "CANCELLING": {"CANCELLED"},
}


def one_attempt_of_a_job_at_a_time(e: Evidence) -> Iterator[Violation]:
    """Attempts are 1, 2, 3 and each begins after the one before: by the events and by the processes' own word."""
    before: dict[str, Run] = {}
    for run in e.runs.values():
        earlier = before.get(run.job)
        if run.number != (earlier.number + 1 if earlier else 1):
            yield Violation(
                "attempts are not numbered 1, 2, 3",
                str(run.granted),
                f"number {run.number} after {earlier.number if earlier else 0}",
                run.job,
                run.attempt,
            )
        if earlier is not None and (earlier.ended is None or earlier.ended.seq > run.granted.seq):
            yield Violation(
                "an attempt was granted while another was live",
                str(earlier.ended or earlier.granted),
                str(run.granted),
                run.job,
                run.attempt,
                at=run.granted.at,
            )
        before[run.job] = run
    by_job: dict[str, list[Process]] = defaultdict(list)
    for process in e.processes:
        by_job[process.job].append(process)
    for job, processes in by_job.items():
        for first, second in combinations(processes, 2):
            if first.epoch != second.epoch and second.start < first.until:
                yield Violation(
                    "two attempts of a job ran at once",
                    f"{first.name} lived until {first.until:.3f}",
                    f"{second.name} began at {second.start:.3f}",
                    job,
                    at=second.begins,
                )
    for row in e.told("collision"):
        if row["on"].startswith("job:") and row["holder"]["epoch"] != row["epoch"]:
            yield Violation(
                "two attempts of a job ran at once",
                f"process {row['holder']['pid']} or a fork had the lock",
                f"process {row['pid']} began at {row['at']:.3f}",
                row["job"],
                at=row["wall"],
            )


def every_job_ends_once(e: Evidence) -> Iterator[Violation]:
    """A job has at most one terminal state and no step after it; in a settled house each has one."""
    for job, steps in e.steps.items():
        ends = [step for step in steps if step.data["to"] in ENDED]
        if ends:
            # A start after a cancel is judged where cancels are.
            for step in steps[steps.index(ends[0]) + 1 :]:
                if not (step.type == "granted" and ends[0].data["to"] == "CANCELLED"):
                    yield Violation(
                        "something happened to a job after its end",
                        str(ends[0]),
                        str(step),
                        job,
                        step.attempt,
                        at=step.at,
                    )
        elif e.house.settled:
            yield Violation(
                "a job has not come to an end",
                str(steps[-1]),
                f"nothing more by {e.house.exported_at:.3f}",
                job,
                at=steps[-1].at,
            )


def only_published_edges_occur(e: Evidence) -> Iterator[Violation]:
    """Each step begins where the one before led and is an edge of the published machine."""
    for job, steps in e.steps.items():
        state, last = "", None
        for step in steps:
            if state in ENDED:
                break
            if step.data.get("from", "") != state or step.data["to"] not in EDGES.get(state, ()):
                yield Violation(
                    "a step that the state machine does not have",
                    str(last or "it was new"),
                    f"{step}: from {step.data.get('from', 'nothing')} to {step.data['to']}",
                    job,
                    step.attempt,
                    at=step.at,
                )
            state, last = step.data["to"], step


def an_acknowledged_submission_is_one_job(e: Evidence) -> Iterator[Violation]:
    """What a client was told is its job was submitted; one key of a user stands for one job."""
    submitted = {ev.object_id for ev in e.events if ev.type == "submitted"}
    keys: dict[tuple[object, str], str] = {}
    for row in e.told("acknowledged"):
        if row["job"] not in submitted or row["job"] not in e.jobs:
            yield Violation(
                "an acknowledged job was lost",
                f"acknowledged at {row['wall']:.3f}",
                "there is no such job",
                row["job"],
                at=row["wall"],
            )
        if row.get("key") and keys.setdefault((row.get("user"), row["key"]), row["job"]) != row["job"]:
            yield Violation(
                "one key made two jobs",
                f"key {row['key']!r} made {keys[(row.get('user'), row['key'])]}",
                f"and {row['job']}",
                row["job"],
                at=row["wall"],
            )


def a_requeued_job_keeps_its_place(e: Evidence) -> Iterator[Violation]:
    """Queue, level, size and submission are as they were submitted, or as those of the job whose place it took; only
    failures use up retries."""
    for job, steps in e.steps.items():
        row, first = e.jobs.get(job), steps[0]
        if row is None or first.type != "submitted":
            continue
        ended = [run for run in e.runs_of.get(job, ()) if run.ended is not None]
        lost, preempted = (sum(run.outcome == o for run in ended) for o in ("LOST", "PREEMPTED"))
        failed = sum(run.outcome in ("FAILED", "OOM") for run in ended)
        facts = [
            ("was submitted", f"{since(first):.3f}", f"{row['submitted_at']:.3f}"),
            ("was submitted", first.message.partition(";")[0], f"submitted to {row['queue']} at {row['level']}"),
            ("asked for GPUs", str(first.data["gpus"]), str(row["gpu_count"])),
        ]
        facts += [("failed, of its own", f"{failed} at most", str(row["app_failures"]))] * (
            row["app_failures"] > failed
        )
        facts += [("failed, of infrastructure", f"{lost} at most", str(row["infra_failures"]))] * (
            row["infra_failures"] > lost
        )
        facts += [("was preempted", f"{preempted} at most", str(row["preempt_count"]))] * (
            row["preempt_count"] > preempted
        )
        last = steps[-1]
        if last.type == "requeued" and last.data.get("outcome") == "PREEMPTED":
            facts.append(("is marked preempted", "True", str(row["preempted"])))
        for what, said, is_now in facts:
            if said != is_now:
                yield Violation(
                    f"a job did not keep its place: how often or when it {what}",
                    f"events: {said}",
                    f"its row: {is_now}",
                    job,
                )


def no_process_outlives_max_duration(e: Evidence) -> Iterator[Violation]:
    """No process lives longer than its attempt had left, nor a job's processes together than the job may run."""
    late = e.house.kill_s + e.house.heartbeat_s + e.house.slack_s
    spent: dict[str, float] = defaultdict(float)
    counted: set[tuple[str, int]] = set()
    for process in e.processes:
        run = e.run_of.get((process.job, process.epoch))
        row = e.attempts.get(run.attempt) if run else None
        if row is None or run is None:
            continue
        lived = process.until - process.start
        if lived > row["remaining_s"] + late:
            yield Violation(
                "a process outlived its time limit",
                f"{process.name} lived {lived:.1f} s",
                f"its attempt had {row['remaining_s']} s",
                run.job,
                run.attempt,
                at=process.alive,
            )
        if (process.job, process.epoch) not in counted:
            counted.add((process.job, process.epoch))
            spent[process.job] += max(0.0, lived - late)
    for job, seconds in spent.items():
        if job in e.jobs and seconds > e.jobs[job]["max_duration_s"]:
            yield Violation(
                "the attempts of a job ran longer than the job may",
                f"{seconds:.1f} s",
                f"max_duration is {e.jobs[job]['max_duration_s']} s",
                job,
            )


def a_cancelled_job_starts_no_more_and_goes(e: Evidence) -> Iterator[Violation]:
    """After an accepted cancel there is no grant, and its processes are gone in the time that is promised.

    A node that hears nothing of it has heard nothing since, and stops them by its fence.
    """
    late = max(e.house.cancel_s + e.house.heartbeat_s, e.house.fence_s + e.house.kill_s) + e.house.slack_s
    cancels: dict[str, Event] = {}
    for job, steps in e.steps.items():
        for step in steps:
            if step.data["to"] in ("CANCELLING", "CANCELLED"):
                cancels.setdefault(job, step)
            elif step.type == "granted" and job in cancels:
                yield Violation(
                    "a cancelled job was started", str(cancels[job]), str(step), job, step.attempt, at=step.at
                )
    for process in e.processes:
        cancel = cancels.get(process.job)
        if cancel is not None and process.alive > cancel.at + late:
            yield Violation(
                "a cancelled job's process did not go",
                str(cancel),
                f"{process.name} lived until {process.alive:.3f}",
                process.job,
                at=process.alive,
            )


def nothing_is_stuck(e: Evidence) -> Iterator[Violation]:
    """At the end no job is past the deadline of a passing state, and nothing is held by what has ended."""
    house = e.house
    passing = {
        "DISPATCHING": house.claim_s,
        "PREEMPTING": house.grace_s + house.kill_s,
        "CANCELLING": house.cancel_s + house.lease_s,
    }
    for job, steps in e.steps.items():
        last = steps[-1]
        allowed = passing.get(last.data["to"])
        if allowed is not None and house.exported_at - last.at > allowed + house.heal_s:
            yield Violation("a job is stuck", str(last), f"still so at {house.exported_at:.3f}", job, last.attempt)
    for attempt, run in e.runs.items():
        held = [row["gpu"] for row in e.allocations.get(attempt, []) if row["released_at"] is None]
        if run.ended is not None and held:
            yield Violation(
                "GPUs are held by an attempt that has ended", str(run.ended), f"open: {held}", run.job, attempt
            )
        state = e.steps[run.job][-1].data["to"]
        if run.ended is None and state in (QUEUED, "HELD", *ENDED):
            yield Violation(
                "an attempt is live though its job is not", str(run.granted), f"the job is {state}", run.job, attempt
            )
