"""What would happen? Jobs, faults and the scheduling core in virtual time: :func:`simulate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Protocol

from scheduling.core.aftermath import Ended, aftermath
from scheduling.core.feasibility import placeable
from scheduling.core.garbage import searched_seldom
from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.plan import Plan
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.scheduler import Scheduler
from scheduling.core.snapshot import Snapshot, WaitingJob
from scheduling.simulation.faults import Fault, check_known, with_faults, working_gpus
from scheduling.simulation.opening import LIVE, Opening, opening
from scheduling.simulation.outcome import Fate, Happening, Outcome
from scheduling.simulation.run import COMING, OVER, QUEUED, SAVING, Run
from scheduling.simulation.runtime import Runtime, SimJob, recorded
from scheduling.simulation.sharing import ShareMeter

# What is foreseen, in the order of one instant. Arrivals come after these, and decisions close the instant.
FINISH, SAVED, REPAIR, BREAK, WAKE = range(5)
ANYHOW = -1  # a wake-up that does not depend on one job


class Planner(Protocol):
    """What decides in a simulation: :class:`Scheduler`, or something it is compared with."""

    assume_saved: bool
    only_starts: bool

    def submit(self, job: WaitingJob) -> bool:
        """The job waits; False when that changes no decision now."""

    def ended(self, job_id: str, now_ms: int) -> None:
        """The job holds its GPUs no more."""

    def use(self, usable: frozenset[str]) -> None:
        """Exactly these GPUs take new work from now on."""

    def cycle(self, now_ms: int) -> Plan:
        """Who starts, and who is evicted, now."""


MakePlanner = Callable[[Snapshot], Planner]
Watch = Callable[[int], None]
"""Told now and then how far a simulation is, in ms of its time; what it raises ends the simulation."""
LOOKS_EVERY = 32  # instants


def simulate(
    jobs: Sequence[SimJob],
    pool: Pool,
    policy: Policy,
    *,
    restore_s: int = 60,
    save_s: int = 0,
    faults: Sequence[Fault] = (),
    until_ms: int | None = None,
    initial: Snapshot | None = None,
    runtime: Runtime = recorded,
    planner: MakePlanner = Scheduler,
    watch: Watch | None = None,
) -> Outcome:
    """What happens to the jobs; it depends on nothing but what is given, and not on the order of it.

    At each instant come the ends, then repairs and faults, then arrivals, then one decision, and another one if it
    evicted jobs that save at once. An evicted job saves for ``save_s`` (the grace of every queue) and waits again at
    its old place with what is left of its work and ``restore_s`` on top. A job that ``pool`` could never hold is
    rejected. ``runtime`` says how much work a job has.

    ``initial``: the world at the beginning, empty at 0 ms when not given; ``pool`` and ``policy`` take the place of
    its own. A job it has live must be among ``jobs``, which then say what is left of it; it waits again when ``pool``
    does not have its GPUs. ``until_ms``: the last instant that is looked at. ``watch``: see :data:`Watch`.
    ValueError for two jobs of one id, for a live job that is not described, and for a fault of unknown hardware.
    """
    check_known(faults, pool)
    queues = tuple(replace(queue, grace_s=float(save_s)) for queue in policy.queues)
    begin = replace(initial or Snapshot(0, policy, pool), policy=replace(policy, queues=queues), pool=pool)
    with searched_seldom():
        open_ = opening(begin, jobs, runtime, restore_s=restore_s)
        return _World(open_, faults, planner, restore_s=restore_s, save_s=save_s).play(until_ms, watch)


class _World:
    """The state of one simulation. ``heap``: (ms, what, index, token) of what is foreseen."""

    def __init__(
        self, start: Opening, faults: Sequence[Fault], make: MakePlanner, *, restore_s: int, save_s: int
    ) -> None:
        begin = self.begin = start.snapshot
        self.policy, self.runs, self.rejected = begin.policy, start.runs, start.rejected
        self.restore_s, self.save_ms = restore_s, save_s * 1000
        self.faults = sorted(faults, key=lambda fault: (fault.at_ms, fault.node or "", fault.gpu or ""))
        self.lasting: list[Fault] = []
        self.heap: list[tuple[int, int, int, int]] = []
        self.log: list[Happening] = []
        self.cycles = self.busy_gpu_ms = 0
        self.first_ms = min((run.arrives_ms for run in self.runs), default=begin.now_ms)
        self.last_ms = max((run.arrives_ms for run in self.runs), default=begin.now_ms)
        self.meter = ShareMeter(start.projects, self.policy.project_weights, working_gpus(begin.pool))
        self.meter.last_ms = self.now_ms = begin.now_ms
        self.queue = {run.id: run for run in self.runs if run.stage == QUEUED}
        self.live = {run.id: run for run in self.runs if run.stage in LIVE}
        # The next one to come is the last of the list.
        self.coming = [run for run in reversed(self.runs) if run.stage == COMING]
        self._foresee()
        self.planner = make(begin)
        self.planner.assume_saved = self.planner.only_starts = True

    def _foresee(self) -> None:
        edges = [edge for window in self.begin.windows for edge in (window.start_ms, window.end_ms)]
        if self.queue:
            edges.append(self.now_ms)
        for edge in edges:
            if edge >= self.now_ms:
                heappush(self.heap, (edge, WAKE, ANYHOW, 0))
        for run in self.queue.values():
            self.meter.wanted[run.entity] += run.wants
            for instant in run.waiting_instants(self.now_ms):
                heappush(self.heap, (instant, WAKE, run.index, run.token))
        for nomination in self.begin.nominations:
            heappush(self.heap, (max(nomination.deadline_ms, self.now_ms), WAKE, ANYHOW, 0))
        for run in self.live.values():
            self.meter.held[run.entity] += len(run.gpus)
            saving = run.stage == SAVING
            at = self.now_ms + (self.save_ms if saving else run.left_ms)
            heappush(self.heap, (at, SAVED if saving else FINISH, run.index, run.token))
        for place, fault in enumerate(self.faults):
            heappush(self.heap, (max(fault.at_ms, self.now_ms), BREAK, place, 0))
            if fault.repaired_ms is not None:
                heappush(self.heap, (max(fault.repaired_ms, self.now_ms + 1), REPAIR, place, 0))

    def play(self, until_ms: int | None, watch: Watch | None = None) -> Outcome:
        """Goes from instant to instant until nothing is foreseen, and tells what happened."""
        heap, coming, queue, meter = self.heap, self.coming, self.queue, self.meter
        instants = 0
        while heap or coming:
            now = heap[0][0] if heap else coming[-1].arrives_ms
            if coming and coming[-1].arrives_ms < now:
                now = coming[-1].arrives_ms
            if until_ms is not None and now > until_ms:
                break
            instants += 1
            if watch is not None and not instants % LOOKS_EVERY:
                watch(now)
            meter.advance(now, len(queue))
            self.now_ms = now
            changed = False
            while heap and heap[0][0] == now:
                _, what, index, token = heappop(heap)
                changed = self._happens(what, index, token) or changed
            while coming and coming[-1].arrives_ms == now:
                changed = self._wait(coming.pop()) or changed
            if changed and queue:
                self._decide()
        if until_ms is not None:
            meter.advance(until_ms, len(queue))
            self.now_ms = until_ms
        return self._outcome()

    def _happens(self, what: int, index: int, token: int) -> bool:
        if REPAIR <= what <= BREAK:
            self._break_or_repair(self.faults[index], what)
            return True
        if index == ANYHOW:
            return True
        run = self.runs[index]
        if run.token != token:
            return False
        if what == FINISH:
            self._release(run)
            run.stop(self.now_ms, run.left_ms)
            self._over(run, Fate.FINISHED, "finish")
        elif what == SAVED:
            self._saved(run)
        return True

    def _wait(self, run: Run) -> bool:
        run.stage = QUEUED
        self.queue[run.id] = run
        self.meter.wanted[run.entity] += run.wants
        for instant in run.waiting_instants(self.now_ms):
            heappush(self.heap, (instant, WAKE, run.index, run.token))
        return self.planner.submit(run.waiting)

    def _decide(self) -> None:
        now = self.now_ms
        again = True
        while again and self.queue:
            plan = self.planner.cycle(now)
            self.cycles += 1
            again = self._carry_out(plan)

    def _carry_out(self, plan: Plan) -> bool:
        """What was decided is so; whether anyone who was evicted has saved already."""
        now, queue, meter, log, heap = self.now_ms, self.queue, self.meter, self.log, self.heap
        for start in plan.starts:
            name, gpus = start.job, start.gpus
            run = self.live[name] = queue.pop(name)
            end_ms = run.start(now, gpus, start.nodes)
            index, token, entity = run.index, run.token, run.entity
            heappush(heap, (end_ms, FINISH, index, token))
            limit_end_ms = now + run.waiting.remaining_s * 1000
            if limit_end_ms < end_ms:  # from then on it is expected later
                heappush(heap, (limit_end_ms, WAKE, index, token))
            meter.wanted[entity] -= run.wants
            meter.held[entity] += len(gpus)
            log.append((now, "start", name, gpus))
        for nominated in plan.nominations:
            run = queue[nominated.job]
            heappush(heap, (nominated.deadline_ms, WAKE, run.index, run.token))
        for gone in plan.expired:
            run = queue.pop(gone.job)
            meter.wanted[run.entity] -= run.wants
            self._over(run, Fate.EXPIRED, "expire")
        for victim in plan.preempts:
            self._evict(self.live[victim.job])
        return bool(plan.preempts) and not self.save_ms

    def _evict(self, run: Run) -> None:
        """The job stops working and saves; what it has done counts."""
        run.preemptions += 1
        run.stage = SAVING
        run.kept_ms = run.worked_ms(self.now_ms)
        run.token += 1
        self.log.append((self.now_ms, "evict", run.id, run.gpus))
        if self.save_ms:
            heappush(self.heap, (self.now_ms + self.save_ms, SAVED, run.index, run.token))
        else:
            self._saved(run)

    def _saved(self, run: Run) -> None:
        self._release(run)
        run.stop(self.now_ms, run.kept_ms)
        self.log.append((self.now_ms, "saved", run.id, ()))
        run.requeue(self.now_ms, self.restore_s)
        self._wait(run)

    def _over(self, run: Run, fate: Fate, word: str) -> None:
        run.stage, run.fate, run.end_ms = OVER, fate, self.now_ms
        self.log.append((self.now_ms, word, run.id, ()))

    def _release(self, run: Run) -> None:
        """Its GPUs are free: before its attempt is stopped."""
        del self.live[run.id]
        self.meter.held[run.entity] -= len(run.gpus)
        self._count_busy(run)
        self.planner.ended(run.id, self.now_ms)

    def _count_busy(self, run: Run) -> None:
        now, since = self.now_ms, run.started_ms
        until = now if now < self.last_ms else self.last_ms
        busy_ms = until - (since if since > self.first_ms else self.first_ms)
        if busy_ms > 0:
            self.busy_gpu_ms += len(run.gpus) * busy_ms

    def _break_or_repair(self, fault: Fault, what: int) -> None:
        """The hardware takes work no more, and what runs on it is lost; or it takes work again."""
        word = "repair"
        if what == BREAK:
            word = "break"
            self.lasting.append(fault)
        else:
            self.lasting.remove(fault)
        self.log.append((self.now_ms, word, fault.node or fault.gpu or "", ()))
        pool: Pool = with_faults(self.begin.pool, self.lasting)
        self.meter.capacity = working_gpus(pool)
        self.planner.use(placeable(pool))
        if what == BREAK:
            for run in sorted(self.live.values(), key=lambda run: run.index):
                if fault.hits(run.nodes, run.gpus):
                    self._lose(run, fault)

    def _lose(self, run: Run, fault: Fault) -> None:
        """Its work since the last checkpoint is gone; it waits again as one whose node was lost does (D13, D22)."""
        worked, every = run.worked_ms(self.now_ms), run.checkpoint_ms
        self._release(run)
        run.stop(self.now_ms, worked - worked % every if every else 0)
        after = aftermath(Ended(JobState.RUNNING, "LOST", infra_failures=run.faults), self.policy)
        run.faults = after.infra_failures
        self.log.append((self.now_ms, "lost", run.id, run.gpus))
        if after.event is not JobEvent.REQUEUE:
            self._over(run, Fate.FAILED, "fail")
            return
        avoided = run.waiting
        run.requeue(
            self.now_ms,
            self.restore_s if run.saved_work else 0,
            eligible_at_ms=self.now_ms + round(after.backoff_s * 1000),
            avoid_nodes=avoided.avoid_nodes | {fault.node} if fault.node else avoided.avoid_nodes,
            avoid_gpus=avoided.avoid_gpus | {fault.gpu} if fault.gpu else avoided.avoid_gpus,
        )
        self._wait(run)

    def _outcome(self) -> Outcome:
        for run in self.live.values():
            self._count_busy(run)
        jobs = [run.outcome() for run in self.runs] + list(self.rejected)
        return Outcome(
            jobs=tuple(sorted(jobs, key=lambda job: (job.submitted_ms, job.id))),
            log=tuple(self.log),
            began_ms=self.begin.now_ms,
            ended_ms=self.now_ms,
            gpus=len(self.begin.pool.installed),
            busy_gpu_ms=self.busy_gpu_ms,
            window_ms=max(0, min(self.now_ms, self.last_ms) - self.first_ms),
            share_error=self.meter.mean(),
            cycles=self.cycles,
        )
