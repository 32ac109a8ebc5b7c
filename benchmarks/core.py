"""How fast the scheduling core is on made-up queues: 33 shapes, 3 queues, 20 projects, 160 users, 8 durations.

    python -m benchmarks.core [--waiting 10000,100000] [--gpus 1000,10000] [--releases 200]

Each pair of numbers is measured in a process of its own, which prints one line. Times are CPU time. *build* makes the
scheduler from the snapshot, *first* is its first pass, which fills the empty pool; *memory* is the growth of the
process's peak from before the jobs were made. *release* ends one running job, drawn by chance, and makes the pass after
it, in which the reservations are made anew; *explained*, over as many releases more, is the same with the reasons of
every shape of every level found after the pass. *plan* tells what would become of one job more, as ``preview`` does:
jobs of a mix of shapes, one after the other, after the last of those passes. *arrival* is a submission that changes
nothing, as ``submit`` says; *idle* is how many do. *naive* scores and sorts every job and scans all GPUs for each, with
no reservations and no reasons, after a release too.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import random
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.arguments import Parser, whole, wholes
from benchmarks.naive import naive_pass_s
from benchmarks.synthetic import SUBMITTED_OVER_MS, Demand, pool
from benchmarks.verdicts import at_least, at_most, no_verdicts
from scheduling.core.explain import Explainer
from scheduling.core.garbage import not_searched
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.preview import preview
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot

ARRIVALS, RELEASES, PLANS = 2000, 200, 400
SMALL, LARGE, FEW_GPUS, MANY_GPUS = 10_000, 100_000, 1000, 10_000
LEAST_GPUS = 192  # every third node has the largest memory, and jobs ask for 8 nodes of it


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured: so many waiting jobs, GPUs, releases."""

    waiting: int
    gpus: int
    releases: int


@dataclass(frozen=True, slots=True)
class Found:
    """The figures of a case: CPU seconds, and MB (10^6 bytes). ``naive_s`` is None where it would take too long."""

    build_s: float
    first_s: float
    started: int
    memory_mb: float
    release_s: tuple[float, ...]
    explained_s: tuple[float, ...]
    arrival_s: tuple[float, ...]
    naive_s: float | None
    plan_s: tuple[float, ...] = ()


def peak_mb() -> float:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def explain_all(scheduler: Scheduler) -> None:
    """The reasons of one waiting job of every shape of every level."""
    explainer = Explainer(scheduler)
    for level in scheduler.waiting.levels.values():
        for nest in level.shapes.values():
            explainer.of_queued(next(nest.jobs()))


def releases(scheduler: Scheduler, case: Case, *, explain: bool) -> tuple[float, ...]:
    """CPU seconds of each pass after a release."""
    chance, now, found = random.Random(1), scheduler.share.clock.now_ms, []
    running = sorted(scheduler.live)
    for _ in range(case.releases):
        now += 1000
        place = chance.randrange(len(running))
        running[place], running[-1] = running[-1], running[place]
        ended = running.pop()
        began = time.process_time()
        scheduler.ended(ended, now)
        plan = scheduler.cycle(now)
        if explain:
            explain_all(scheduler)
        found.append(time.process_time() - began)
        running += [start.job for start in plan.starts]
    return tuple(found)


def plans(scheduler: Scheduler) -> tuple[float, ...]:
    """CPU seconds of each plan for one job more. The first one, which also finds the order of the queue, counts too."""
    now, demand, explainer, found = scheduler.share.clock.now_ms, Demand(seed=1), Explainer(scheduler), []
    for place in range(PLANS):
        job = replace(demand.job(now), id=f"plan-{place}")
        began = time.process_time()
        preview(scheduler, explainer, job)
        found.append(time.process_time() - began)
    return tuple(found)


def arrivals(scheduler: Scheduler, demand: Demand) -> tuple[float, ...]:
    """CPU seconds of each submission that changed nothing."""
    now, found = scheduler.share.clock.now_ms, []
    for _ in range(ARRIVALS):
        job = demand.job(now)
        began = time.process_time()
        matters = scheduler.submit(job)
        took = time.process_time() - began
        if matters:
            scheduler.cycle(now)
        else:
            found.append(took)
    return tuple(found)


def measure(case: Case) -> Found:
    """All figures of a case; meant for a process that has done nothing else."""
    before, demand, gpus = peak_mb(), Demand(), pool(case.gpus)
    snapshot = Snapshot(SUBMITTED_OVER_MS, DEFAULT_POLICY, gpus, demand.jobs(case.waiting))
    with not_searched():  # as the live loop does
        began = time.process_time()
        scheduler = Scheduler(snapshot)
        built = time.process_time()
        plan = scheduler.cycle(snapshot.now_ms)
        done = time.process_time()
    memory = peak_mb() - before
    gc.freeze()  # these live to the end: collections need not look at them again and again
    plain = releases(scheduler, case, explain=False)
    explained = releases(scheduler, case, explain=True)
    planned = plans(scheduler)
    naive = naive_pass_s(snapshot, scheduler) if case.waiting * case.gpus <= SMALL * FEW_GPUS else None
    idle = arrivals(scheduler, demand)
    return Found(built - began, done - built, len(plan.starts), memory, plain, explained, idle, naive, planned)


def line(case: Case, found: Found) -> str:
    """The figures of a case as one row under the heading."""

    def ms(values: tuple[float, ...]) -> str:
        return f"{statistics.median(values) * 1000:.2f} / {max(values) * 1000:.1f}" if values else "-"

    arrival = f"{statistics.median(found.arrival_s) * 1e6:.0f}" if found.arrival_s else "-"
    naive = "-" if found.naive_s is None else f"{found.naive_s * 1000:.0f}"
    return (
        f"{case.waiting:>8}{case.gpus:>8}{found.build_s:>9.2f}{found.first_s:>9.2f}{found.started:>8}"
        f"{found.memory_mb:>9.0f}{ms(found.release_s):>16}{ms(found.explained_s):>18}{arrival:>9}"
        f"{len(found.arrival_s) / ARRIVALS:>7.0%}{naive:>9}"
    )


HEAD = (
    f"{'waiting':>8}{'GPUs':>8}{'build s':>9}{'first s':>9}{'starts':>8}{'mem MB':>9}{'release ms':>16}"
    f"{'explained ms':>18}{'arr. us':>9}{'idle':>7}{'naive ms':>9}"
)


def plan_rows(cases: dict[tuple[int, int], Found]) -> list[tuple[str, float, str]]:
    """What one plan takes, and how that grows with the queue and the pool."""
    full, little, rows = (LARGE, MANY_GPUS), (SMALL, FEW_GPUS), list[tuple[str, float, str]]()
    median = {key: statistics.median(found.plan_s) * 1e6 for key, found in cases.items() if found.plan_s}
    if full in median:
        took = sorted(cases[full].plan_s)
        rows += [
            ("plan for one extra job, median us", median[full], at_most(median[full], 500)),
            ("  95th percentile, us", took[len(took) * 95 // 100] * 1e6, ""),
            ("  the first after a pass, ms", cases[full].plan_s[0] * 1000, ""),
        ]
    if full in median and little in median:
        rows.append(
            ("  100k x 10k over 10k x 1k", median[full] / median[little], at_most(median[full] / median[little], 3))
        )
    return rows


def judge(cases: dict[tuple[int, int], Found], *, releases: int = RELEASES) -> None:
    """The figures that have limits, of those cases that were measured, with verdicts where as many jobs ended as the
    limits are for."""
    median = {key: statistics.median(found.release_s) * 1000 for key, found in cases.items()}
    told = {key: statistics.median(found.explained_s) * 1000 for key, found in cases.items()}
    full, small, little = (LARGE, MANY_GPUS), (SMALL, MANY_GPUS), (SMALL, FEW_GPUS)
    rows: list[tuple[str, float, str]] = []
    if full in cases:
        found = cases[full]
        cold = found.build_s + found.first_s
        rows += [
            ("release, 100k x 10k, median ms", median[full], at_most(median[full], 5)),
            ("release cycle, explanations kept, ms", told[full], at_most(told[full], 5)),
            ("cold build and first pass, s", cold, at_most(cold, 2.5)),
            ("memory with the jobs, MB", found.memory_mb, at_most(found.memory_mb, 250)),
        ]
    if full in cases and small in cases:
        growth, growth_told = median[full] / median[small], told[full] / told[small]
        rows.append(("release, 100k over 10k waiting", growth, at_most(growth, 3)))
        rows.append(("  with all shapes explained", growth_told, at_most(growth_told, 3)))
    for key, found in cases.items():
        if found.arrival_s:
            arrival = statistics.median(found.arrival_s) * 1000
            rows.append((f"arrival, {key[0]} x {key[1]}, median ms", arrival, at_most(arrival, 0.1)))
    rows += plan_rows(cases)
    if little in cases and cases[little].naive_s is not None:
        naive, cold = cases[little].naive_s or 0.0, cases[little].first_s
        times = naive * 1000 / median[little]
        rows.append(("naive over release, 10k x 1k", times, at_least(times, 100)))
        rows.append(("naive over first pass, 10k x 1k", naive / cold, ""))
    print()
    differs = [] if releases == RELEASES else [f"{releases} jobs end (--releases)"]
    for name, value, verdict in rows:
        print(f"{name:<36}{value:>10.3f}  {'' if differs else verdict}".rstrip())
    if differs:
        print(no_verdicts(f"{RELEASES} jobs that end", differs))
    if not_measured := [case for case in (full, small, little) if case not in cases]:
        sizes = ", ".join(f"{waiting} x {gpus}" for waiting, gpus in not_measured)
        print(f"limits that are not judged here are for {sizes} (--waiting x --gpus)")


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for; ends the program where that can't be measured."""
    parser = Parser("core", __doc__)
    parser.add_argument("--waiting", type=wholes(1, 1_000_000), default=[SMALL, LARGE], help="jobs that wait")
    parser.add_argument("--gpus", type=wholes(LEAST_GPUS, 100_000), default=[FEW_GPUS, MANY_GPUS], help="of the pool")
    parser.add_argument("--releases", type=whole(1, 100_000), default=RELEASES, help="jobs that end, one by one")
    options = parser.parse_args(argv)
    least = 2 * options.releases
    if min(options.waiting) < least:
        parser.error(
            f"argument --waiting: twice {options.releases} releases end {least} jobs; ask for at least so many, or for "
            "fewer --releases"
        )
    return options


def main(argv: Sequence[str] | None = None) -> None:
    """Measures each case and prints the figures beside their limits."""
    options = arguments(argv)
    cases: dict[tuple[int, int], Found] = {}
    print(HEAD)
    for gpus in options.gpus:
        for waiting in options.waiting:
            case = Case(waiting, gpus, options.releases)
            with multiprocessing.get_context("spawn").Pool(1) as child:
                cases[waiting, gpus] = child.apply(measure, (case,))
            print(line(case, cases[waiting, gpus]), flush=True)
    judge(cases, releases=options.releases)


if __name__ == "__main__":
    main()
