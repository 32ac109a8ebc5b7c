"""Why does it wait? Reasons with numbers, and changes under which it would start now, each of them tried.

Everything but the rank is the same for jobs of one shape, level and blocking set of promises, so it is asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from scheduling.core.ahead import Queue
from scheduling.core.alternatives import Alternative, alternatives, hint
from scheduling.core.backfill import longest_now
from scheduling.core.between import Starts
from scheduling.core.closing import able, first_open, fits_beside, free_in, in_reach, opening, suiting
from scheduling.core.estimate import estimate, latest, soonest
from scheduling.core.expiry import expiry
from scheduling.core.first_start import asked_of, holds_out, is_bound, start_between
from scheduling.core.group_times import is_left_alone
from scheduling.core.helping import helps
from scheduling.core.in_hand import asleep, nominated, starting_soon
from scheduling.core.kept_free import kept_beside
from scheduling.core.never_now import never_now
from scheduling.core.obstacles import closed, closed_too, kept_away, kept_away_too
from scheduling.core.ordering import rank_key
from scheduling.core.partners import WaitsFor, left_alone, no_partner, waits_for
from scheduling.core.passed_over import evicts
from scheduling.core.placement import find, is_out_of_question
from scheduling.core.plan import Hold, Reason
from scheduling.core.played import Foresight
from scheduling.core.preemption import Patience, choose_victims
from scheduling.core.reservations import place_name
from scheduling.core.resources import ResourceRequest
from scheduling.core.room import Wanted
from scheduling.core.rules import all_spelled
from scheduling.core.scarcity import shortage
from scheduling.core.shortfalls import Expected, Numbers, expected_numbers
from scheduling.core.spared import Spared
from scheduling.core.standpoint import Standpoint
from scheduling.core.waiting import Queued
from scheduling.core.when_due import when_due
from scheduling.core.windows_ahead import window_ahead
from scheduling.core.words import agree, duration_in_words, jobs_in_words

if TYPE_CHECKING:
    from scheduling.core.bookings import Booking, Bookings
    from scheduling.core.held import Held
    from scheduling.core.scheduler import Scheduler


class Explainer:
    """The reasons of what waits after a cycle. Answers are kept: it is one state of the scheduler that it explains."""

    def __init__(self, scheduler: Scheduler, *, plays_stays: bool = False) -> None:
        """``plays_stays``: of a job that leaves by its ``start_by`` it is played when it would start if it stayed; that
        takes a play a job, so it is for who looks at one."""
        self.plays_stays = plays_stays
        if scheduler.last is None:
            raise ValueError("only what a cycle has looked at can be explained: call cycle() first")
        self._scheduler = scheduler
        self.cycle = scheduler.last
        self._usable = scheduler.usable_room
        self._shortfalls = scheduler.shortfalls.of(self._usable)
        self._promised = {queued for jobs in self.cycle.promised.values() for queued in jobs}
        self._promised.update(self.cycle.promised_to_aged)
        self._seen: dict[object, Standpoint] = {}
        self._starts: dict[tuple[Booking, ...], Starts] = {}
        self.queue = Queue(scheduler, promised=self._promised)
        self._first: dict[object, tuple[int, list[int]] | None] = {}
        self._waits_for: WaitsFor | None = None
        self._spared = Spared(scheduler)
        self.foresight = Foresight(scheduler, self.cycle)

    @cached_property
    def in_service(self) -> int:
        """How many GPUs take work."""
        return sum(mask.bit_count() for mask in self._scheduler.room.usable)

    @cached_property
    def releases(self) -> tuple[list[int], list[int]]:
        """(instants in ms, GPUs): by when each GPU is free, the soonest first."""
        at = self._scheduler.releases.at
        gpus = sorted(range(len(at)), key=at.__getitem__)
        return [at[gpu] for gpu in gpus], gpus

    def of(self, job_id: str) -> tuple[Reason, ...]:
        """Why the job waits. KeyError for one that doesn't."""
        scheduler = self._scheduler
        if job_id in scheduler.sleeping:
            return self.of_sleeping(scheduler.described(scheduler.sleeping[job_id]))
        if job_id in scheduler.nominees:
            return (nominated(scheduler.nominees[job_id], scheduler, self.cycle.now_ms),)
        return self.of_queued(scheduler.waiting.by_id[job_id])

    def evicting(self, queued: Queued, victims: Sequence[Held]) -> tuple[Reason, ...]:
        """Why it is these that the job would evict; nothing where it would evict none."""
        return evicts(self._scheduler, queued, victims, self.cycle.now_ms)

    def of_sleeping(self, queued: Queued, *, plays: bool = False) -> tuple[Reason, ...]:
        """Why a job waits whose time has not come: nothing of what stands in the way until then counts. With ``plays``
        a short queue is played to see what does after that."""
        self.cycle.refresh(queued.shape)
        return (*self._expiry(queued), asleep(queued.job), *when_due(self._scheduler, self, queued, plays=plays))

    def of_queued(self, queued: Queued) -> tuple[Reason, ...]:
        """Why a job of the queue waits."""
        seen, job = self._seen_by(queued), queued.job
        pins = seen.pins(queued)
        # Equal for jobs that wait for the same reasons: the longer one is, the more windows it has to pass.
        timed = (queued.owner[1], queued.duration_ms) if seen.windows else None
        rights = queued.may_evict and (job.queue, job.level)
        key = (queued.shape, job.request.gpu_memory_min_mib, pins, timed, rights, seen.outlasts(queued))
        told = seen.told.get(key)
        if told is None:
            told = seen.told[key] = self._reasons(queued, seen)
        reasons, evictions_count = told
        if queued.may_evict and evictions_count:
            reasons = (*reasons, self._spared.reason(queued, self._patience(queued)))
        return reasons if job.start_by_ms is None else (*self._expiry(queued), *reasons)

    def _patience(self, queued: Queued) -> Patience | None:
        """That victims would make room for the job, but no sooner: as its turn had it, or, without one, now."""
        if queued.judged == self.cycle.number:
            return queued.patience
        bookings = self.bookings(queued)
        pins = bookings.pins(queued.owner[1], queued.duration_ms)
        found = choose_victims(self._scheduler, bookings, queued, pins=pins, now_ms=self.cycle.now_ms)
        return found if isinstance(found, Patience) else None

    def _expiry(self, queued: Queued) -> tuple[Reason, ...]:
        """The reason to fear that the job will not start in time, if there is one."""
        if queued.job.start_by_ms is None:
            return ()
        found = expiry(queued.job, estimate(self._scheduler, self, queued))
        return () if found is None else (found,)

    def bookings(self, queued: Queued) -> Bookings:
        """What was promised to others before this job's turn came: to its level and those above."""
        return self._seen_by(queued).bookings

    def starts(self, queued: Queued) -> Starts:
        """The earliest starts between those."""
        return self._seen_by(queued).starts

    def _seen_by(self, queued: Queued) -> Standpoint:
        promised = queued in self._promised
        key = queued if promised else queued.level
        found = self._seen.get(key)
        if found is None:
            cycle, level = self.cycle, queued.level
            bookings = cycle.bookings_before(queued) if promised else cycle.bookings_above(level)
            starts = self._starts.setdefault(tuple(bookings.reservations), Starts(self._scheduler, bookings))
            found = self._seen[key] = Standpoint(self._scheduler, cycle, starts, level)
        return found

    def ahead_of(self, queued: Queued) -> tuple[int, int]:
        """(its rank from 1, GPU-ms ahead of it); it need not be in the queue.

        Those ahead count up to their ``max_duration``, but for those that hold a reservation: with these the earliest
        start has reckoned already.
        """
        count, work = self.queue.ahead_of(queued)
        return count + 1, work

    def is_promised(self, queued: Queued) -> bool:
        """Whether the job holds a reservation."""
        return queued in self._promised

    def alternatives(self, queued: Queued, *, over_nodes: bool = False) -> list[Alternative]:
        """Changes of the request with which it would start now. ``over_nodes``: its kind may lie on several nodes."""
        scheduler = self._scheduler
        exclusive = scheduler.policy.nvlink_mode == "exclusive"
        self.cycle.refresh(queued.shape)
        found = alternatives(
            scheduler.room, self.bookings(queued), queued, groups=scheduler.groups, all_exclusive=exclusive,
            over_nodes=over_nodes,
        )  # fmt: skip
        return list(found)

    def helps(self, queued: Queued, *, over_nodes: bool = False) -> list[Alternative]:
        """What would help the job, as :func:`scheduling.core.helping.helps` tells."""
        return helps(self._scheduler, self, queued, over_nodes=over_nodes)

    def starts_by(self, queued: Queued) -> tuple[int, list[int]] | None:
        """(instant, GPUs): when and where it could start at the latest if nothing else was ahead of it."""
        alone = queued.id if self.is_promised(queued) else ""
        due_ms = max(queued.job.due_ms, self.cycle.now_ms)
        rights = queued.may_evict and (queued.job.queue, queued.job.level)
        key = (queued.shape, queued.owner[1], queued.duration_ms, queued.level, alone, due_ms, rights)
        if key not in self._first:
            self.cycle.refresh(queued.shape)
            self._first[key] = start_between(self._scheduler, self.starts(queued), queued)
        return self._first[key]

    def _reasons(self, queued: Queued, seen: Standpoint) -> tuple[tuple[Reason, ...], bool]:
        """Why it waits, and whether it would do so no more with GPUs of others."""
        shape = queued.shape
        if shape.changes_itself:
            self.cycle.refresh(shape)
        if shape.possible_in is not self._usable:
            hopeless = never_now(self._scheduler, queued.job.request)
            if hopeless is not None:
                return (hopeless,), False
            shape.possible_in = self._usable
        returning = self.cycle.returning
        if returning and seen.fits_with(returning, queued):
            return (starting_soon(sum(mask.bit_count() for mask in returning.values())),), False
        found: list[Reason] = []
        behind = seen.behind(queued)
        if behind is not None:
            found.append(behind)
        if self._scheduler.room.free_count or shape.changes_itself:
            obstacle = (
                self._partner(queued)
                or self._held_out(queued)
                or self._promised_away(queued)
                or self._only_a_rule(queued)
            )
            if obstacle is not None and obstacle.code == "STARTING":  # it fits, and needs nobody's GPUs
                return (*found, obstacle), False
            found.append(obstacle or self._short(queued))
            alone = self._left_alone(queued)
            found += [] if alone is None else [alone]
        else:
            short = self._shortfalls.reason(queued, self._expected(queued, seen))
            more, told = kept_beside(self._scheduler, queued)
            found.append(
                replace(short, message=short.message + more, numbers=(*short.numbers, *told)) if more else short
            )
        if seen.windows:
            found += self._window_ahead(queued, found)
        return tuple(found), True

    def _window_ahead(self, queued: Queued, told: list[Reason]) -> tuple[Reason, ...]:
        """The windows that decide when it starts, unless a reason has told of windows."""
        bookings = self.bookings(queued)
        if any(name == "window_until_ms" for each in told for name, _ in each.numbers):
            return ()
        start = self.starts_by(queued)
        found = window_ahead(self._scheduler, bookings, queued, start_ms=None if start is None else start[0])
        return () if found is None else (found,)

    def _fits_unconfined(self, queued: Queued) -> bool:
        """Whether the job would fit now if no rule about groups of jobs held it back."""
        old = queued.shape.wanted
        free = Wanted(queued.job.request, avoid_gpus=old.avoid_gpus, avoid_nodes=old.avoid_nodes)
        pins = self.bookings(queued).pins(queued.owner[1], queued.duration_ms)
        return find(self._scheduler.room, free, pins) is not None

    def _is_kept_off_what_rules_leave(self, queued: Queued) -> bool:
        """Whether rules about groups keep the job off what its required rules leave: all of it, or what is free."""
        wanted = queued.shape.wanted
        if wanted.confined is None:
            return False
        return find(self._scheduler.usable_room, wanted) is None or self._fits_unconfined(queued)

    def _partner(self, queued: Queued) -> Reason | None:
        near = queued.job.request.near
        if near is None or near.group == queued.job.group or self._scheduler.groups.partners(near.group):
            return None
        if self._waits_for is None:
            self._waits_for = waits_for(self._scheduler)
        changes = tuple(self.alternatives(queued))
        code, message = no_partner(queued.job, near, self._waits_for)
        numbers: Numbers = (("group", near.group), ("level", near.level), *_numbers(changes))
        return Reason(code, message + hint(changes), numbers)

    def _left_alone(self, queued: Queued) -> Reason | None:
        """PARTNER_LEAVES when the jobs beside which it is to run end before it could start there."""
        near, scheduler = queued.job.request.near, self._scheduler
        asked = asked_of(queued, self.cycle.now_ms)
        if near is None or not is_left_alone(scheduler, self.bookings(queued), queued.shape, asked):
            return None
        ends = [held.expected_end(self.cycle.now_ms) for held in scheduler.live.values() if held.group == near.group]
        return left_alone(near, latest(max(ends)))

    def _held_out(self, queued: Queued) -> Reason | None:
        """HOLDS_OUT when it would start now if it held out for no rung."""
        found = holds_out(self._scheduler, self.bookings(queued), queued)
        if found is None:
            return None
        changes = tuple(self.alternatives(queued))
        numbers = (*found.numbers, *_numbers(changes), *self._earliest(queued))
        return replace(found, message=found.message + hint(changes), numbers=numbers)

    def _promised_away(self, queued: Queued) -> Reason | None:
        """RESERVED or WINDOW when it fits on GPUs that are free, but promised from before its end on."""
        scheduler, bookings = self._scheduler, self.bookings(queued)
        if is_out_of_question(scheduler.room, queued.shape.wanted):
            return None
        longest = longest_now(scheduler.room, bookings, queued.shape.wanted, queued.owner[1])
        if longest <= 0 and find(scheduler.room, queued.shape.wanted) is None:
            return None
        gpus = able(scheduler.room, queued.shape.wanted, scheduler.room.free)
        blocking = in_reach(scheduler.room, bookings, queued, gpus)
        if not blocking:
            return starting_soon()
        windows = [each for each in blocking if each.window]
        promises = [each for each in blocking if not each.window]
        changes = tuple(self.alternatives(queued))
        numbers: Numbers = (("fits_if_at_most_s", longest // 1000), *_numbers(changes), *self._earliest(queued))
        if windows and not (promises and fits_beside(scheduler.room, windows, queued.shape.wanted)):
            windows, opens_ms = opening(scheduler.room, bookings, queued, gpus)
            message, told = closed(windows, self.cycle.now_ms, opens_ms=opens_ms)
            return Reason("WINDOW", f"{message}{_fits_now(longest)}{hint(changes)}", (*told, *numbers))
        holders = [each.reservation.job for each in self.cycle.promises_in(promises)]
        need = agree(len(holders), "needs", "need")
        message = (
            f"It fits, but the GPUs are kept for {jobs_in_words(len(holders))} ahead of it that {need} more at once."
            f"{_fits_now(longest)}{hint(changes)}"
        )
        return Reason("RESERVED", message, (*(("held_for", job) for job in holders[:1]), *numbers))

    def _only_a_rule(self, queued: Queued) -> Reason | None:
        request = queued.job.request
        if not queued.shape.wanted.terms and queued.shape.wanted.confined is None:
            return None
        changes = tuple(self.alternatives(queued))
        names = [change.name for change in changes]
        if "without_rule" in names:
            if self._is_kept_off_what_rules_leave(queued):
                rules = all_spelled(request.required_terms)
                message, told = kept_away_too(self._scheduler, queued, rules)
                return Reason("RULE", message + hint(changes), (("rules", rules), *told, *_numbers(changes)))
            return _rule(request, "Free GPUs would do, but the required rules don't hold there", changes)
        if queued.shape.wanted.confined is not None and self._fits_unconfined(queued):
            message, told = kept_away(self._scheduler, queued)
            return Reason("RULE", message + hint(changes), (*told, *_numbers(changes), *self._earliest(queued)))
        return None

    def _short(self, queued: Queued) -> Reason:
        """Too little is free: how much is missing where, by when that may change, what would help."""
        changes = tuple(self.alternatives(queued))
        room, wanted, bookings = self._scheduler.room, queued.shape.wanted, self.bookings(queued)
        windows: list[Booking] = []
        if bookings.are_windows:
            promised = in_reach(room, bookings, queued, suiting(room, wanted))
            windows = [each for each in promised if each.window]
        shut = free_in(room, windows, suiting(room, wanted))
        told_of = free_in(room, windows, able(room, wanted, room.usable)) if shut else {}
        room.take(shut)
        code, message, numbers = shortage(room, wanted, queued.job.request)
        room.give(shut)
        if told_of:
            there = [each for each in windows if not told_of.keys().isdisjoint(each.cells)]
            more, told = closed_too(told_of, there, self.cycle.now_ms, opens_ms=first_open(room, there, told_of))
            message, numbers = f"{message} {more}", (*numbers, *told)
        more, told = kept_beside(self._scheduler, queued)
        numbers = (*numbers, *told, *self._earliest(queued), *_numbers(changes))
        return Reason(code, f"{message}{more}{hint(changes)}", numbers)

    def _earliest(self, queued: Queued) -> Numbers:
        """Where and when, by the ``max_duration`` of what runs, enough GPUs are free for it."""
        return expected_numbers(self._expected(queued, self._seen_by(queued)))

    def _expected(self, queued: Queued, seen: Standpoint) -> Expected:
        """Where and when at the soonest, as :attr:`Estimate.told_low`: a reason does not change with every tick."""
        wanted, scheduler = queued.shape.wanted, self._scheduler
        if queued.shape.changes_itself or queued.may_evict:
            found = self.starts_by(queued)
            there = None if found is None else (found[0], place_name(scheduler.inventory, wanted, found[1]))
        else:
            there = seen.starts.of(queued)[1]
        if there is None:
            return None
        start_ms = max(there[0], self.cycle.now_ms)
        return start_ms if is_bound(scheduler, queued, start_ms) else soonest(start_ms), there[1]


def _fits_now(longest_ms: int) -> str:
    """How long a job may be that fits before the promises, as a sentence that follows another; "" for none."""
    seconds = longest_ms // 1000
    return (
        f" Now what ends within {duration_in_words(seconds)} would fit; that grows less all the time."
        if seconds
        else ""
    )


def _numbers(changes: tuple[Alternative, ...]) -> Numbers:
    return tuple((change.name, change.value) for change in changes if change.value)


def _rule(request: ResourceRequest, why: str, changes: tuple[Alternative, ...]) -> Reason:
    rules = all_spelled(request.required_terms)
    return Reason("RULE", f"{why}: {rules}.{hint(changes)}", (("rules", rules), *_numbers(changes)))


def holds_of(scheduler: Scheduler) -> tuple[Hold, ...]:
    """A Hold for every job that waits, by rank."""
    explainer = Explainer(scheduler)
    waiting = sorted(scheduler.everyone_waiting(), key=lambda job: rank_key(job, scheduler.share))
    return tuple(Hold(job.id, explainer.of(job.id), rank) for rank, job in enumerate(waiting, 1))
