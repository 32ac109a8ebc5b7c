"""One pass over what waits: in rank order every job is started, gets victims, is promised GPUs, or waits on.

A job that fits nowhere is never looked at: its whole shape is known not to fit, and of those that need several GPUs
only the first of each level are asked for, since they get the reservations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.backfill import longest_now
from scheduling.core.bookings import NEVER, Booking, Bookings
from scheduling.core.nominated import go_on
from scheduling.core.ordering import Source, rank_key
from scheduling.core.placement import find, fits, is_out_of_question, is_told_by_counts
from scheduling.core.plan import Expire, Nominate, Plan, Preempt, Scores, Start, Unnominate
from scheduling.core.preemption import Choice, Patience, choose_victims
from scheduling.core.promises import Promise, Promises
from scheduling.core.room import NO_PINS
from scheduling.core.turns import Turns
from scheduling.core.waiting import LevelQueue, Queued, Shape

if TYPE_CHECKING:
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
        self._promises = Promises(self.number, scheduler.releases, now_ms)
        self.scores: dict[str, Scores] = {}
        self._with_scores = with_scores
        self.bookings = Bookings(scheduler.inventory.node_of, scheduler.windows, now_ms=now_ms)
        self.promised: dict[int, list[Queued]] = {}  # by level: the jobs that hold its reservations
        self.promised_to_aged: list[Queued] = []
        self.aged: list[Queued] = []  # those that wait too long and get a reservation whatever their rank (D29)
        self.taken: dict[int, int] = {}  # by cell: what was free and is so no more
        self.returning: dict[int, int] = {}  # by cell: what is being taken back
        self._fruitless: dict[object, Patience | None] = {}
        self._rest: list[int] = []  # the levels yet to be looked at, the next one last
        self._all = not scheduler.only_starts  # whether reservations on which no start depends are made too

    def run(self) -> Plan:
        """The plan, applied to the scheduler."""
        scheduler, now, back = self.scheduler, self.now_ms, self.back
        scheduler.share.move(now)
        for reclaim in back.reclaims:
            if reclaim.whole and reclaim.job in scheduler.live:
                held = scheduler.live[reclaim.job]
                scheduler.share.cut(held.run)
                for cell, mask in held.cells.items():
                    self.returning[cell] = self.returning.get(cell, 0) | mask
        expired = tuple([Expire(job) for job in scheduler.too_late(now)]) if scheduler.start_by else ()
        if scheduler.orphaned:
            self.unnominations += [Unnominate(job) for job in scheduler.orphaned]
            scheduler.orphaned.clear()
        if scheduler.sleeping:
            scheduler.wake(now)
        if scheduler.ends and scheduler.ends[0][0] <= now:
            scheduler.overdue(now)
        if scheduler.nominees:
            for nominee in sorted(scheduler.nominees.values(), key=lambda each: (-each.queued.level, each.queued)):
                go_on(self, nominee)
        alone = scheduler.waiting.alone
        if alone is not None and self._places(alone):
            self._rest = [] if self._all else [alone.level]
        else:
            self.aged = scheduler.waiting.older_than(now - scheduler.aged_after_ms, scheduler.aged_slots)
            self._rest = sorted(scheduler.waiting.levels)
            self._go_on()
        return Plan(
            now,
            lose_nodes=back.lose_nodes,
            reclaims=back.reclaims,
            starts=tuple(self.starts),
            preempts=tuple(self.preempts),
            nominations=tuple(self.nominations),
            unnominations=tuple(self.unnominations),
            expired=expired,
            reservations=tuple([made.reservation for made in self._promises.made]) if self._promises.last else (),
            scores=self.scores,
            alarms=back.alarms,
        )

    # The queue

    def _go_on(self) -> None:
        """The rest of the levels is decided, as far as any start depends on it."""
        while self._rest and self._level(self._rest[-1]):
            self._rest.pop()

    def _level(self, value: int) -> bool:
        """Whether the level was decided; False when nothing in it or below it can start any more."""
        per_level = self.scheduler.policy.backfill.reservations_per_level
        promised = self.promised.setdefault(value, [])
        again: bool | None = True
        while again:
            level = self.scheduler.waiting.levels.get(value)
            if level is None:
                return True
            slots = per_level - len(promised)
            only = level.only
            if only is not None and only.judged != self.number:
                again = self._decide_only(only, level, slots)
                continue
            sources = self._sources(level)
            if not sources and self._is_idle_below(value):
                return False
            again = self._decide(self._turns(sources, level, value, slots=slots), level, slots)
        return again is not None

    def _decide_only(self, queued: Queued, level: LevelQueue, slots: int) -> bool | None:
        """As :meth:`_decide` for the only job of its level: with nobody to be ranked against, it is simply tried."""
        if self._places(queued):
            return self._opened(queued) or (None if self._is_idle_below(queued.level) else False)
        if not level.may_evict and self._is_idle_below(queued.level):
            return None
        if level.may_evict or (slots > 0 and queued.shape.multi) or queued in self.aged:
            self._holds_back(queued, reserves=slots > 0 and queued.shape.multi)
        return False

    def _sources(self, level: LevelQueue) -> list[Source]:
        """The lines of the shapes of which something fits; all of them where jobs may evict."""
        if level.may_evict:
            return [(nest, None) for nest in level.shapes.values()]
        if not self.scheduler.room.free_count:
            return []
        longest = self.longest
        return [(nest, shape) for shape, nest in level.shapes.items() if longest(shape) >= nest.shortest_ms]

    def _is_idle_below(self, value: int) -> bool:
        """Whether the reservations of this level may be left out, as nothing below it can start any more."""
        if self._all:
            return False
        levels = self.scheduler.waiting.levels
        for lower in self._rest:
            if lower >= value or (level := levels.get(lower)) is None:
                continue
            if level.may_evict:
                return False
            if not self.scheduler.room.free_count:
                continue
            for shape, nest in level.shapes.items():
                if self.longest(shape) >= nest.shortest_ms:
                    return False
        return True

    def _turns(self, sources: list[Source], level: LevelQueue, value: int, *, slots: int) -> Turns:
        """The jobs that are looked at: those that fit, and those that may get a reservation."""
        share, number = self.scheduler.share, self.number
        if level.may_evict:
            return Turns(sources, share, number, multi=None, aged=[])
        multi = level.multi if slots > 0 and level.multi.count else None
        aged = [queued for queued in self.aged if queued.level == value and queued.here] if self.aged else []
        return Turns(sources, share, number, multi=multi, aged=aged)

    def _decide(self, turns: Turns, level: LevelQueue, slots: int) -> bool | None:
        """Decides the jobs in their turn; whether turns must be found anew, None when nothing can start any more."""
        while (queued := turns.next()) is not None:
            shape = queued.shape
            if self._places(queued):
                if self._opened(queued):
                    return True
                if not self.scheduler.room.free_count and not level.may_evict:
                    turns.nothing_fits()
                turns.charged(queued.owner)
                if not self._all and not turns.any_fits(self.longest) and self._is_idle_below(queued.level):
                    return None
                continue
            everyone = level.may_evict > 0 or queued in self.aged
            reserves = slots > 0 and shape.multi
            if not everyone and not reserves:
                self._measure(shape)
                if not self._all and not turns.any_fits(self.longest) and self._is_idle_below(queued.level):
                    return None
                continue
            made = len(self.promised[queued.level])
            if self._holds_back(queued, reserves=reserves):
                turns.charged(queued.owner)
            elif len(self.promised[queued.level]) > made:
                slots -= 1
                if slots == 0:
                    turns.no_more_multi()
        return False

    def _holds_back(self, queued: Queued, *, reserves: bool) -> bool:
        """The job does not start: victims are found for it, then True, or it gets a reservation, or neither."""
        queued.judged = self.number
        if queued.may_evict and self._evict(queued):
            return True
        if self._promises.of(queued) is None:
            if reserves:
                if self._promise(queued):
                    self.promised[queued.level].append(queued)
            elif queued in self.aged and self._promise(queued):
                self.promised_to_aged.append(queued)
        return False

    def _places(self, queued: Queued) -> bool:
        """Whether the job was started."""
        scheduler, shape = self.scheduler, queued.shape
        too_long = shape.cycle == self.number and queued.duration_ms > shape.fits_up_to
        # Capacity only shrinks within a cycle, unless a reservation is taken back or a partner starts.
        if too_long and not shape.is_grouped and (shape.fits_up_to < 0 or not self._promises.dropped):
            return False
        if shape.shut == scheduler.room.opened:
            shape.fits_up_to = -1
            return False
        pins = self.bookings.pins(queued.owner[1], queued.duration_ms)
        if shape.changes_itself:
            self.refresh(shape)
        place = find(scheduler.room, shape.wanted, pins, span=(self.now_ms, self.now_ms + queued.duration_ms))
        if place is None:
            if pins is NO_PINS:
                shape.cycle, shape.changes, shape.fits_up_to = self.number, scheduler.changes, -1
            return False
        self.start(queued, place)
        return True

    def span(self, queued: Queued) -> tuple[int, int]:
        """From when until when the job would run if it started now, in ms."""
        return self.now_ms, self.now_ms + queued.duration_ms

    def start(self, queued: Queued, gpus: list[int], *, nominated: bool = False) -> None:
        """The job starts on these GPUs; ``nominated`` ones were kept for it."""
        scheduler = self.scheduler
        if self._with_scores:
            self.scores[queued.id] = scheduler.share.scores(queued.owner, queued.level)
        promise = None if queued.promise is None else self._promises.of(queued)
        held = scheduler.start(queued, gpus, self.now_ms, nominated=nominated)
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
        if not shape.changes_itself:
            return
        groups = self.scheduler.groups
        if shape.is_grouped and shape.groups_version != groups.version:
            shape.groups_version = groups.version
            shape.wanted.confined = groups.confined(shape.request, shape.group)
            shape.wanted.view = None
        if shape.lax_from_ms:
            shape.wanted.strict = self.now_ms < shape.lax_from_ms

    def longest(self, shape: Shape) -> int:
        """The longest duration of the shape that may start now: ``ENDLESS`` for any, -1 for none."""
        if shape.cycle == self.number:
            if shape.changes == self.scheduler.changes:
                return shape.fits_up_to
            if shape.fits_up_to < 0 and not shape.is_grouped:
                return -1  # capacity only shrinks within a cycle
        elif shape.shut == self.scheduler.room.opened:
            return -1  # and it does so until GPUs become free
        return self._measure(shape)

    def _measure(self, shape: Shape) -> int:
        if shape.changes_itself:
            self.refresh(shape)
        shape.cycle, shape.changes = self.number, self.scheduler.changes
        room, wanted = self.scheduler.room, shape.wanted
        if wanted.count > room.free_count or is_out_of_question(room, wanted):
            if not shape.changes_itself:
                shape.shut = room.opened
            found = -1
        elif self.bookings.are_none and is_told_by_counts(room, wanted):
            found = NEVER
        else:
            found = longest_now(room, self.bookings, wanted, shape.project) or -1
        shape.fits_up_to = found
        return found

    # Promises

    def _promise(self, queued: Queued) -> bool:
        """Whether the job got a reservation at its earliest start."""
        promise = self._promises.standing(queued)
        if promise is None:
            self.refresh(queued.shape)
            promise = self._promises.new(self.scheduler, self.bookings, queued)
            if promise is None:
                return False
        self.bookings.add(self._promises.add(promise).booking)
        self.scheduler.changes += 1
        return True

    def _evict(self, queued: Queued) -> bool:
        """Whether victims were found: they are asked to stop, and exactly the GPUs needed are kept for the job."""
        scheduler = self.scheduler
        pins = self.bookings.pins(queued.owner[1], queued.duration_ms)
        key = (id(queued.shape), queued.job.queue, queued.job.level, id(pins), scheduler.changes)
        if key not in self._fruitless:
            choice = choose_victims(scheduler, self.bookings, queued, pins=pins, now_ms=self.now_ms)
            if isinstance(choice, Choice):
                self.ask_to_leave(queued, choice)
                return True
            self._fruitless[key] = choice
        queued.patience = self._fruitless[key]
        return False

    def ask_to_leave(self, queued: Queued, choice: Choice, *, again: bool = False) -> None:
        """The victims are asked to stop, and exactly the GPUs needed are kept for the job."""
        scheduler = self.scheduler
        policy = scheduler.policy
        grace = max(policy.grace_s(held.owner[0]) for held in choice.victims)
        deadline = self.now_ms + round((grace + policy.evict.nomination_slack_s) * 1000)
        for held in sorted(choice.victims, key=lambda each: each.id):
            wait = policy.grace_s(held.owner[0])
            held.preempting, held.running = True, False
            held.stop_by_ms, held.asked_ms = self.now_ms + round(wait * 1000), self.now_ms
            self.preempts.append(Preempt(held.attempt, held.id, held.epoch, queued.id, wait))
            scheduler.asked_to_stop(held)
        if self._with_scores:
            self.scores[queued.id] = scheduler.share.scores(queued.owner, queued.level)
        scheduler.nominate(queued, choice.gpus, deadline_ms=deadline, again=again)
        self.nominations.append(Nominate(queued.id, scheduler.inventory.names(choice.gpus), deadline, again))

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
        # One that has taken the place of an older job may be owed a reservation for its age, or soon be.
        if queued.may_evict or shape.changes_itself or queued.submitted_ms < self.now_ms:
            return False
        slots = scheduler.policy.backfill.reservations_per_level
        # Where nothing could start any more, reservations were left out, and who would hold them does not matter.
        left_out = bool(self._rest) and queued.level <= self._rest[-1]
        if shape.multi and slots > 0 and not left_out:
            holders = self.promised.get(queued.level, [])
            if len(holders) < slots:
                return False
            if rank_key(queued.job, scheduler.share) < rank_key(holders[slots - 1].job, scheduler.share):
                return False
        if shape.shut == scheduler.room.opened or not fits(scheduler.room, shape.wanted):
            return True
        made = self._promises.made
        if not scheduler.windows and (not made or not any(each.queued.level >= queued.level for each in made)):
            return False
        # What was promised to lower levels is found anew after its turn, so it does not stand in its way.
        pins = self.bookings_above(queued.level).pins(queued.owner[1], queued.duration_ms)
        return not fits(scheduler.room, shape.wanted, pins)
