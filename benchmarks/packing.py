"""How full does a pool get? Pods of a real cluster, placed one by one, never taken away, until 130 % is asked for.

    python -m benchmarks.packing --traces DIR

Pods are drawn with replacement from the file, in five shuffles, until they ask for 130 % of the pool's GPUs; one that
does not fit when its turn comes is passed over. Most pods take one GPU and fill every gap in the end, so the share
given out is told at 100 % as well, where gaps still show. EMEP gives whole GPUs, so a pod that asked for a share of a
GPU takes a whole one here; pods without a GPU are left out, and CPU and memory count for nobody. EMEP: one pass of the
scheduler over a queue of one project, in the order drawn, without reservations (they hold GPUs back on purpose). The
others choose a node that has enough free GPUs of an accepted type: the first, the one with the fewest free, any.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks.arguments import Parser, directory
from benchmarks.reference_cluster import FreeCounts
from benchmarks.verdicts import at_least
from scheduling.core.policy import DEFAULT_POLICY, Backfill
from scheduling.core.pool import Pool
from scheduling.core.resources import AffinityTerm, ResourceRequest
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, WaitingJob
from scheduling.simulation.cluster import pool_of_file
from scheduling.simulation.table import TableError, read_table
from scheduling.simulation.workload import COLUMNS, MAX_GPUS, REQUIRED

NODES = "openb_nodes.csv.gz"
VARIANTS = ("openb_default", "openb_gpuspec20")
DEMANDS, SHUFFLES, TOLERANCE = (1.0, 1.3), 5, 0.3
DAY_S = 86_400
Choose = Callable[[Sequence[int], random.Random], int]


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod asks for: GPUs of one node, and the types it accepts (none: any)."""

    gpus: int
    types: tuple[str, ...]


def read_pods(path: Path) -> list[Pod]:
    """The pods of the file that ask for a GPU, in its order; TableError when there is none, or it can't be read."""
    found = []
    for row in read_table(path, COLUMNS, required=REQUIRED):
        gpus = row.whole("gpus", least=0, most=MAX_GPUS) or 0
        if gpus:
            found.append(Pod(gpus, tuple(name for name in row.text("gpu_type").split("|") if name)))
    if not found:
        raise TableError(f"{path.name} has no pod that asks for a GPU; put at least one in the column gpus")
    return found


def drawn(pods: Sequence[Pod], gpus: int, seed: int) -> list[Pod]:
    """Pods by chance, with replacement, until they ask for so many GPUs."""
    chance, found, asked = random.Random(seed), [], 0
    while asked < gpus:
        found.append(chance.choice(pods))
        asked += found[-1].gpus
    return found


def first(masks: Sequence[int], chance: random.Random) -> int:
    """The first node of all that fit; ``masks`` are bit sets of nodes, by free GPUs from what is needed upwards."""
    fitting = 0
    for mask in masks:
        fitting |= mask
    return (fitting & -fitting).bit_length() - 1


def tightest(masks: Sequence[int], chance: random.Random) -> int:
    """The first of the nodes with the fewest free GPUs."""
    mask = next(mask for mask in masks if mask)
    return (mask & -mask).bit_length() - 1


def anyone(masks: Sequence[int], chance: random.Random) -> int:
    """Any node of those that fit, by chance."""
    fitting = 0
    for mask in masks:
        fitting |= mask
    nodes = [place for place, bit in enumerate(reversed(f"{fitting:b}")) if bit == "1"]
    return chance.choice(nodes)


RIVALS: dict[str, Choose] = {"first fit": first, "best fit": tightest, "random": anyone}


def packed(pods: Sequence[Pod], nodes: Sequence[tuple[int, str]], choose: Choose, seed: int) -> int:
    """GPUs given out when each pod in turn goes where ``choose`` says. ``nodes``: (GPUs, type)."""
    counts, chance, given = (
        FreeCounts([size for size, _ in nodes], max(size for size, _ in nodes)),
        random.Random(seed),
        0,
    )
    everywhere = (1 << len(nodes)) - 1
    of_type: dict[str, int] = {}
    for place, (_, name) in enumerate(nodes):
        of_type[name] = of_type.get(name, 0) | 1 << place
    for pod in pods:
        allowed = sum(of_type.get(name, 0) for name in pod.types) if pod.types else everywhere
        masks = [mask & allowed for mask in counts.masks[pod.gpus :]]
        if any(masks):
            counts.add(choose(masks, chance), -pod.gpus)
            given += pod.gpus
    return given


def packed_by_emep(pods: Sequence[Pod], pool: Pool) -> int:
    """GPUs given out by one pass of the scheduler over the pods in their order."""
    policy = replace(DEFAULT_POLICY, backfill=Backfill(reservations_per_level=0, aged_reservations=0))
    level = policy.queues[0].level("Normal")
    assert level is not None
    jobs = tuple(
        WaitingJob(
            id=f"pod-{place:06d}",
            queue=policy.queues[0].name,
            level=level.name,
            level_value=level.value,
            project="one",
            user="one",
            submitted_ms=place,
            request=ResourceRequest(
                pod.gpus, affinity=(AffinityTerm("gpu_model", "In", pod.types),) if pod.types else ()
            ),
            remaining_s=DAY_S,
        )
        for place, pod in enumerate(pods)
    )
    now = len(pods)
    plan = Scheduler(Snapshot(now, policy, pool, jobs)).cycle(now)
    return sum(len(start.gpus) for start in plan.starts)


def show(traces: Path) -> None:
    """Prints the share of the pool's GPUs that each way gives out, in points, for each variant, demand and shuffle.

    TableError when a file of the traces can't be used.
    """
    pool = pool_of_file(traces / NODES)
    nodes = [(len(gpus), gpus[0].model) for gpus in (pool.by_node[node.name] for node in pool.nodes)]
    total = sum(size for size, _ in nodes)
    names = ["EMEP", *RIVALS]
    print(f"\npacking {NODES}: {total} whole GPUs, points of the pool given out")
    print(f"{'variant':<18}{'demand':>8}{'shuffle':>8}" + "".join(f"{name:>11}" for name in names))
    for variant in VARIANTS:
        pods = read_pods(traces / f"{variant}_jobs.csv.gz")
        for demand in DEMANDS:
            head = f"{variant:<18}{demand:>8.0%}"
            found: dict[str, list[float]] = {name: [] for name in names}
            for seed in range(SHUFFLES):
                queue = drawn(pods, round(total * demand), seed)
                found["EMEP"].append(100 * packed_by_emep(queue, pool) / total)
                for name, choose in RIVALS.items():
                    found[name].append(100 * packed(queue, nodes, choose, seed) / total)
                print(f"{head}{seed:>8}" + "".join(f"{found[name][-1]:>11.2f}" for name in names), flush=True)
            means = {name: fmean(values) for name, values in found.items()}
            limit = round(means["first fit"] - TOLERANCE, 2)
            verdict = at_least(means["EMEP"], limit)
            print(f"{head}{'mean':>8}" + "".join(f"{means[name]:>11.2f}" for name in names) + f"  {verdict}")


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the figures of both variants."""
    parser = Parser("packing", __doc__)
    parser.add_argument("--traces", type=directory, required=True, help="the directory of the trace files")
    options = parser.parse_args(argv)
    with parser.naming("--traces"):
        show(options.traces)


if __name__ == "__main__":
    main()
