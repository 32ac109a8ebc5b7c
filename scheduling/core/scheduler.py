"""The scheduler's memory: the pool, the queue and the ledgers by index, built from a snapshot and fed by events.

``decide(snapshot)``, which builds one and runs one cycle, is the definition of right. A kept one only saves the
building: at any point it decides what one built anew would decide.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from scheduling.core.bookings import NEVER
from scheduling.core.claims import Claims
from scheduling.core.cycle import Cycle
from scheduling.core.fairshare import FairShare, Run, billing_micro
from scheduling.core.feasibility import placeable
from scheduling.core.filling import booked, fill
from scheduling.core.forecast import Releases
from scheduling.core.groups import Groups
from scheduling.core.held import Held, Nominee
from scheduling.core.plan import Plan
from scheduling.core.reclaim import TakenBack
from scheduling.core.room import Room
from scheduling.core.shapes import Shapes
from scheduling.core.shortfalls import Shortfalls
from scheduling.core.snapshot import LiveAttempt, Snapshot, WaitingJob
from scheduling.core.waiting import Queued, Waiting

NOTHING_TAKEN_BACK = TakenBack((), (), frozenset(), ())


class Scheduler:
    """Everything one decision needs, kept between decisions. Jobs are told by id; one live attempt per job.

    ``assume_saved``: jobs that start from now on lose nothing when they are stopped. ``only_starts``: a plan lacks
    those reservations on which nothing in it depends; they are found when something does.
    """

    def __init__(self, snapshot: Snapshot, *, unreachable: frozenset[str] = frozenset()) -> None:
        """``unreachable``: nodes that get no new work though they are READY."""
        pool, policy = snapshot.pool, snapshot.policy
        self.pool, self.policy, self.inventory = pool, policy, pool.inventory
        self.can_preempt = snapshot.can_preempt
        self.aged_after_ms = round(policy.backfill.aged_after_s * 1000)
        self.aged_slots = policy.backfill.aged_reservations
        self.assume_saved = self.only_starts = False
        usable = placeable(pool, unreachable=unreachable)
        self.room = Room(pool, usable=usable, prefer=policy.prefer)
        self.claims = self.room.claims = Claims(self.room)
        self.releases = Releases(self.room)
        self.shortfalls = Shortfalls(self.room)
        self.share = FairShare(policy, len(pool.installed), snapshot.usage, now_ms=snapshot.now_ms)
        self.groups = Groups(self.inventory)
        self.waiting = Waiting()
        self.live: dict[str, Held] = {}
        self.holder: list[Held | None] = [None] * len(self.inventory.gpus)
        self.nominees: dict[str, Nominee] = {}
        self.nominated: dict[int, int] = {}  # by cell
        self.orphaned: list[str] = []  # nominations of jobs that wait no more
        self.cycles = self.changes = 0  # how often something became free, started, or was promised
        self.last: Cycle | None = None
        self.quiet: Cycle | None = None  # the last cycle, while nothing has happened since
        self.sleeping: dict[str, WaitingJob] = {}
        self._alarm_clock: list[tuple[int, str]] = []
        self.start_by: list[tuple[int, str]] = []
        self.ends: list[tuple[int, str]] = []
        self._preemptors = {(rule.queue, rule.level) for rule in policy.preemption}
        above = policy.values_above_lowest
        # By level: one count for each level above the lowest, as an eviction costs them; of any other level none.
        self.level_counts = {value: tuple([int(value == each) for each in above]) for value in (0, *above)}
        self._billing = [billing_micro(policy, [gpu]) for gpu in self.inventory.gpus]
        self._weighs = self._billing[0] if len(set(self._billing)) == 1 else None  # what each does, if alike
        self._usable_room: Room | None = None
        self.windows = [booked(window, self.inventory) for window in snapshot.windows]
        by_project = any(window.project is not None for window in self.windows)
        self._shapes = Shapes(pool, policy, by_project=by_project)
        for cell, mask in enumerate(self.room.usable):
            self.expect(self.inventory.gpus_in(cell, mask), 0)
        fill(self, snapshot)

    # What happens

    def submit(self, job: WaitingJob) -> bool:
        """The job waits, for the first time or again; False when no decision can differ because of it.

        Then a cycle may be left out: it fits nowhere as things are, and the reservations of its level are taken by
        jobs ahead of it.
        """
        self.share.forget_planned()
        moved = self.share.join(job.owner)
        if job.start_by_ms is not None:
            heapq.heappush(self.start_by, (job.start_by_ms, job.id))
        if job.due_ms > self.share.clock.now_ms:
            self.sleeping[job.id] = job
            heapq.heappush(self._alarm_clock, (job.due_ms, job.id))
            return True
        queued = self.described(job)
        untouched = not moved and self.quiet is not None and self.quiet.is_untouched_by(queued)
        self._line_up(queued)
        if not untouched:
            self.quiet = None
        return not untouched

    def enqueue(self, job: WaitingJob) -> Queued:
        """The job, which may start now, is in the queue."""
        queued = self.described(job)
        self._line_up(queued)
        return queued

    def _line_up(self, queued: Queued) -> None:
        self.waiting.add(queued)
        self.claims.change(queued.shape.wanted, 1)

    def described(self, job: WaitingJob) -> Queued:
        """The job as the queue would hold it; it does not wait."""
        if self._shapes.are_many(len(self.waiting.by_id)):
            used = [each.shape for each in self.waiting.by_id.values()]
            self._shapes.keep([*used, *(nominee.queued.shape for nominee in self.nominees.values())])
        shape = self._shapes.of(job, lambda: self.usable_room)
        return Queued(job, shape, may_evict=self.may_evict(job))

    def billing_of(self, gpus: list[int]) -> int:
        """Millionths of the billing weight of these GPUs together."""
        if self._weighs is not None:
            return self._weighs * len(gpus)
        return sum([self._billing[gpu] for gpu in gpus])

    def may_evict(self, job: WaitingJob) -> bool:
        """Whether the job has the right to evict others at all."""
        return self.can_preempt and job.may_evict and (job.queue, job.level) in self._preemptors

    def withdraw(self, job_id: str) -> None:
        """The job waits no more: it was cancelled or held. Unknown ids change nothing."""
        self.quiet = None
        nominee = self.nominees.get(job_id)
        job = self.sleeping.pop(job_id, None)
        if nominee is not None:
            self.unnominate(nominee)
            self.orphaned.append(job_id)
            job = nominee.queued.job
        queued = self.waiting.by_id.get(job_id)
        if queued is not None:
            self.leave_queue(queued)
            job = queued.job
        if job is not None:
            self.share.leave(job.owner)

    def ended(self, job_id: str, now_ms: int, lost: Iterable[tuple[int, int]] = ()) -> None:
        """The live job has released its GPUs, and what it consumed is settled. Unknown ids change nothing.

        ``lost``: the stretches of its time, in ms, that are given back to it (D6).
        """
        held = self.live.pop(job_id, None)
        if held is None:
            return
        self.quiet = None
        self.changes += 1
        if self.share.clock.now_ms != now_ms:
            self.share.move(now_ms)
        self.share.stop(held.run, lost)
        self.share.leave(held.owner)
        self.groups.stop(job_id)
        for gpu in held.gpus:
            self.holder[gpu] = None
        self._vacate(held.gpus, held.cells)

    def learn(self, attempt: LiveAttempt) -> None:
        """The live job is as its attempt is now: started, saved, asked to stop. An unknown job changes nothing."""
        held = self.live.get(attempt.job)
        if held is None:
            return
        self.quiet = None
        end_ms, stop_by_ms = held.end_ms, held.stop_by_ms
        held.attempt, held.epoch = attempt.attempt, attempt.epoch
        held.as_in(attempt)
        if attempt.end_ms != end_ms:
            held.end_ms = attempt.end_ms
            self.share.retime(held.run, attempt.end_ms)
            heapq.heappush(self.ends, (attempt.end_ms, held.id))
        if held.stop_by_ms != stop_by_ms and held.stop_by_ms is not None:
            heapq.heappush(self.ends, (held.stop_by_ms, held.id))
        self.foresee(held)

    def use(self, usable: frozenset[str]) -> None:
        """Exactly these GPUs take new work from now on."""
        inventory, room = self.inventory, self.room
        masks = room.masks_of(usable)
        changed = [(cell, was, now) for cell, was in enumerate(room.usable) if (now := masks.get(cell, 0)) != was]
        if not changed:
            return
        self._usable_room = self.quiet = None
        self.changes += 1
        for cell, before, after in changed:
            room.usable[cell] = after
            gone, come = before & ~after & room.free[cell], after & ~before
            if gone:
                room.take({cell: gone})
            self.expect(inventory.gpus_in(cell, before & ~after), NEVER)
            held = sum(1 << gpu - inventory.first[cell] for gpu in inventory.gpus_in(cell, come) if self.holder[gpu])
            open_again = come & ~held & ~self.nominated.get(cell, 0)
            if open_again:
                room.give({cell: open_again})
                self.expect(inventory.gpus_in(cell, open_again), 0)
            holders = {each.id: each for gpu in inventory.gpus_in(cell, held) if (each := self.holder[gpu]) is not None}
            for each in holders.values():
                self.foresee(each)
        self._shapes.forget_careful()
        for queued in [each for each in self.waiting.by_id.values() if each.job.is_careful]:
            self.leave_queue(queued)
            self.enqueue(queued.job)
        for nominee in self.nominees.values():
            nominee.queued.shape = self.described(nominee.queued.job).shape

    def cycle(self, now_ms: int, back: TakenBack = NOTHING_TAKEN_BACK, *, with_scores: bool = False) -> Plan:
        """What is to be done now. Its starts, nominations and withdrawals are applied to this object at once.

        ``back``: what is taken back in this pass; the caller tells of it with :meth:`ended` when it is done.
        """
        self.cycles += 1
        cycle = Cycle(self, now_ms, back, with_scores=with_scores)
        plan = cycle.run()
        self.last = self.quiet = cycle
        return plan

    def everyone_waiting(self) -> list[WaitingJob]:
        """Every job that waits: in the queue, for its time, or for its victims."""
        queued = [each.job for each in self.waiting.by_id.values()]
        return [*queued, *self.sleeping.values(), *(each.queued.job for each in self.nominees.values())]

    def waiting_job(self, job_id: str) -> WaitingJob | None:
        """The job, if it waits: in the queue, for its time, or for its victims."""
        queued = self.waiting.by_id.get(job_id)
        if queued is not None:
            return queued.job
        nominee = self.nominees.get(job_id)
        return self.sleeping.get(job_id) if nominee is None else nominee.queued.job

    # What the cycle does to this object

    def wake(self, now_ms: int) -> None:
        """Jobs whose time has come are in the queue."""
        alarm_clock = self._alarm_clock
        while alarm_clock and alarm_clock[0][0] <= now_ms:
            due, job_id = heapq.heappop(alarm_clock)
            job = self.sleeping.get(job_id)
            if job is not None and job.due_ms == due:
                del self.sleeping[job_id]
                self.enqueue(job)

    def too_late(self, now_ms: int) -> list[str]:
        """Waiting jobs whose ``start_by`` has passed, by id; they have left."""
        found = []
        while self.start_by and self.start_by[0][0] <= now_ms:
            limit, job_id = heapq.heappop(self.start_by)
            job = self.waiting_job(job_id)
            if job is not None and job.start_by_ms == limit:
                self.withdraw(job_id)
                found.append(job_id)
        return sorted(found)

    def overdue(self, now_ms: int) -> None:
        """What is expected of live jobs past their end is as of now."""
        ends = self.ends
        again: list[tuple[int, str]] = []
        while ends and ends[0][0] <= now_ms:
            end, job_id = heapq.heappop(ends)
            held = self.live.get(job_id)
            if held is not None and end in (held.end_ms, held.stop_by_ms):
                self.foresee(held)
                again.append((end, job_id))
        for entry in again:
            heapq.heappush(ends, entry)

    def occupy(self, held: Held, *, free: dict[int, int]) -> None:
        """The job holds its GPUs; those in ``free`` were free until now."""
        self.room.take({cell: mask for cell, mask in free.items() if mask})
        self._hold(held)
        self.foresee(held)

    def _hold(self, held: Held) -> None:
        self.live[held.id] = held
        for gpu in held.gpus:
            self.holder[gpu] = held
        heapq.heappush(self.ends, (held.end_ms, held.id))
        self.groups.start(held.id, held.gpus, held.group, apart=held.apart)
        self.changes += 1

    def start(self, queued: Queued, gpus: list[int], now_ms: int, *, nominated: bool = False) -> Held:
        """The waiting job runs on these GPUs from now on; ``nominated`` ones were kept for it."""
        job, cells = queued.job, self.inventory.cells_of_gpus(gpus)
        run = Run(queued.owner, self.billing_of(gpus), now_ms, end_ms=now_ms + queued.duration_ms)
        self.share.start(run, this_cycle=True)
        held = Held(job.id, queued.owner, gpus, cells=cells, run=run)
        held.as_started(job, cycle=self.cycles, always_saved=self.assume_saved)
        if queued.here:
            self.leave_queue(queued)
        if not nominated:
            self.room.take(cells)
        self._hold(held)
        self.releases.set(gpus, held.expected_end(now_ms), now_ms)
        return held

    def leave_queue(self, queued: Queued) -> None:
        """The job is no longer in the queue."""
        self.waiting.remove(queued)
        self.claims.change(queued.shape.wanted, -1)

    def nominate(self, queued: Queued, gpus: list[int], *, deadline_ms: int, again: bool = False) -> None:
        """The GPUs, free or still held by others, are kept for the job; it is charged for them from now on."""
        cells = self.inventory.cells_of_gpus(gpus)
        charged = self.billing_of(gpus) * queued.duration_ms
        self.nominees[queued.id] = Nominee(queued, gpus, cells, deadline_ms=deadline_ms, charged=charged, again=again)
        free = {cell: mask & self.room.free[cell] for cell, mask in cells.items()}
        self.room.take({cell: mask for cell, mask in free.items() if mask})
        for cell, mask in cells.items():
            self.nominated[cell] = self.nominated.get(cell, 0) | mask
        self.expect([gpu for gpu in gpus if self._is_usable(gpu)], deadline_ms + queued.duration_ms)
        self.share.plan(queued.owner, charged)
        self.leave_queue(queued)
        self.changes += 1

    def unnominate(self, nominee: Nominee, *, keep: bool = False) -> None:
        """The nomination has ended: its GPUs are free but for those still held; with ``keep`` they stay taken."""
        del self.nominees[nominee.queued.id]
        self.share.plan(nominee.queued.owner, -nominee.charged)
        for cell, mask in nominee.cells.items():
            self.nominated[cell] &= ~mask
        self.changes += 1
        if keep:
            return
        inventory = self.inventory
        holders = {held.id: held for gpu in nominee.gpus if (held := self.holder[gpu]) is not None}
        for held in holders.values():
            self.foresee(held)
        left = [gpu for gpu in nominee.gpus if self.holder[gpu] is None]
        self._vacate(left, inventory.cells_of_gpus(left))

    def _vacate(self, gpus: list[int], cells: dict[int, int]) -> None:
        """GPUs that nobody holds any more, also given by cell, are free, but for those kept for somebody."""
        inventory, room = self.inventory, self.room
        if not self.nominees and room.are_usable(cells):
            self.releases.set(gpus, 0, self.share.clock.now_ms)
            room.give(cells)
            return
        open_cells = {}
        for cell, mask in cells.items():
            left = mask & ~self.nominated.get(cell, 0)
            if left:
                open_cells[cell] = left
                usable = left & room.usable[cell]
                self.releases.set(inventory.gpus_in(cell, usable), 0, self.share.clock.now_ms)
                if usable != left:
                    self.expect(inventory.gpus_in(cell, left ^ usable), NEVER)
        room.give(open_cells)

    def asked_to_stop(self, held: Held) -> None:
        """The job was told to save and stop; it is expected to be gone by then."""
        if held.stop_by_ms is not None:
            heapq.heappush(self.ends, (held.stop_by_ms, held.id))
        self.foresee(held)

    def foresee(self, held: Held) -> None:
        """Its GPUs are expected when it ends, but for those that are kept for somebody and that take no work."""
        gpus = [gpu for gpu in held.gpus if self._is_usable(gpu) and not self._is_nominated(gpu)]
        self.expect(gpus, held.expected_end(self.share.clock.now_ms))

    def expect(self, gpus: list[int], instant: int) -> None:
        """These GPUs are free by ``instant``."""
        self.releases.set(gpus, instant, self.share.clock.now_ms)

    def _is_nominated(self, gpu: int) -> bool:
        cell = self.inventory.cell_of[gpu]
        return bool(self.nominated.get(cell, 0) >> gpu - self.inventory.first[cell] & 1)

    def _is_usable(self, gpu: int) -> bool:
        cell = self.inventory.cell_of[gpu]
        return bool(self.room.usable[cell] >> gpu - self.inventory.first[cell] & 1)

    @property
    def usable_room(self) -> Room:
        """All GPUs that take work, free: what the pool could hold as it is now."""
        if self._usable_room is None:
            inventory = self.inventory
            usable = frozenset(
                inventory.gpus[gpu].uuid
                for cell, mask in enumerate(self.room.usable)
                for gpu in inventory.gpus_in(cell, mask)
            )
            self._usable_room = Room(self.pool, usable=usable, prefer=self.policy.prefer)
        return self._usable_room
