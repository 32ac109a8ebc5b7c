"""How long jobs wait under EMEP, beside the reference policy, on real traces; and how full it packs a pool.

    python -m benchmarks.policy --traces DIR [--trace philly|venus|openb ...] [--restore 58,59,60,61,62] [--jobs N]
                                [--reference priofs-easy] [--policy FILE]

The reference is priority, then fair share, with EASY backfill and preemption (``benchmarks.reference_policies``), in a
simulator of its own. Levels are drawn by job id, ``max_duration`` is the recorded duration, victims save at once. These
replays are chaotic: one run says nothing under some 8 %, so both sides run at each of several restore times and the
means are compared. Seconds are CPU seconds of this process. ``openb`` is the packing of ``benchmarks.packing``.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks import packing
from benchmarks.arguments import Parser, directory, whole, wholes
from benchmarks.reference_policies import POLICIES, Figures, Reference
from benchmarks.traces import TraceJob, parse_nodes, read_jobs
from benchmarks.verdicts import at_least, at_most, no_verdicts
from scheduling.core.policy import DEFAULT_POLICY, Policy
from scheduling.core.pool import Pool
from scheduling.simulation.cluster import pool_of_spec
from scheduling.simulation.idle import idle_policy
from scheduling.simulation.policy_patch import patch_of, patched
from scheduling.simulation.queueing import queue_jobs
from scheduling.simulation.report import report
from scheduling.simulation.runtime import SimJob
from scheduling.simulation.workload import read_trace
from scheduling.simulation.world import simulate

DAY_S = 86_400
RESTORES = [58, 59, 60, 61, 62]
REFERENCE = "priofs-easy"
MAX_WAIT_RATIO, MAX_SHARE_RATIO, MAX_CRITICAL_S = 0.95, 1.05, 5.0
NOT_PACKING = ("restore", "jobs", "reference", "policy")
HEAD = (
    f"{'restore':>9}{'side':>11}{'mean':>9}{'p95':>9}{'bsld':>8}{'share':>8}{'Critical':>10}{'preempt':>9}{'CPU s':>8}"
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A trace, the cluster it is replayed on, and how many jobs a second our simulator must do."""

    file: str
    nodes: str
    jobs_per_s: float


COMPARISONS = {
    "philly": Comparison("philly_dev_jobs.csv.gz", "8x56,2x64", 3000),
    "venus": Comparison("venus_dev_jobs.csv.gz", "8x72", 5000),
}


def reference(jobs: Sequence[TraceJob], nodes: str, *, policy: str, restore_s: int) -> tuple[Figures, float]:
    """The figures of the reference, and the CPU seconds it took."""
    began = time.process_time()
    figures = Reference(jobs, parse_nodes(nodes), policy=policy, preempt=True, restore_s=restore_s).run()
    return figures, time.process_time() - began


def emep(jobs: Sequence[SimJob], pool: Pool, policy: Policy, *, restore_s: int) -> tuple[Figures, float]:
    """The figures of EMEP, and the CPU seconds it took."""
    began = time.process_time()
    outcome = simulate(jobs, pool, policy, restore_s=restore_s, save_s=0)
    took = time.process_time() - began
    told = {name: float(value or 0) for name, value in report(outcome).figures.items()}
    figures = Figures(
        told["mean_wait_s"],
        told["p95_wait_s"],
        told["mean_bsld"],
        told["share_error"],
        told["critical_mean_wait_s"],
        int(told["preemptions"]),
    )
    return figures, took


def line(restore: str, side: str, figures: Figures, *, took: float) -> str:
    """One row under ``HEAD``."""
    critical = "-" if figures.critical_wait is None else f"{figures.critical_wait:.1f}"
    return (
        f"{restore:>9}{side:>11}{figures.mean_wait:>9.0f}{figures.p95_wait:>9.0f}{figures.bsld:>8.2f}"
        f"{figures.share_error:>8.4f}{critical:>10}{figures.preemptions:>9.0f}{took:>8.1f}"
    )


def mean_of(runs: Sequence[Figures]) -> Figures:
    """The means of the figures over the runs."""
    return Figures(
        fmean(run.mean_wait for run in runs),
        fmean(run.p95_wait for run in runs),
        fmean(run.bsld for run in runs),
        fmean(run.share_error for run in runs),
        fmean(run.critical_wait or 0.0 for run in runs),
        round(fmean(run.preemptions for run in runs)),
    )


def differences(options: argparse.Namespace, *, jobs: int, of: int) -> list[str]:
    """How a run differs from the one that the limits are for: the whole trace, and everything else by default."""
    found = [f"{jobs} of the {of} jobs are replayed (--jobs)"] if jobs < of else []
    given = {"--restore": options.restore != RESTORES, "--reference": options.reference != REFERENCE,
             "--policy": options.policy is not None}  # fmt: skip
    names = [name for name, other in given.items() if other]
    return found + ([f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not the default"] if names else [])


def compare(traces: Path, chosen: Comparison, *, policy: Policy, options: argparse.Namespace) -> None:
    """Runs both sides over one trace and prints their figures and ratios; TableError when it can't be used."""
    trace = read_trace(traces / chosen.file)
    jobs = read_jobs(traces / chosen.file, limit=options.jobs)
    differs = differences(options, jobs=len(jobs), of=len(trace.jobs))
    ids = {job.id for job in jobs}
    trace = replace(trace, jobs=tuple(job for job in trace.jobs if job.id in ids))
    sims, pool = queue_jobs(trace, policy, classes="hash", types=False), pool_of_spec(chosen.nodes)
    for note in idle_policy(policy, trace, pool):
        print(f"note: {note}")
    gc.freeze()  # the jobs live to the end: collections need not look at them again and again
    print(f"\n{chosen.file} on {chosen.nodes}: {len(jobs)} jobs, reference {options.reference}\n{HEAD}")
    theirs, ours, their_s, our_s = [], [], [], []
    for restore_s in options.restore:
        figures, took = reference(jobs, chosen.nodes, policy=options.reference, restore_s=restore_s)
        print(line(str(restore_s), "reference", figures, took=took), flush=True)
        theirs.append(figures)
        their_s.append(took)
        figures, took = emep(sims, pool, policy, restore_s=restore_s)
        print(line(str(restore_s), "EMEP", figures, took=took), flush=True)
        ours.append(figures)
        our_s.append(took)
    them, us = mean_of(theirs), mean_of(ours)
    print(line("means", "reference", them, took=fmean(their_s)))
    print(line("means", "EMEP", us, took=fmean(our_s)))

    def judged(verdict: str) -> str:
        return "" if differs else verdict

    for name, ratio, limit in (
        ("mean wait", us.mean_wait / max(them.mean_wait, 1e-9), MAX_WAIT_RATIO),
        ("p95 wait", us.p95_wait / max(them.p95_wait, 1e-9), MAX_WAIT_RATIO),
        ("share error", us.share_error / max(them.share_error, 1e-9), MAX_SHARE_RATIO),
    ):
        print(f"{name + ', ratio of the means':<36}{ratio:>9.3f}  {judged(at_most(ratio, limit))}".rstrip())
    print(f"{'bounded slowdown, ratio of the means':<36}{us.bsld / max(them.bsld, 1e-9):>9.3f}")
    critical = us.critical_wait or 0.0
    print(f"{'Critical mean wait, s':<36}{critical:>9.2f}  {judged(at_most(critical, MAX_CRITICAL_S))}".rstrip())
    rate = len(jobs) / max(fmean(our_s), 1e-9)
    print(f"{'simulator, jobs a CPU second':<36}{rate:>9.0f}  {judged(at_least(rate, chosen.jobs_per_s))}"
          f"   (reference: {len(jobs) / max(fmean(their_s), 1e-9):.0f})")  # fmt: skip
    if differs:
        print(no_verdicts("the whole trace and the defaults", differs))


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of the chosen traces."""
    parser = Parser("policy", __doc__)
    parser.add_argument("--traces", type=directory, required=True, help="the directory of the trace files")
    parser.add_argument("--trace", action="append", choices=[*COMPARISONS, "openb"], help="all when not given")
    parser.add_argument("--restore", type=wholes(0, DAY_S), default=RESTORES, help="seconds that a victim restores")
    parser.add_argument("--jobs", type=whole(1, 10_000_000), default=None, help="only the first so many jobs")
    parser.add_argument("--reference", choices=POLICIES, default=REFERENCE)
    parser.add_argument("--policy", type=Path, default=None, help="JSON: what differs from EMEP's default policy")
    options = parser.parse_args(argv)
    with parser.naming("--policy"):
        policy = patched(DEFAULT_POLICY, patch_of(options.policy)) if options.policy else DEFAULT_POLICY
    with parser.naming("--traces"):
        for name in options.trace or [*COMPARISONS, "openb"]:
            if name == "openb":
                packing.show(options.traces)
                if given := [name for name in NOT_PACKING if getattr(options, name) != parser.get_default(name)]:
                    print(f"note: packing is not changed by {', '.join(f'--{name}' for name in given)}")
            else:
                compare(options.traces, COMPARISONS[name], policy=policy, options=options)


if __name__ == "__main__":
    main()
