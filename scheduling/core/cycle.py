"""One pass over what waits: in rank order every job is started, gets victims, is promised GPUs, or waits on.

A job that fits nowhere is never looked at: its whole shape is known not to fit, and of those that need several GPUs
only the first of each level are asked for, since they get the reservations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.bookings import NEVER, Booking, Bookings
from scheduling.core.ordering import Order, Source, first_of, rank_key
from scheduling.core.placement import find
from scheduling.core.plan import Expire, Nominate, Plan, Preempt, Reservation, Scores, Start, Unnominate
from scheduling.core.preemption import choose_victims, evictable, grace_ms
from scheduling.core.promises import Promise, Promises
from scheduling.core.reservations import Asked, earliest
from scheduling.core.room import NO_PINS
from scheduling.core.waiting import ENDLESS, LevelQueue, Nest, Queued, Shape

if TYPE_CHECKING:
    from scheduling.core.held import Nominee
    from scheduling.core.reclaim import TakenBack
    from scheduling.core.scheduler import Scheduler


class Cycle:
    """What one pass decides, and what it leaves behind for explanations and for arrivals after it."""

    def __init__(self, scheduler: Scheduler, now_ms: int, back: TakenBack, *, with_scores: bool) -> None:
        self.scheduler, self.now_ms, self.back = scheduler, now_ms, back
        self.number = scheduler.cycles
        self.starts: list[Start] = []
        self.preempts: list[Preempt] = []
        self.nominations: list[Nominate] = []
        self.unnominations: list[Unnominate] = []
        self._promises = Promises(scheduler.promises, scheduler.releases, now_ms)
        self.scores: dict[str, Scores] = {}
        self._with_scores = with_scores
        self.bookings = Bookings(scheduler.inventory.node_of, scheduler.windows, now_ms=now_ms)
        self.promised: dict[int, list[Queued]] = {}  # by level: the jobs that hold its reservations
        self.promised_to_aged: list[Queued] = []
        self.aged: list[Queued] = []  # those that wait too long and get a reservation whatever their rank (D29)
        self.taken: dict[int, int] = {}  # by cell: what was free and is so no more
        self.returning: dict[int, int] = {}  # by cell: what is being taken back
        self._fruitless: set[object] = set()

    def run(self) -> Plan:
        """The plan, applied to the scheduler."""
        scheduler, now = self.scheduler, self.now_ms
        scheduler.share.move(now)
        for reclaim in self.back.reclaims:
            if reclaim.job in scheduler.live:
                held = scheduler.live[reclaim.job]
                scheduler.share.cut(held.run)
                for cell, mask in held.cells.items():
                    self.returning[cell] = self.returning.get(cell, 0) | mask
        expired = tuple(Expire(job) for job in scheduler.too_late(now))
        self.unnominations += [Unnominate(job) for job in scheduler.orphaned]
        scheduler.orphaned.clear()
        scheduler.wake(now)
        scheduler.overdue(now)
        for nominee in sorted(scheduler.nominees.values(), key=lambda each: (-each.queued.level, each.queued)):
            self._continue(nominee)
        backfill = scheduler.policy.backfill
        self.aged = scheduler.waiting.older_than(now - round(backfill.aged_after_s * 1000), backfill.aged_reservations)
        for level in sorted(scheduler.waiting.levels, reverse=True):
            self._level(level)
        scheduler.promises = self._promises.made
        scheduler.releases.mark()
        return Plan(
            now_ms=now,
            lose_nodes=self.back.lose_nodes,
            reclaims=self.back.reclaims,
            starts=tuple(self.starts),
            preempts=tuple(self.preempts),
            nominations=tuple(self.nominations),
            unnominations=tuple(self.unnominations),
            expired=expired,
            reservations=tuple(promise.reservation for promise in self._promises.made),
            scores=self.scores,
            alarms=self.back.alarms,
        )

    # Nominations

    def _continue(self, nominee: Nominee) -> None:
        """A job that waits for victims starts when its GPUs are free, or elsewhere; past its deadline it waits anew."""
        scheduler, queued = self.scheduler, nominee.queued
        room = scheduler.room
        held = any(scheduler.holder[gpu] is not None for gpu in nominee.gpus)
        usable = all(mask & ~room.usable[cell] == 0 for cell, mask in nominee.cells.items())
        if not held and usable:
            scheduler.unnominate(nominee, keep=True)
            self._start(queued, nominee.gpus, nominated=True)
            return
        if nominee.deadline_ms <= self.now_ms:
            scheduler.unnominate(nominee)
            self.unnominations.append(Unnominate(queued.id))
            scheduler.enqueue(queued.job)
            return
        self.refresh(queued.shape)
        place = find(room, queued.shape.wanted, self.bookings.pins(queued.owner[1], queued.duration_ms))
        if place is not None:
            scheduler.unnominate(nominee)
            self.unnominations.append(Unnominate(queued.id))
            self._start(queued, place)

    # The queue

    def _level(self, value: int) -> None:
        slots = self.scheduler.policy.backfill.reservations_per_level
        self.promised[value] = []
        if slots <= 1 and self._only_promises(self.scheduler.waiting.levels[value], value, slots):
            return
        while True:
            level = self.scheduler.waiting.levels.get(value)
            if level is None:
                return
            sources = self._sources(level, value, slots)
            if not sources:
                return
            order = Order(sources, self.scheduler.share, self.number)
            slots, again = self._drain(order, level, slots)
            if not again:
                return

    def _only_promises(self, level: LevelQueue, value: int, slots: int) -> bool:
        """The short way through a level of which nothing fits now; False, with nothing decided, when that is not so.

        Nobody starts, so nobody is charged and the order stands: only the first job that needs several GPUs and those
        that wait too long are asked for.
        """
        if level.may_evict:
            return False
        longest = self.longest
        for shape, nest in level.shapes.items():
            if longest(shape) >= nest.shortest_ms:
                return False
        share = self.scheduler.share
        first = first_of(level.multi, share, self.number) if slots else None
        asked = [queued for queued in self.aged if queued.level == value]
        if first is not None and first not in asked:
            asked.append(first)
        if len(asked) > 1:
            asked.sort(key=lambda queued: rank_key(queued.job, share))
        for queued in asked:
            if queued is first:
                if not self._promise(queued):
                    return False
                self.promised[value].append(queued)
            elif self._promise(queued):
                self.promised_to_aged.append(queued)
        return True

    def _sources(self, level: LevelQueue, value: int, slots: int) -> list[Source]:
        """The lines whose jobs may be decided now: of shapes that fit, and those in which every job is asked."""
        if level.may_evict:
            return [Source(nest, None) for nest in level.shapes.values()]
        found: list[Source] = []
        multi = slots > 0 and level.multi.count > 0
        if multi:
            found.append(Source(level.multi, None))
        for shape, nest in level.shapes.items():
            if not (multi and shape.multi) and self.longest(shape) >= nest.shortest_ms:
                found.append(Source(nest, shape))
        aged = [queued for queued in self.aged if queued.level == value and queued.here]
        if aged:
            nest = Nest()
            for queued in aged:
                nest.add(queued)
            found.append(Source(nest, None))
        return found

    def _drain(self, order: Order, level: LevelQueue, slots: int) -> tuple[int, bool]:
        """Decides the jobs in their order; (reservations left for the level, whether the sources must be made anew)."""
        scheduler = self.scheduler
        while (queued := order.peek()) is not None:
            shape = queued.shape
            if self._places(queued):
                if self._opened(queued):
                    return slots, True
                order.charged(queued.owner)
                continue
            everyone = level.may_evict > 0 or queued in self.aged
            multi = shape.multi
            if not everyone and not (multi and slots > 0):
                self._measure(shape)
                continue
            queued.judged = self.number
            if level.may_evict and scheduler.may_evict(queued.job) and self._evict(queued):
                order.charged(queued.owner)
                continue
            if self._promises.of(queued) is not None:
                continue
            if multi and slots > 0:
                if self._promise(queued):
                    self.promised[queued.level].append(queued)
                    slots -= 1
                    if slots == 0 and not level.may_evict:
                        return slots, True
            elif queued in self.aged and self._promise(queued):
                self.promised_to_aged.append(queued)
        return slots, False

    def _places(self, queued: Queued) -> bool:
        """Whether the job was started."""
        scheduler, shape = self.scheduler, queued.shape
        if shape.cycle == self.number and shape.fits_up_to < 0 and not shape.is_grouped:
            return False
        self.refresh(shape)
        pins = self.bookings.pins(queued.owner[1], queued.duration_ms)
        place = find(scheduler.room, shape.wanted, pins)
        if place is None:
            if pins is NO_PINS:
                shape.cycle, shape.changes, shape.fits_up_to = self.number, scheduler.changes, -1
            return False
        self._start(queued, place)
        return True

    def _start(self, queued: Queued, gpus: list[int], *, nominated: bool = False) -> None:
        scheduler = self.scheduler
        if self._with_scores:
            self.scores[queued.id] = scheduler.share.scores(queued.owner, queued.level)
        held = scheduler.start(queued, gpus, self.now_ms, nominated=nominated)
        promise = self._promises.of(queued)
        if promise is not None:  # it was asked again since, and now it needs no reservation any more
            self._promises.drop(promise)
            self.bookings.remove(promise.booking)
        if not nominated:
            for cell, mask in held.cells.items():
                self.taken[cell] = self.taken.get(cell, 0) | mask
        inventory = scheduler.inventory
        self.starts.append(Start(queued.id, inventory.names(gpus), inventory.nodes_of(gpus)))

    def _opened(self, started: Queued) -> bool:
        """Whether jobs that wait to run beside the group of the one just started may fit now; they are asked again."""
        group = started.job.group
        if group is None:
            return False
        found = False
        for level in self.scheduler.waiting.levels.values():
            for shape, nest in level.shapes.items():
                if shape.request.near is not None and shape.request.near.group == group:
                    found = True
                    nest.ask_again()
            if found:
                level.multi.ask_again()
        return found

    # Shapes

    def refresh(self, shape: Shape) -> None:
        """What the shape's rules about groups and rungs allow is as of now."""
        groups = self.scheduler.groups
        if shape.is_grouped and shape.groups_version != groups.version:
            shape.groups_version = groups.version
            shape.wanted.confined = groups.confined(shape.request, shape.group)
            shape.wanted.view = None
        if shape.lax_from_ms:
            shape.wanted.strict = self.now_ms < shape.lax_from_ms

    def longest(self, shape: Shape) -> int:
        """The longest duration of the shape that may start now: ``ENDLESS`` for any, -1 for none."""
        if shape.cycle == self.number and shape.changes == self.scheduler.changes:
            return shape.fits_up_to
        if shape.cycle == self.number and shape.fits_up_to < 0 and not shape.is_grouped:
            return -1  # capacity only shrinks within a cycle
        return self._measure(shape)

    def _measure(self, shape: Shape) -> int:
        self.refresh(shape)
        shape.cycle, shape.changes = self.number, self.scheduler.changes
        shape.fits_up_to = self._longest(shape)
        return shape.fits_up_to

    def _longest(self, shape: Shape) -> int:
        room, wanted, bookings = self.scheduler.room, shape.wanted, self.bookings
        if find(room, wanted) is None:
            return -1
        count = len(bookings.blocking(shape.project))
        if count == 0 or find(room, wanted, bookings.first_pins(shape.project, count)) is not None:
            return ENDLESS
        for place in range(count - 1, -1, -1):
            if place == 0 or find(room, wanted, bookings.first_pins(shape.project, place)) is not None:
                longest = bookings.longest(shape.project, place)
                return longest if longest > 0 else -1
        raise AssertionError("without any promise it fits, as was just seen")

    # Promises

    def _promise(self, queued: Queued) -> bool:
        """Whether the job got a reservation at its earliest start."""
        promise = self._promises.standing(queued) or self._new_promise(queued)
        if promise is None:
            return False
        self._promises.add(promise)
        self.bookings.add(promise.booking)
        self.scheduler.changes += 1
        return True

    def _new_promise(self, queued: Queued) -> Promise | None:
        """The earliest start by the expected releases, past the promises made before."""
        scheduler, shape = self.scheduler, queued.shape
        self.refresh(shape)
        asked = Asked(shape.wanted, queued.owner[1], queued.duration_ms)
        asked.patience_ms = round(scheduler.policy.backfill.rack_patience_s * 1000)
        evicts = scheduler.may_evict(queued.job)
        if evicts:
            asked.sooner = self._sooner(queued)
        found = earliest(scheduler.room, scheduler.releases, self.bookings, asked)
        if found is None:
            return None
        start, gpus = max(found[0], self.now_ms), sorted(found[1])
        inventory = scheduler.inventory
        end = start + queued.duration_ms
        cells = inventory.cells_of_gpus(gpus)
        return Promise(
            queued,
            Booking(gpus, cells, start, end_ms=end),
            frozenset(inventory.node_of[cell] for cell in cells),
            Reservation(queued.id, start, end, inventory.names(gpus)),
            lasting=not (evicts or shape.is_grouped or shape.lax_from_ms or scheduler.windows),
        )

    def _sooner(self, queued: Queued) -> dict[int, int]:
        """The GPUs the job may take from others, with the instant by which their holders would have saved (4.3.6)."""
        return {
            gpu: self.now_ms + grace_ms(self.scheduler, held)
            for held in evictable(self.scheduler, queued)
            for gpu in held.gpus
            if self.scheduler.releases.at[gpu] < NEVER
        }

    def _evict(self, queued: Queued) -> bool:
        """Whether victims were found: they are asked to stop, and exactly the GPUs needed are kept for the job."""
        scheduler = self.scheduler
        pins = self.bookings.pins(queued.owner[1], queued.duration_ms)
        key = (id(queued.shape), queued.job.queue, queued.job.level, id(pins), scheduler.changes)
        if key in self._fruitless:
            return False
        choice = choose_victims(scheduler, self.bookings, queued, pins=pins, now_ms=self.now_ms)
        if choice is None:
            self._fruitless.add(key)
            return False
        policy = scheduler.policy
        grace = max(policy.grace_s(held.owner[0]) for held in choice.victims)
        deadline = self.now_ms + round((grace + policy.evict.nomination_slack_s) * 1000)
        for held in sorted(choice.victims, key=lambda each: each.id):
            wait = policy.grace_s(held.owner[0])
            held.preempting, held.running = True, False
            held.stop_by_ms = self.now_ms + round(wait * 1000)
            self.preempts.append(Preempt(held.attempt, held.id, held.epoch, queued.id, wait))
            scheduler.asked_to_stop(held)
        if self._with_scores:
            self.scores[queued.id] = scheduler.share.scores(queued.owner, queued.level)
        scheduler.nominate(queued, choice.gpus, deadline_ms=deadline)
        self.nominations.append(Nominate(queued.id, scheduler.inventory.names(choice.gpus), deadline))
        return True

    # Afterwards

    def bookings_above(self, level: int) -> Bookings:
        """The windows, and what was promised to jobs of this level and of those above it."""
        return self._bookings_of([made for made in self._promises.made if made.queued.level >= level])

    def bookings_before(self, queued: Queued) -> Bookings:
        """The windows, and what had been promised when this job got its own reservation."""
        made = self._promises.made
        place = next(place for place, promise in enumerate(made) if promise.queued is queued)
        return self._bookings_of(made[:place])

    def _bookings_of(self, promises: list[Promise]) -> Bookings:
        scheduler = self.scheduler
        found = Bookings(scheduler.inventory.node_of, scheduler.windows, now_ms=self.now_ms)
        for promise in promises:
            found.add(promise.booking)
        return found

    def promises_in(self, bookings: list[Booking]) -> list[Promise]:
        """Those promises of this cycle whose bookings are among these."""
        return [promise for promise in self._promises.made if promise.booking in bookings]

    def is_untouched_by(self, queued: Queued) -> bool:
        """Whether nothing that was decided can differ because of this job, which has come since."""
        scheduler, shape = self.scheduler, queued.shape
        if scheduler.may_evict(queued.job) or shape.is_grouped or shape.lax_from_ms:
            return False
        multi = shape.multi
        backfill = scheduler.policy.backfill
        if multi and backfill.reservations_per_level > 0:
            holders = self.promised.get(queued.level, [])
            if len(holders) < backfill.reservations_per_level:
                return False
            last = holders[backfill.reservations_per_level - 1]
            if rank_key(queued.job, scheduler.share) < rank_key(last.job, scheduler.share):
                return False
        place = find(scheduler.room, shape.wanted)
        if place is None:
            return True
        pins = self.bookings.pins(queued.owner[1], queued.duration_ms)
        return find(scheduler.room, shape.wanted, pins) is None
