"""The reference policies: an event simulator of its own, to compare EMEP's plans with (it shares no code with them).

At each instant first the ends, then the arrivals, then one pass over the queue:

- ``fifo``: by submission; the first job that doesn't fit holds up the rest.
- ``sjf``: the same, the shortest first.
- ``priofs``: the highest class first; in it the project that has used the fewest GPU-seconds so far (nothing fades),
  then by submission; the first job that doesn't fit holds up the rest.
- ``-easy`` after one of them: the job that holds up the rest gets a shadow time, the earliest at which it fits by the
  run times of what runs; others start, best fit, if they end by then or leave it room enough at that instant.

With ``preempt`` a Critical job that doesn't fit evicts Normal and Low ones: the lowest class first, in it what started
last, until it fits; those that turn out not to be needed are spared. Victims have saved everything at once; they wait
again in their old place and run what was left and ``restore_s`` more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.reference_cluster import FreeCounts, Need, Take, shadow
from benchmarks.shares import ShareError
from benchmarks.traces import TraceJob

POLICIES = ("fifo", "fifo-easy", "sjf", "priofs", "priofs-easy")
CRITICAL = 0
MAY_BE_EVICTED = 2  # this rank and those behind it
NEVER = 1 << 62
Group = tuple[int, str]


@dataclass(slots=True, eq=False)
class Run:
    """One job of the trace while it is replayed; times in seconds."""

    job: TraceJob
    need: Need
    place: int
    left_s: int
    key: tuple[int, int] = (0, 0)
    take: Take = ()
    began_s: int = 0
    ends_s: int = 0
    first_s: int | None = None
    finish_s: int = 0
    running: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """What a policy came to; times in seconds. ``critical_wait`` is None when no job is Critical."""

    mean_wait: float
    p95_wait: float
    bsld: float
    share_error: float
    critical_wait: float | None
    preemptions: int


class Reference:
    """One replay. Jobs that the empty cluster can't hold are left out."""

    def __init__(
        self, jobs: Sequence[TraceJob], sizes: Sequence[int], *, policy: str, preempt: bool = False, restore_s: int = 60
    ) -> None:
        if policy not in POLICIES:
            raise ValueError(f"policy: {policy!r} is none of {', '.join(POLICIES)}")
        self._order, _, easy = policy.partition("-")
        self._easy, self._preempt, self._restore_s = bool(easy), preempt, restore_s
        self._cluster = FreeCounts(sizes, max(sizes))
        self._share = ShareError(sum(sizes))
        fitting = [job for job in jobs if self._cluster.fits((job.nodes, job.gpus_per_node, job.remainder))]
        self._runs = [
            Run(job, (job.nodes, job.gpus_per_node, job.remainder), place, job.duration_s)
            for place, job in enumerate(fitting)
        ]
        self._queue: dict[Group, list[tuple[tuple[int, int], Run]]] = {}
        self._waiting = self._waiting_critical = self._preemptions = 0
        self._running: list[tuple[int, int, Run]] = []  # by end
        self._used: dict[str, int] = {}  # GPU-seconds; what runs is in it as if it had begun at 0 ...
        self._held: dict[str, int] = {}  # ... and goes on at this rate

    def run(self) -> Figures:
        """Replays everything to its end."""
        runs, running, coming = self._runs, self._running, 0
        while coming < len(runs) or running:
            arrival = runs[coming].job.submit_s if coming < len(runs) else NEVER
            now = min(arrival, running[0][0] if running else NEVER)
            self._share.advance(now, self._waiting)
            while running and running[0][0] == now:
                run = running.pop(0)[2]
                run.finish_s = now
                self._release(run, now)
            while coming < len(runs) and runs[coming].job.submit_s == now:
                self._enqueue(runs[coming])
                coming += 1
            if self._waiting:
                self._pass(now)
        return self._figures()

    def _figures(self) -> Figures:
        waits = [(run.first_s or 0) - run.job.submit_s for run in self._runs]
        critical = [wait for wait, run in zip(waits, self._runs, strict=True) if run.job.rank == CRITICAL]
        slowdowns = [max(1.0, (run.finish_s - run.job.submit_s) / max(run.job.duration_s, 10)) for run in self._runs]
        return Figures(
            sum(waits) / len(waits),
            sorted(waits)[-(-len(waits) * 95 // 100) - 1],
            sum(slowdowns) / len(slowdowns),
            self._share.value(),
            sum(critical) / len(critical) if critical else None,
            self._preemptions,
        )

    # What happens to a job

    def _enqueue(self, run: Run) -> None:
        job = run.job
        group = (job.rank, job.project) if self._order == "priofs" else (0, "")
        run.key = (run.left_s if self._order == "sjf" else job.submit_s, run.place)
        insort(self._queue.setdefault(group, []), (run.key, run), key=lambda entry: entry[0])
        self._share.wants(job.project, job.gpus)
        self._waiting += 1
        self._waiting_critical += job.rank == CRITICAL

    def _start(self, run: Run, take: Take, now: int) -> None:
        job = run.job
        self._cluster.change(take, -1)
        run.take, run.began_s, run.ends_s, run.running = take, now, now + run.left_s, True
        run.first_s = now if run.first_s is None else run.first_s
        insort(self._running, (run.ends_s, run.place, run))
        self._share.wants(job.project, -job.gpus)
        self._charge(job, job.gpus, now)
        self._waiting -= 1
        self._waiting_critical -= job.rank == CRITICAL

    def _release(self, run: Run, now: int) -> None:
        run.running = False
        self._cluster.change(run.take, 1)
        self._charge(run.job, -run.job.gpus, now)

    def _charge(self, job: TraceJob, gpus: int, now: int) -> None:
        self._share.holds(job.project, gpus)
        self._held[job.project] = self._held.get(job.project, 0) + gpus
        self._used[job.project] = self._used.get(job.project, 0) - gpus * now

    def _evict(self, run: Run, now: int) -> None:
        del self._running[bisect_left(self._running, (run.ends_s, run.place))]
        self._release(run, now)
        run.left_s += self._restore_s - (now - run.began_s)
        self._preemptions += 1
        self._enqueue(run)

    # The pass

    def _pass(self, now: int) -> None:
        if not self._cluster.total and not (self._preempt and self._waiting_critical):
            return
        while self._waiting:
            group = self._groups(now)[0]
            run = self._queue[group][0][1]
            take = self._cluster.best_fit(run.need)
            if take is None and self._preempt and run.job.rank == CRITICAL:
                for victim in self._victims(run.need):
                    self._evict(victim, now)
                take = self._cluster.best_fit(run.need)
            if take is None:
                if self._easy and self._cluster.total:
                    self._backfill(run, now)
                return
            del self._queue[group][0]
            self._start(run, take, now)

    def _groups(self, now: int) -> list[Group]:
        """The groups in which anyone waits, in the order of the policy."""
        order = [
            (rank, self._used.get(project, 0) + self._held.get(project, 0) * now, jobs[0][0], (rank, project))
            for (rank, project), jobs in self._queue.items()
            if jobs
        ]
        return [entry[3] for entry in sorted(order)]

    def _victims(self, need: Need) -> list[Run]:
        """Whom to evict so that the job fits; nobody if that can't be had."""
        legal = [run for _, _, run in self._running if run.job.rank >= MAY_BE_EVICTED]
        legal.sort(key=lambda run: (run.job.rank, run.began_s, run.place), reverse=True)
        then, chosen = self._cluster.copy(), []
        for run in legal:
            if then.fits(need):
                break
            then.change(run.take, 1)
            chosen.append(run)
        if not then.fits(need):
            return []
        for run in reversed(chosen[:]):
            then.change(run.take, -1)
            if then.fits(need):
                chosen.remove(run)
            else:
                then.change(run.take, 1)
        return chosen

    def _backfill(self, head: Run, now: int) -> None:
        cluster = self._cluster
        shadow_s, then = shadow(cluster, [(end, run.take) for end, _, run in self._running], head.need)
        room_s = shadow_s - now
        too_big: set[Need] = set()  # of what is free
        too_long: set[Need] = set()  # where best fit puts it now it would be in the head's way
        for run in self._others(head, now):
            need, is_long = run.need, run.left_s > room_s
            if need in too_big or (is_long and need in too_long):
                continue
            take = cluster.best_fit(need)
            if take is None:
                too_big.add(need)
                continue
            if is_long:
                then.change(take, -1)
                if not then.fits(head.need):
                    then.change(take, 1)
                    too_long.add(need)
                    continue
            self._start(run, take, now)
            too_long.clear()

    def _others(self, head: Run, now: int) -> Iterator[Run]:
        """Everyone but the head, in the order of the policy; who runs when the next is asked for has left the queue."""
        for group in self._groups(now):
            jobs, at = self._queue[group], 0
            while at < len(jobs):
                run = jobs[at][1]
                if run is not head:
                    yield run
                if run.running:
                    del jobs[at]
                else:
                    at += 1
