"""No work goes round and round: evictions do not repeat, and what infrastructure failed waits before it goes again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.checker.evictions import evictions
from tests.checker.evidence import Event, Evidence, Run, Violation

BACKOFF_S, BACKOFF_CAP_S = 10.0, 600.0
TIMES, WITHIN_S = 3, 3600.0


def nothing_goes_round_in_circles(e: Evidence) -> Iterator[Violation]:
    """After each loss the pause doubles; no job evicts the same one from the same GPUs three times in an hour (D10)."""
    for runs in e.runs_of.values():
        yield from _pauses(e, runs)
    yield from _repeated_evictions(e)


def _repeated_evictions(e: Evidence) -> Iterator[Violation]:
    """What a job was asked for counts as what it left for, unless it was let run on and did; what a job has replaced
    counts as that job."""
    asked: dict[tuple[str, str, frozenset[str]], dict[str, Event]] = defaultdict(dict)
    for eviction in evictions(e):
        wants = _first_of(e, eviction.nominated.object_id)
        for victim in eviction.victims:
            same = asked[wants, victim.object_id, frozenset(e.runs[victim.attempt].gpus)]
            before = [each for attempt, each in same.items()
                      if attempt != victim.attempt and victim.at - each.at < WITHIN_S and _left(e, each)]  # fmt: skip
            if len(before) + 1 >= TIMES:
                fact = f"job {eviction.nominated.object_id} evicted it: {', '.join(map(str, before))}"
                about = {"job": victim.object_id, "attempt": victim.attempt}
                yield Violation("the same eviction again and again", fact, str(victim), at=victim.at, **about)
            same[victim.attempt] = victim


def _first_of(e: Evidence, job: str) -> str:
    """The first of the jobs that were replaced one after the other, at last by this one."""
    while (row := e.jobs.get(job)) is not None and row.get("replaces"):
        job = row["replaces"]
    return job


def _left(e: Evidence, asked: Event) -> bool:
    """Whether the attempt ended because it was asked to."""
    ended = e.runs[asked.attempt].ended
    if ended is None:
        return False
    later = (step for step in e.steps.get(asked.object_id, ()) if asked.seq < step.seq < ended.seq)
    spared = any(step.data["from"] == "PREEMPTING" and step.data["to"] == "RUNNING" for step in later)
    return not spared or (ended.data["outcome"], ended.data.get("why")) == ("PREEMPTED", "preempt")


def _pauses(e: Evidence, runs: list[Run]) -> Iterator[Violation]:
    losses = 0
    for run, following in pairwise(runs):
        if run.ended is None or run.outcome != "LOST":
            continue
        losses += 1
        pause = min(BACKOFF_S * 2 ** (losses - 1), BACKOFF_CAP_S) * e.house.scale
        if following.granted.at < run.ended.at + pause - 0.001:
            first, second = f"{run.ended}, loss {losses}: {pause:g} s to wait", str(following.granted)
            about = {"job": run.job, "attempt": following.attempt}
            yield Violation("a lost job went again without its pause", first, second, at=following.granted.at, **about)
