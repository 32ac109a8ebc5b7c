"""What was charged: counted again from the allocation intervals, by arithmetic of the checker's own."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.checker.evidence import Evidence, Row, Run, Violation

# Work lost for these reasons is given back (D6); an attempt may also be given back what it took to resume after one.
NOT_ITS_OWN_DOING = ("preempt", "health", "drain", "lost", "gpu")


@dataclass(frozen=True)
class Stretch:
    """GPUs of that billing weight held from ``begin`` to ``end``; a negative weight is given back."""

    weight: float
    begin: float
    end: float

    def counts(self, at: float, half_life_s: float) -> float:
        """GPU-ms of it that still count at ``at``: each instant counts 2^-(age / half-life)."""
        end = min(self.end, at)
        if half_life_s <= 0:
            return self.weight * (end - self.begin) * 1000
        rate = math.log(2) / half_life_s
        return self.weight * 1000 / rate * (math.exp(-rate * (at - end)) - math.exp(-rate * (at - self.begin)))


def gpu_hours_are_charged_once(e: Evidence) -> Iterator[Violation]:
    """Each ended attempt was charged its GPUs' time once, less what was lawfully given back; so are the balances."""
    owed: dict[tuple[str, str], list[Stretch]] = defaultdict(list)
    for attempt, run in e.runs.items():
        held = [row for row in e.allocations.get(attempt, []) if row["released_at"] is not None]
        job = e.jobs.get(run.job)
        if job is not None:
            user = f"{job['project']}/{job['user_name']}"
            for entity in (("queue", job["queue"]), ("project", job["project"]), ("user", user)):
                owed[entity] += _due(run, held)
        if run.ended is not None:
            yield from _attempt(e, run, held)
    for row in e.table("balance"):
        parts = owed.pop((row["ledger"], row["key"]), [])
        due, kept = sum(part.counts(row["settled_at"], e.house.half_life_s) for part in parts), row["gpu_ms"]
        if kept is not None and math.isfinite(kept) and abs(kept - due) > 1 + 2 * len(parts):
            yield Violation(
                "a balance is not the sum of its allocations",
                f"{row['ledger']} {row['key']}: {kept:.0f} GPU-ms",
                f"its allocations, less what was given back, come to {due:.0f} GPU-ms",
                at=row["settled_at"],
            )
    for (ledger, key), parts in owed.items():
        if parts:
            yield Violation("consumption without a balance", f"allocations of {ledger} {key}", "there is no row")


def _given_back(run: Run) -> list[tuple[float, float]]:
    told = run.ended.data.get("lost_ms", ()) if run.ended else ()
    return [(since / 1000, until / 1000) for since, until in told]


def _due(run: Run, held: Sequence[Row]) -> list[Stretch]:
    """What the attempt's entities are to be charged: its GPUs' time, less what its end gives back."""
    charged = [Stretch(row["billing"], row["granted_at"], row["released_at"]) for row in held]
    weight = sum(row["billing"] for row in held)
    return charged + [Stretch(-weight, since, until) for since, until in _given_back(run)]


def _attempt(e: Evidence, run: Run, held: Sequence[Row]) -> Iterator[Violation]:
    assert run.ended is not None
    about = {"job": run.job, "attempt": run.attempt, "at": run.ended.at}
    due = sum(row["billing"] * (row["released_at"] - row["granted_at"]) * 1000 for row in held)
    charged = run.ended.data.get("gpu_ms", 0)
    if abs(charged - due) > 1 + 2 * len(held):
        facts = f"charged {charged} GPU-ms: {run.ended}", f"its allocations are {due:.0f} GPU-ms"
        yield Violation("an attempt was not charged its GPUs' time", *facts, **about)
    back = _given_back(run)
    bounds = [run.granted.at, *(instant for stretch in back for instant in stretch), run.ended.at]
    if any(later < earlier - 0.001 for earlier, later in pairwise(bounds)):
        yield Violation("more was given back than was held", str(run.ended), f"given back: {back}", **about)
    row = e.attempts.get(run.attempt, {})
    why = {run.ended.data.get("why"), run.ended.data.get("cause"), "lost" if run.outcome == "LOST" else ""}
    if back and not why & set(NOT_ITS_OWN_DOING) and not (row.get("resume") and len(back) == 1):
        yield Violation("a job's own failure was given back", str(run.ended), f"given back: {back}", **about)


def fair_share_values_are_finite(e: Evidence) -> Iterator[Violation]:
    """No balance is negative, infinite or not a number."""
    for row in e.table("balance"):
        value = row["gpu_ms"]
        if value is None or not math.isfinite(value) or value < -1:
            yield Violation("a balance is no finite consumption", f"{row['ledger']} {row['key']}", f"it is {value}")
