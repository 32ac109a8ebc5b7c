"""How well did it go? The figures of a simulation, for programs and for people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scheduling.simulation.outcome import Fate, JobOutcome, Outcome
from scheduling.simulation.workload import LeftOut

BSLD_FLOOR_S = 10.0
NONE_LEFT_OUT = LeftOut()
MAX_FIRST = 3  # rejected jobs of one code that are named
NO_WINDOW = (
    "all jobs were submitted at once, so no time lies between the first and the last submission: util_window is n/a, "
    "0.0 with --json"
)
_CRITICAL = "Critical"
Figure = float | int | None


@dataclass(frozen=True, slots=True)
class Report:
    """The figures by name, in the order of ``MEANINGS``; ``per_class`` has those of each level."""

    figures: dict[str, Figure]
    per_class: dict[str, dict[str, Figure]]
    details: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """One plain object: the figures, and the rest nested under per_class and details. ``util_window`` is a number
        there whatever happened: 0.0 where there is no window, which a note says."""
        figures = {**self.figures, "util_window": self.figures["util_window"] or 0.0}
        return {**figures, "per_class": self.per_class, "details": self.details}

    def as_text(self) -> str:
        """A table for people: each figure with what it means, then one line for each class."""
        lines = [f"{name:<24}{_shown(self.figures[name]):>14}  {meaning}" for name, meaning in MEANINGS.items()]
        names = list(next(iter(self.per_class.values()), {}))
        widths = [max(len(name), 12) + 2 for name in names]
        lines += [
            "",
            "by class".ljust(12) + "".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True)),
        ]
        for level, figures in self.per_class.items():
            cells = zip(figures.values(), widths, strict=True)
            lines.append(level.ljust(12) + "".join(f"{_shown(value):>{width}}" for value, width in cells))
        rest = {name: self.details[name] for name in DETAILS}
        meanings = {**DETAILS, "left_out": _left_out_because(self.details["left_out_because"])}
        width = max(14, *(len(_shown(value)) for value in rest.values() if not isinstance(value, str)))
        lines += ["", *(f"{name:<24}{_shown(value):>{width}}  {meanings[name]}" for name, value in rest.items())]
        lines += list(_rejected_lines(self.details["rejected_because"], self.details["rejected_first"]))
        return "\n".join(lines)


MEANINGS = {
    "jobs": "jobs that were simulated",
    "rejected": "jobs more, which the empty pool could never hold; no other figure counts them",
    "mean_wait_s": "from submission to the first start",
    "p50_wait_s": "half the jobs waited no longer",
    "p95_wait_s": "95 of 100 jobs waited no longer",
    "mean_jct_s": "from submission to the end",
    "p99_jct_s": "99 of 100 jobs ended no later after their submission",
    "mean_bsld": "time in the system over run time (at least 10 s); at least 1 for each job",
    "util_window": "share of the GPUs held, from the first to the last submission",
    "makespan_s": "from the first submission to the last end",
    "share_error": "while anyone waits: how far the projects are from their due; 0 fair, 1 far",
    "critical_mean_wait_s": "mean wait of the Critical jobs",
    "preemptions": "evictions",
    "wall_s": "real time that the simulation took",
}


DETAILS = {
    "lost_gpu_h": "GPU-hours held without getting on: work done again, restoring, saving",
    "faults": "attempts lost with their hardware",
    "not_finished": "of the jobs, those that did not end well",
    "left_out": "rows of the trace that are no jobs",
    "cycles": "passes of the scheduler",
    "digest": "sha256 of all that happened, equal for equal histories",
}


def _left_out_because(counts: dict[str, int]) -> str:
    """Why rows of the trace are no jobs."""
    reasons = {"no_gpus": "without GPUs (gpus empty, 0 or less)", "no_time": "without run time (duration_s likewise)"}
    told = [f"{counts[name]} {why}" for name, why in reasons.items() if counts[name]]
    return f"{DETAILS['left_out']}{': ' if told else ''}{', '.join(told)}"


def _rejected_lines(counts: dict[str, int], first: Sequence[dict[str, str]]) -> Iterator[str]:
    """Why jobs were rejected: each code with how many, and the first of them with the sentence."""
    if counts:
        yield from ("", "rejected because")
    for code, count in counts.items():
        told = [f"{each['job']}: {each['message']}" for each in first if each["code"] == code]
        yield f"{code:<24}{count:>14}  {told[0]}"
        yield from (f"{'':<38}  {line}" for line in told[1:])
        if count > len(told):
            yield f"{'':<38}  and {count - len(told)} more"


def _rejected_first(jobs: Sequence[JobOutcome]) -> list[dict[str, str]]:
    """The first few rejected jobs of each code, in the order they came."""
    found: list[dict[str, str]] = []
    counts: Counter[str] = Counter()
    for job in jobs:
        if job.because is not None and counts[job.because.code] < MAX_FIRST:
            counts[job.because.code] += 1
            found.append({"job": job.id, "code": job.because.code, "message": job.because.message})
    return found


def report(
    outcome: Outcome, *, wall_s: float = 0.0, left_out: LeftOut = NONE_LEFT_OUT, notes: Sequence[str] = ()
) -> Report:
    """The figures of ``outcome``, in seconds of its virtual time; None where no job has the figure.

    wait = first start - submission; percentiles are by nearest rank (:func:`percentile`). The slowdown of a job is
    its time in the system over its run time or 10 s, whichever is more, and at least 1. Waits count every job that
    started, completion times and slowdowns every job that finished. ``wall_s``, ``left_out`` (rows of the trace that
    are no jobs) and ``notes`` (what of the input changed nothing) are passed through, with one more where all jobs were
    submitted at once.
    """
    rejected = sum(1 for job in outcome.jobs if job.fate is Fate.REJECTED)
    jobs = [job for job in outcome.jobs if job.fate not in (Fate.REJECTED, Fate.NOT_COME)]
    waits, stays = _waits(jobs), _stays(jobs)
    ends = [job.end_ms for job in jobs if job.end_ms is not None]
    first_ms = min((job.submitted_ms for job in jobs), default=0)
    capacity_ms = outcome.gpus * outcome.window_ms
    figures: dict[str, Figure] = {
        "jobs": len(jobs),
        "rejected": rejected,
        "mean_wait_s": _mean(waits),
        "p50_wait_s": percentile(waits, 50),
        "p95_wait_s": percentile(waits, 95),
        "mean_jct_s": _mean(stays),
        "p99_jct_s": percentile(stays, 99),
        "mean_bsld": _mean(_slowdowns(jobs)),
        "util_window": round(outcome.busy_gpu_ms / capacity_ms, 6) if capacity_ms else None,
        "makespan_s": (max(ends) - first_ms) / 1000 if ends else None,
        "share_error": round(outcome.share_error, 6),
        "critical_mean_wait_s": _mean(_waits([job for job in jobs if job.level == _CRITICAL])),
        "preemptions": sum(job.preemptions for job in jobs),
        "wall_s": round(wall_s, 3),
    }
    by_value = sorted({(-job.level_value, job.level) for job in jobs})
    details = {
        "lost_gpu_h": round(sum(job.lost_gpu_ms for job in jobs) / 3_600_000, 3),
        "faults": sum(job.faults for job in jobs),
        "not_finished": sum(1 for job in jobs if job.fate is not Fate.FINISHED),
        "left_out": left_out.rows,
        "left_out_because": asdict(left_out),
        "rejected_because": dict(sorted(Counter(job.because.code for job in outcome.jobs if job.because).items())),
        "rejected_first": _rejected_first(outcome.jobs),
        "cycles": outcome.cycles,
        "digest": outcome.digest(),
        "notes": [*notes, *([NO_WINDOW] if jobs and not outcome.window_ms else [])],
    }
    return Report(figures, {level: _class([j for j in jobs if j.level == level]) for _, level in by_value}, details)


def percentile(values: Sequence[float], percent: int) -> float | None:
    """The smallest of the values that at least ``percent`` of 100 of them don't exceed (nearest rank); None for no
    values."""
    if not values:
        return None
    return sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1]


def _class(jobs: Sequence[JobOutcome]) -> dict[str, Figure]:
    waits = _waits(jobs)
    return {
        "jobs": len(jobs),
        "mean_wait_s": _mean(waits),
        "p50_wait_s": percentile(waits, 50),
        "p95_wait_s": percentile(waits, 95),
        "mean_jct_s": _mean(_stays(jobs)),
        "mean_bsld": _mean(_slowdowns(jobs)),
        "preemptions": sum(job.preemptions for job in jobs),
        "lost_gpu_h": round(sum(job.lost_gpu_ms for job in jobs) / 3_600_000, 3),
    }


def _waits(jobs: Sequence[JobOutcome]) -> list[float]:
    return [(job.first_start_ms - job.submitted_ms) / 1000 for job in jobs if job.first_start_ms is not None]


def _stays(jobs: Sequence[JobOutcome]) -> list[float]:
    return [(job.end_ms - job.submitted_ms) / 1000 for job in jobs if _finished(job) and job.end_ms is not None]


def _slowdowns(jobs: Sequence[JobOutcome]) -> list[float]:
    floor_ms = BSLD_FLOOR_S * 1000
    return [
        max(1.0, (job.end_ms - job.submitted_ms) / max(job.runs_ms, floor_ms))
        for job in jobs
        if _finished(job) and job.end_ms is not None
    ]


def _finished(job: JobOutcome) -> bool:
    return job.fate is Fate.FINISHED


def _mean(values: Sequence[float]) -> float | None:
    return round(math.fsum(values) / len(values), 6) if values else None


def _shown(value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return str(value)
