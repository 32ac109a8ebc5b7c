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
    seen: dict[tuple[str, str, frozenset[str]], list[Event]] = defaultdict(list)
    for eviction in evictions(e):
        for victim in eviction.victims:
            gpus = frozenset(e.runs[victim.attempt].gpus)
            same = seen[eviction.nominated.object_id, victim.object_id, gpus]
            same.append(victim)
            if len(same) >= TIMES and victim.at - same[-TIMES].at < WITHIN_S:
                fact = f"job {eviction.nominated.object_id} evicted it: {', '.join(map(str, same[-TIMES:-1]))}"
                about = {"job": victim.object_id, "attempt": victim.attempt}
                yield Violation("the same eviction again and again", fact, str(victim), at=victim.at, **about)


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
