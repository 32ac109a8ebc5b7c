"""What becomes of a job when an attempt ends: D11, D13 and the classes of retry, as one function."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import Policy, backoff_s

MAX_YIELDS = 3


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that ended: how, and what its job has been through. ``outcome`` is the wire's word."""

    state: JobState
    outcome: str
    infra_failures: int = 0
    app_failures: int = 0
    retries: int = 0
    yields: int = 0
    asked_to_stop: bool = False
    progressed: bool = True


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The job's next event, the wait before it may start again (seconds), and what is counted."""

    event: JobEvent
    outcome: str
    backoff_s: float = 0.0
    infra_failures: int = 0
    app_failures: int = 0
    yields: int = 0
    preempted: bool = False
    error: str = ""


def aftermath(ended: Ended, policy: Policy) -> Aftermath:
    """What the job does next.

    A cancel that was accepted before wins (D30). Preemption, a yield (exit 85 unasked) and lost infrastructure
    go back to the queue at the old rank; infrastructure has its own budget with a doubling backoff, an
    application failure uses the job's own ``retries``, out of memory and the time limit are final (D13).
    """
    counts = {"infra_failures": ended.infra_failures, "app_failures": ended.app_failures}
    if ended.state is JobState.CANCELLING:
        return Aftermath(JobEvent.STOPPED, "CANCELLED", **counts)
    if ended.outcome == "SUCCEEDED":
        return Aftermath(JobEvent.SUCCEED, "SUCCEEDED", **counts)
    if ended.outcome == "TIMED_OUT":
        return Aftermath(JobEvent.TIME_OUT, "TIMED_OUT", error="max_duration is used up", **counts)
    if ended.outcome == "PREEMPTED":
        yields = 0 if ended.asked_to_stop or ended.progressed else ended.yields + 1
        if yields >= MAX_YIELDS:
            return Aftermath(
                JobEvent.FAIL, "FAILED", error=f"stopped to be resumed {yields} times without progress", **counts
            )
        return Aftermath(JobEvent.REQUEUE, "PREEMPTED", yields=yields, preempted=True, **counts)
    if ended.outcome == "LOST":
        failures = ended.infra_failures + 1
        if failures > policy.retry.infrastructure_budget:
            return Aftermath(
                JobEvent.FAIL,
                "LOST",
                infra_failures=failures,
                app_failures=ended.app_failures,
                error=f"lost to the infrastructure {failures} times; the budget is {policy.retry.infrastructure_budget}",
            )
        return Aftermath(
            JobEvent.REQUEUE,
            "LOST",
            backoff_s=backoff_s(policy, failures),
            infra_failures=failures,
            app_failures=ended.app_failures,
        )
    failures = ended.app_failures + 1
    again = ended.outcome == "FAILED" and failures <= ended.retries
    return Aftermath(
        JobEvent.REQUEUE if again else JobEvent.FAIL,
        ended.outcome,
        infra_failures=ended.infra_failures,
        app_failures=failures,
    )
