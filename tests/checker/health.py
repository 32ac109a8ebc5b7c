"""GPUs lose their place by three explicit failures in a row or a named reason, and get it back by their test alone."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checker.evidence import Event, Evidence, Violation

FAILS = 3


def a_gpu_is_condemned_by_three_failures_in_a_row(e: Evidence) -> Iterator[Violation]:
    """Each counted failure follows the one before it, the third condemns and no earlier one, a pass begins anew.

    What was UNHEALTHY is HEALTHY again by way of the quarantine only.
    """
    streak: dict[str, int] = {}
    last: dict[str, Event] = {}
    for event in e.events:
        if event.object != "gpu":
            continue
        gpu, before = event.object_id, last.get(event.object_id)
        count, to = event.data.get("failed_checks"), event.data.get("to")
        fact = ""
        if count is not None:
            if count not in (1, streak.get(gpu, 0) + 1):
                fact = f"failure {count} in a row follows failure {streak.get(gpu, 0)}"
            elif (to == "UNHEALTHY") != (count >= FAILS):
                fact = f"it is {to} after {count} failures in a row, the limit is {FAILS}"
            streak[gpu] = count
        elif to == "HEALTHY":
            streak[gpu] = 0
            if before is not None and before.data.get("to") == "UNHEALTHY":
                fact = "it was UNHEALTHY, and no test has cleared it"
        if fact:
            yield Violation(
                "a GPU's health did not follow its checks", str(before or event), fact, gpu=gpu, at=event.at
            )
        if to:
            last[gpu] = event


def silence_is_no_failed_check(e: Evidence) -> Iterator[Violation]:
    """Each check that was counted as failed came with a report of GPUs that the node sent just before.

    For nodes that write down themselves when they reported.
    """
    reports: dict[str, list[float]] = {}
    for row in e.told("sent"):
        reports.setdefault(row["node"], []).extend([row["wall"]] if row["checked"] else [])
    for event in e.events:
        if event.object != "gpu" or "failed_checks" not in event.data or event.node not in reports:
            continue
        before = [at for at in reports[event.node] if at <= event.at + e.house.slack_s]
        if not before or event.at - max(before) > e.house.heartbeat_s + e.house.slack_s:
            yield Violation(
                "silence counted as a failed check",
                f"{event}: failure {event.data['failed_checks']}",
                f"node {event.node} last reported at {max(before):.3f}" if before else f"{event.node} never reported",
                gpu=event.object_id,
                at=event.at,
            )
