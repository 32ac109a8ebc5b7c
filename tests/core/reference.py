"""The slow reference: one cycle over the boundary values, job by job, with nothing kept and nothing clever.

It is the rules a second time, written to be read: sets of UUIDs, sorted lists, every subset of victims. The engine must
give an equal plan. For gangs that evict the engine's choice is a heuristic: there the reference follows the plan it is
given after checking that the set is legal, sufficient and minimal, and notes what it costs beside the best one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from scheduling.core.lifecycle import GpuState, JobState, NodeState
from scheduling.core.plan import Expire, Nominate, Plan, Preempt, Reservation, Start, Unnominate
from scheduling.core.reclaim import take_back
from scheduling.core.snapshot import LiveAttempt, Nomination, Snapshot, WaitingJob

from .reference_eligibility import Chance, Family, chances, eligible, fit, suited
from .reference_ledgers import Ledgers
from .reference_places import Found, Ground, best_rung, find
from .reference_reservations import NEVER, OVERDUE_MS, Earliest, Outlook, Pin, after_pins, earliest
from .reference_victims import (
    Cost,
    Eviction,
    Scene,
    cheapest,
    cheapest_for_gang,
    could_hold,
    grace_ms,
    is_evictable,
    may_evict,
    runs_on,
    save_ms,
)


def reference_plan(snapshot: Snapshot, follow: Plan | None = None) -> Plan:
    """The plan by the rules, without reasons and scores. ``follow``: the plan whose victims for gangs are judged."""
    return Cycle(snapshot, follow).run()


class Cycle:
    """One cycle: what is free, who holds what, what was decided so far."""

    def __init__(self, snapshot: Snapshot, follow: Plan | None = None) -> None:
        self.snapshot, self.follow = snapshot, follow
        self.now, self.policy = snapshot.now_ms, snapshot.policy
        self.ground = Ground(snapshot.pool)
        self.back = take_back(snapshot)
        self.taken_back = {reclaim.attempt for reclaim in self.back.reclaims if reclaim.whole}
        ready = {node.name for node in snapshot.pool.nodes if node.state is NodeState.READY} - self.back.unreachable
        self.usable = {
            uuid for uuid, gpu in self.ground.gpu.items() if gpu.state is GpuState.HEALTHY and gpu.node in ready
        }
        self.ends = {uuid: attempt.end_ms for attempt in snapshot.live for uuid in attempt.gpus}
        self.nominated = {each.job: each for each in snapshot.nominations}
        self.families = [Family(each.job, each.group, each.apart, each.gpus) for each in snapshot.live]
        self.asked_to_stop: set[str] = set()
        self.pins = [
            Pin(each.start_ms, each.end_ms, self._on_nodes(each.nodes), each.project, is_window=True)
            for each in snapshot.windows
            if each.end_ms > self.now
        ]
        self.ledgers = Ledgers(snapshot, self.ground, taken_back=self.taken_back)
        self.waiting = {job.id: job for job in snapshot.waiting}
        self.reserved_at_level: dict[int, int] = {}
        self.gang_costs: list[tuple[Cost, Cost]] = []
        self.starts: list[Start] = []
        self.preempts: list[Preempt] = []
        self.nominations: list[Nominate] = []
        self.unnominations: list[Unnominate] = []
        self.reservations: list[Reservation] = []

    def run(self) -> Plan:
        """Steps 1 to 4."""
        jobs = self.waiting.values()
        expired = sorted(job.id for job in jobs if job.start_by_ms is not None and job.start_by_ms <= self.now)
        for name in expired:
            del self.waiting[name]
        self._look_at_nominations()
        pending = [
            job
            for job in self.waiting.values()
            if job.id not in self.nominated and max(job.eligible_at_ms, job.not_before_ms) <= self.now
        ]
        aged_ms = self.policy.backfill.aged_after_s * 1000
        aged = sorted((job.submitted_ms, job.id) for job in pending if self.now - job.submitted_ms > aged_ms)
        self.aged = {name for _, name in aged[: self.policy.backfill.aged_reservations]}
        for level in sorted({job.level_value for job in pending}, reverse=True):
            self._decide_level([job for job in pending if job.level_value == level])
        return Plan(
            now_ms=self.now,
            lose_nodes=self.back.lose_nodes,
            reclaims=self.back.reclaims,
            starts=tuple(self.starts),
            preempts=tuple(self.preempts),
            nominations=tuple(self.nominations),
            unnominations=tuple(self.unnominations),
            expired=tuple(Expire(name) for name in expired),
            reservations=tuple(self.reservations),
            alarms=self.back.alarms,
        )

    def carry_out(self, plan: Plan) -> Cycle:
        """The state in which a plan leaves things, for questions about it: who holds what, and what is promised."""
        for each in plan.expired:
            del self.waiting[each.job]
        for name in {each.job for each in plan.unnominations} | (set(self.nominated) - set(self.waiting)):
            self.nominated.pop(name, None)
        for start in plan.starts:
            self.nominated.pop(start.job, None)
            self._start(self.waiting[start.job], Found(start.gpus, start.nodes))
        self.asked_to_stop |= {each.attempt for each in plan.preempts}
        for each in plan.nominations:
            self.nominated[each.job] = Nomination(each.job, each.gpus, each.deadline_ms, each.again)
        self.pins += [
            Pin(each.start_ms, each.end_ms, frozenset(each.gpus), owner=each.job) for each in plan.reservations
        ]
        return self

    # What is where

    @property
    def free(self) -> set[str]:
        """Usable GPUs that nobody holds and that are kept for nobody."""
        kept = {uuid for each in self.nominated.values() for uuid in each.gpus}
        return self.usable - set(self.ends) - kept

    def _on_nodes(self, nodes: Iterable[str]) -> frozenset[str]:
        return frozenset(uuid for node in nodes for uuid in self.ground.gpu if self.ground.gpu[uuid].node == node)

    def blocked(self, job: WaitingJob) -> set[str]:
        """The GPUs on which the job would meet a window or a reservation."""
        return {uuid for pin in self.pins if pin.blocks(self.now, job) for uuid in pin.gpus}

    def eligible(self, job: WaitingJob) -> set[str]:
        """The GPUs the job may lie on, free or not."""
        return eligible(self.ground, self.policy, job, usable=self.usable, families=self.families)

    def only_rung(self, job: WaitingJob) -> str | None:
        """The rung a gang holds out for at this time of its life, or None when any will do."""
        wait_s = job.request.max_wait_for_level_s
        if not job.request.is_gang or wait_s is None or self.now >= job.submitted_ms + wait_s * 1000:
            return None
        return best_rung(self.ground, job.request, self.policy, suited(self.ground, job))

    def place(self, job: WaitingJob) -> Found | None:
        """Where the job could start now."""
        able, free, rung = self.eligible(job), self.free - self.blocked(job), self.only_rung(job)
        return find(
            self.ground,
            job.request,
            self.policy,
            free=free,
            eligible=able,
            rung=rung,
            claimed=self.claimed(job),
            outlasts_ms=lambda cell: self._outlasts_ms(job, cell),
        )

    def _outlasts_ms(self, job: WaitingJob, cell: Iterable[str]) -> float:
        ends = [end for end in map(self._release, cell) if end < math.inf]
        return job.remaining_s * 1000 + self.now - max([self.now, *ends])

    def claimed(self, job: WaitingJob) -> set[str]:
        """The GPUs that waiting jobs with required rules need and this job, which has others, would take from them."""
        due = [each for each in self.waiting.values() if max(each.eligible_at_ms, each.not_before_ms) <= self.now]
        asked = [
            (suited(self.ground, each), each.request.gpu_count)
            for each in due
            if each.request.required_terms and each.id not in self.nominated
        ]
        own, found = suited(self.ground, job), set[str]()
        for theirs, _ in asked:
            need = sum(count for gpus, count in asked if gpus <= theirs)
            if own & theirs and not own <= theirs and len(self.free & theirs) - job.request.gpu_count < need:
                found |= theirs
        return found

    def place_on(self, job: WaitingJob, gpus: Iterable[str]) -> Found | None:
        """Where the job could lie if exactly these GPUs were free and nothing pinned them."""
        return find(self.ground, job.request, self.policy, free=set(gpus), eligible=self.eligible(job))

    # Step 2

    def _look_at_nominations(self) -> None:
        for name in [name for name in self.nominated if name not in self.waiting]:
            self._unnominate(name)
        jobs = [self.waiting[name] for name in self.nominated]
        for job in jobs:
            self.ledgers.charge(job, self.nominated[job.id].gpus)
        for job in sorted(jobs, key=lambda job: (-job.level_value, job.submitted_ms, job.id)):
            self._look_at(job, self.nominated[job.id])

    def _look_at(self, job: WaitingJob, nomination: Nomination) -> None:
        if all(uuid in self.usable and uuid not in self.ends for uuid in nomination.gpus):
            del self.nominated[job.id]
            nodes = dict.fromkeys(self.ground.gpu[uuid].node for uuid in nomination.gpus)
            self._start(job, Found(nomination.gpus, tuple(nodes)))
        elif nomination.deadline_ms <= self.now or not all(map(self._takes_work, nomination.gpus)):
            self.ledgers.charge(job, nomination.gpus, sign=-1)
            self._unnominate(job.id)
        elif (place := self._with_its_own(job, nomination)) is not None:
            self.ledgers.charge(job, nomination.gpus, sign=-1)
            self._unnominate(job.id)
            self.ledgers.charge(job, place.gpus)
            self._start(job, place)
        elif not nomination.again and self._late(nomination):
            self._plan_again(job, nomination)
        elif any(runs_on(self.policy, each) for each in self._late(nomination)):
            self.ledgers.charge(job, nomination.gpus, sign=-1)
            self._unnominate(job.id)

    def _with_its_own(self, job: WaitingJob, nomination: Nomination) -> Found | None:
        """Where the job could start now, with what its victims have left already."""
        del self.nominated[job.id]
        place = self.place(job)
        self.nominated[job.id] = nomination
        return place

    def _takes_work(self, uuid: str) -> bool:
        gpu = self.ground.gpu[uuid]
        return gpu.state is GpuState.HEALTHY and self.ground.node[gpu.node].state is NodeState.READY

    def _late(self, nomination: Nomination) -> list[LiveAttempt]:
        """Those that were asked to leave those GPUs and have used up their time to save."""
        return [
            each
            for each in self.snapshot.live
            if not set(each.gpus).isdisjoint(nomination.gpus)
            and each.state is JobState.PREEMPTING
            and each.stop_by_ms is not None
            and each.stop_by_ms <= self.now
        ]

    def _plan_again(self, job: WaitingJob, nomination: Nomination) -> None:
        """The one new plan of D8: another legal set, if there is one."""
        self.ledgers.charge(job, nomination.gpus, sign=-1)
        del self.nominated[job.id]
        eviction = None
        if self._may(job):
            eviction = self._gang_eviction(job) if job.request.is_gang else self._eviction(job)
        if eviction is not None and eviction.gpus:
            self.unnominations.append(Unnominate(job.id))
            self._ask_to_leave(job, eviction, again=True)
        elif any(runs_on(self.policy, each) for each in self._late(nomination)):
            self.unnominations.append(Unnominate(job.id))
        else:
            self.nominated[job.id] = nomination
            self.ledgers.charge(job, nomination.gpus)

    def _unnominate(self, name: str) -> None:
        del self.nominated[name]
        self.unnominations.append(Unnominate(name))

    # Step 3

    def _decide_level(self, jobs: list[WaitingJob]) -> None:
        pending, failed = list(jobs), list[WaitingJob]()
        while pending:
            job = min(pending, key=self.ledgers.rank_key)
            pending.remove(job)
            place = self.place(job)
            if place is not None:
                self.ledgers.charge(job, place.gpus)
                self._start(job, place)
                again = [each for each in failed if each.request.near and each.request.near.group == job.group]
                pending += again
                failed = [each for each in failed if each not in again]
            elif not self._evict(job):
                failed.append(job)
                self._reserve(job)

    def _start(self, job: WaitingJob, place: Found) -> None:
        self.starts.append(Start(job.id, place.gpus, place.nodes))
        del self.waiting[job.id]
        for uuid in place.gpus:
            self.ends[uuid] = self.now + job.remaining_s * 1000
        self.families.append(Family(job.id, job.group, job.request.apart, place.gpus))
        self._forget_reservation(job)

    def _forget_reservation(self, job: WaitingJob) -> None:
        self.reservations = [each for each in self.reservations if each.job != job.id]
        self.pins = [pin for pin in self.pins if pin.owner != job.id]

    def _may(self, job: WaitingJob) -> bool:
        return self.snapshot.can_preempt and job.may_evict and may_evict(self.policy, job)

    def _evict(self, job: WaitingJob) -> bool:
        if not self._may(job):
            return False
        eviction = self._gang_eviction(job) if job.request.is_gang else self._eviction(job)
        if eviction is None:
            return False
        worst_save = max(save_ms(self.policy, victim) for victim in eviction.victims)
        if self.earliest(job, evicting=False, promising=False).start_ms <= self.now + worst_save:
            return False
        self._ask_to_leave(job, eviction, again=False)
        return True

    def _ask_to_leave(self, job: WaitingJob, eviction: Eviction, *, again: bool) -> None:
        graces = [grace_ms(self.policy, victim.queue) for victim in eviction.victims]
        for victim in sorted(eviction.victims, key=lambda victim: victim.job):
            grace_s = grace_ms(self.policy, victim.queue) / 1000
            self.preempts.append(Preempt(victim.attempt, victim.job, victim.epoch, job.id, grace_s))
            self.asked_to_stop.add(victim.attempt)
        deadline = self.now + max(graces) + round(self.policy.evict.nomination_slack_s * 1000)
        self.nominations.append(Nominate(job.id, eviction.gpus, deadline, again))
        self.nominated[job.id] = Nomination(job.id, eviction.gpus, deadline, again)
        self.ledgers.charge(job, eviction.gpus)

    def _is_exclusive(self, job: WaitingJob) -> bool:
        request = job.request
        everywhere = self.policy.nvlink_mode == "exclusive" and request.nvlink_required
        return not request.is_gang and (request.nvlink_exclusive or everywhere)

    def _evictable(self, job: WaitingJob) -> list[LiveAttempt]:
        out = self.taken_back | self.asked_to_stop
        return [each for each in self.snapshot.live if each.attempt not in out and is_evictable(self.policy, job, each)]

    def _scene(self, job: WaitingJob) -> Scene:
        able, blocked = self.eligible(job), self.blocked(job)
        kept = {uuid for each in self.nominated.values() for uuid in each.gpus}
        takeable = self.usable - blocked - kept
        return Scene(
            ground=self.ground,
            policy=self.policy,
            job=job,
            now_ms=self.now,
            available=frozenset((self.free & able) - blocked),
            unpinned_free=frozenset(self.free - blocked),
            eligible=frozenset(able),
            takeable=frozenset(takeable if self._is_exclusive(job) else takeable & able),
            only_rung=self.only_rung(job),
            evictable=tuple(self._evictable(job)),
        )

    def _eviction(self, job: WaitingJob) -> Eviction | None:
        return cheapest(self._scene(job), is_exclusive=self._is_exclusive(job))

    def _gang_eviction(self, job: WaitingJob) -> Eviction | None:
        scene = self._scene(job)
        best = cheapest_for_gang(scene)
        if self.follow is None:
            if best is None:
                return None
            place = find(
                self.ground,
                job.request,
                self.policy,
                free=scene.available | scene.freed(best),
                eligible=scene.eligible,
            )
            return Eviction(best, place.gpus if place else ())
        names = {each.job for each in self.follow.preempts if each.nominee == job.id}
        chosen = tuple(each for each in scene.evictable if each.job in names)
        if not names:
            # It evicts nobody: right when nothing suffices, or when waiting is no slower (judged by the best set).
            return Eviction(best, ()) if best is not None else None
        kept = next(each.gpus for each in self.follow.nominations if each.job == job.id)
        self._judge(scene, chosen, names=names, kept=kept, best=best)
        return Eviction(chosen, kept)

    def _judge(
        self,
        scene: Scene,
        chosen: tuple[LiveAttempt, ...],
        *,
        names: set[str],
        kept: tuple[str, ...],
        best: tuple[LiveAttempt, ...] | None,
    ) -> None:
        """Legal, sufficient, minimal, and exactly as many GPUs as are needed; else an AssertionError."""
        job = scene.job
        assert {each.job for each in chosen} == names, f"{job.id} evicts {names}, of whom only {chosen} are legal"
        assert best is not None, f"{job.id} evicts {names} though nothing suffices"
        assert set(kept) <= scene.available | scene.freed(chosen), f"{job.id} keeps GPUs that are not to be had"
        assert len(set(kept)) == len(kept) == job.request.gpu_count, f"{job.id} keeps {kept}"
        assert could_hold(scene, kept), f"{job.id} can't lie on {kept}"
        for victim in chosen:
            rest = [each for each in chosen if each is not victim]
            fits_without = could_hold(scene, scene.available | scene.freed(rest))
            assert not fits_without, f"{job.id} evicts {victim.job} for nothing"
        self.gang_costs.append((scene.cost(chosen), scene.cost(best)))

    # Reservations

    def _reserve(self, job: WaitingJob) -> None:
        """One of the level's reservations, if one is left and it needs one; else one because it waits too long."""
        if any(each.job == job.id for each in self.reservations):
            return
        made = self.reserved_at_level.get(job.level_value, 0)
        if job.request.gpu_count > 1 and made < self.policy.backfill.reservations_per_level:
            self.reserved_at_level[job.level_value] = made + self._promise(job)
        elif job.id in self.aged:
            self._promise(job)

    def _promise(self, job: WaitingJob) -> bool:
        found = self.earliest(job, evicting=self._may(job), promising=True)
        if found.start_ms == math.inf:
            return False
        start = max(self.now, round(found.start_ms))
        if job.start_by_ms is not None and job.start_by_ms <= start:
            return False
        end = start + job.remaining_s * 1000
        self.reservations.append(Reservation(job.id, start, end, found.gpus))
        self.pins.append(Pin(start, end, frozenset(found.gpus), owner=job.id))
        return True

    def earliest(self, job: WaitingJob, *, evicting: bool, promising: bool) -> Earliest:
        """When the job could start. ``evicting``: those it may evict leave as soon as they have saved; ``promising``:
        a start in one rack may be somewhat later."""
        able = fit(self.ground, self.policy, job, usable=self.usable)
        found = [
            self._earliest(job, chance, evicting=evicting, promising=promising)
            for chance in chances(self.ground, job, able=able, families=self.families, ends=self._family_ends())
        ]
        return min(found, key=lambda each: each.start_ms, default=NEVER)

    def _family_ends(self) -> dict[str, float]:
        """When each job that lies somewhere has ended at the latest."""
        ends: dict[str, float] = {start.job: self.ends[start.gpus[0]] for start in self.starts}
        for each in self.snapshot.live:
            asked = each.attempt in self.asked_to_stop
            stop = self.now + grace_ms(self.policy, each.queue) if asked else each.stop_by_ms
            end = each.end_ms if stop is None else min(each.end_ms, stop)
            ends[each.job] = end if end > self.now else self.now + OVERDUE_MS
        return ends

    def _earliest(self, job: WaitingJob, chance: Chance, *, evicting: bool, promising: bool) -> Earliest:
        duration, able = job.remaining_s * 1000, set(chance.gpus)
        release = {uuid: self._release(uuid) for uuid in self.ground.gpu}
        if evicting:
            for victim in self._evictable(job):
                for uuid in victim.gpus:
                    if release.get(uuid, math.inf) < math.inf:
                        release[uuid] = min(release[uuid], self.now + save_ms(self.policy, victim))
        release = {uuid: max(instant, chance.opens.get(uuid, 0.0)) for uuid, instant in release.items()}
        ready = {
            uuid: after_pins(release[uuid], uuid, self.pins, now_ms=self.now, duration_ms=duration, project=job.project)
            for uuid in self.ground.gpu
        }
        patience = round(self.policy.backfill.rack_patience_s * 1000) if promising and not chance.closes else 0
        while able:
            outlook = Outlook(self.ground, job.request, ready, able, patience)
            found = earliest(outlook, is_exclusive=self._is_exclusive(job), only_rung=self.only_rung(job))
            if found.start_ms == math.inf:
                break
            start = max(found.start_ms, self.now)
            gone = {uuid for uuid in able if chance.closes.get(uuid, math.inf) <= start}
            if not gone:
                return found
            able -= gone
        return NEVER

    def _release(self, uuid: str) -> float:
        """When the GPU is free by what is known of who holds it or is to have it."""
        if uuid not in self.usable:
            return math.inf
        for name, nomination in self.nominated.items():
            if uuid in nomination.gpus:
                return nomination.deadline_ms + self.waiting[name].remaining_s * 1000
        if uuid not in self.ends:
            return 0
        stop = self._stop_deadline(uuid)
        end = self.ends[uuid] if stop is None else min(self.ends[uuid], stop)
        return end if end > self.now else self.now + OVERDUE_MS

    def _stop_deadline(self, uuid: str) -> int | None:
        """When the grace of the holder ends, if it was asked to stop."""
        holder = next((each for each in self.snapshot.live if uuid in each.gpus), None)
        if holder is not None and holder.attempt in self.asked_to_stop:
            return self.now + grace_ms(self.policy, holder.queue)
        return holder.stop_by_ms if holder is not None else None
