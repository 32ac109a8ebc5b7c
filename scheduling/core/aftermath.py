"""What becomes of a job when an attempt ends: D11, D13 and the classes of retry, as one function."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import Policy, backoff_s
from scheduling.core.words import duration_in_words

MAX_YIELDS = 3
LEFT = "left by itself to be run again"


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt that ended: how, and what its job has been through. ``outcome`` is the wire's word.

    ``evicted``: it was asked to stop for another job.
    """

    state: JobState
    outcome: str
    infra_failures: int = 0
    app_failures: int = 0
    retries: int = 0
    yields: int = 0
    asked_to_stop: bool = False
    evicted: bool = False
    progressed: bool = True


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The job's next event, the wait before it may start again (seconds), and what is counted.

    ``preempted``: it was stopped before its end and is to be resumed; ``evicted``: for another job. ``told``: how often
    it is still run again, and when, where that is limited.
    """

    event: JobEvent
    outcome: str
    backoff_s: float = 0.0
    infra_failures: int = 0
    app_failures: int = 0
    yields: int = 0
    preempted: bool = False
    evicted: bool = False
    error: str = ""
    told: str = ""


def aftermath(ended: Ended, policy: Policy) -> Aftermath:
    """What the job does next.

    A cancel that was accepted before wins (D30). Preemption, a yield (exit 85 unasked) and lost infrastructure
    go back to the queue at the old rank; infrastructure has its own budget with a doubling backoff, an
    application failure uses the job's own ``retries``, out of memory and the time limit are final (D13).
    """
    same = Aftermath(JobEvent.FAIL, ended.outcome, infra_failures=ended.infra_failures, app_failures=ended.app_failures)
    if ended.state is JobState.CANCELLING:
        return replace(same, event=JobEvent.STOPPED, outcome="CANCELLED")
    if ended.outcome == "SUCCEEDED":
        return replace(same, event=JobEvent.SUCCEED)
    if ended.outcome == "TIMED_OUT":
        return replace(same, event=JobEvent.TIME_OUT, error="max_duration is used up")
    if ended.outcome == "PREEMPTED":
        return _yielded(ended, same)
    if ended.outcome == "LOST":
        return _lost(ended, same, policy)
    failures = ended.app_failures + 1
    again = ended.outcome == "FAILED" and failures <= ended.retries
    return replace(
        same, event=JobEvent.REQUEUE if again else JobEvent.FAIL, app_failures=failures,
        told=f"retry {failures} of {ended.retries}" if again else _no_retry(ended),
    )  # fmt: skip


def _no_retry(ended: Ended) -> str:
    """Why none of the retries that it asked for comes now; "" when it asked for none."""
    if not ended.retries:
        return ""
    if ended.outcome == "OOM":
        return "running out of memory is not retried"
    return "its 1 retry is used up" if ended.retries == 1 else f"its {ended.retries} retries are used up"


def _yielded(ended: Ended, same: Aftermath) -> Aftermath:
    """Back to the queue at the old rank; a job that stops itself again and again without progress fails."""
    yields = 0 if ended.asked_to_stop or ended.progressed else ended.yields + 1
    if yields >= MAX_YIELDS:
        error = f"it {LEFT} {yields} times in a row without progress, which is the limit"
        return replace(same, outcome="FAILED", yields=yields, error=error)
    told = "" if ended.asked_to_stop else f"it {LEFT}"
    if yields:
        told += f", time {yields} in a row without progress: it fails with time {MAX_YIELDS}"
    return replace(same, event=JobEvent.REQUEUE, yields=yields, preempted=True, evicted=ended.evicted, told=told)


def _lost(ended: Ended, same: Aftermath, policy: Policy) -> Aftermath:
    """Back to the queue after a doubling pause, while the infrastructure budget lasts."""
    failures, budget = ended.infra_failures + 1, policy.retry.infrastructure_budget
    if failures > budget:
        error = f"lost to the infrastructure {failures} times; the budget is {budget}"
        return replace(same, infra_failures=failures, error=error)
    pause = backoff_s(policy, failures)
    told = f"infrastructure failure {failures} of the {budget} that it may have"
    if pause >= 1:
        told += f"; it starts again after {duration_in_words(round(pause))} at the earliest"
    return replace(same, event=JobEvent.REQUEUE, infra_failures=failures, backoff_s=pause, told=told)
