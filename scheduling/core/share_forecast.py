"""How does what everybody has used go on, and who passes whom when? Assuming that nothing new starts.

What runs goes to its time limit, and the weights and who has work stay as they are: so targets do not move. It is the
reckoning of :mod:`scheduling.core.fairshare`, at instants that are yet to come.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from scheduling.core.decay import decay, interval
from scheduling.core.fairshare import FairShare, billing_micro
from scheduling.core.ledger import MICRO, Ledger
from scheduling.core.snapshot import Account, LiveAttempt, Snapshot

NOTHING = Account(0.0, 0)


class Run(NamedTuple):
    """GPUs of ``micro`` millionths of billing weight together, held since ``start_ms`` and until ``end_ms``."""

    micro: int
    start_ms: int
    end_ms: int


class Step(NamedTuple):
    """From ``at_ms`` on, until the next end: GPU-ms ``consumed`` by then, the weight that is ``held`` from then on, and
    GPU-ms in flight."""

    at_ms: int
    consumed: float
    held: float
    in_flight: float


@dataclass(frozen=True, slots=True)
class Prospect:
    """One entity of a ledger: its ``target`` in GPU-ms, and what it uses, from now on (the first step).

    ``ahead_of_time``: what runs counts up to its end at once, as consumption to come.
    """

    name: str
    target: float
    steps: tuple[Step, ...]
    half_life_ms: int
    ahead_of_time: bool

    @property
    def now_ms(self) -> int:
        """The instant from which it is foreseen."""
        return self.steps[0].at_ms

    def step(self, at_ms: int) -> Step:
        """The step that ``at_ms``, not before now, belongs to."""
        return self.steps[bisect_right(self.steps, at_ms, key=_instant) - 1]

    def consumed(self, at_ms: int) -> float:
        """GPU-ms that will have been consumed by ``at_ms``, faded to then."""
        step = self.step(at_ms)
        faded = decay(step.consumed, at_ms - step.at_ms, self.half_life_ms)
        return faded + interval(step.held, step.at_ms, at_ms, at_ms, half_life_ms=self.half_life_ms)

    def in_flight(self, at_ms: int) -> float:
        """GPU-ms that what runs may use after ``at_ms``, as far as it counts ahead of time."""
        step = self.step(at_ms)
        return step.in_flight - step.held * (at_ms - step.at_ms) if self.ahead_of_time else 0.0

    def ratio(self, at_ms: int) -> float:
        """used / target at ``at_ms``, by which jobs of one priority are ordered: rounded as there, so that equal sums
        tie."""
        return round((self.consumed(at_ms) + self.in_flight(at_ms)) / self.target, 12)


def prospect(
    name: str, target: float, account: Account, runs: Iterable[Run], *, now_ms: int, half_life_ms: int,
    ahead_of_time: bool,
) -> Prospect:  # fmt: skip
    """Who has that on its account, and these runs; none of them has ended before ``now_ms``."""
    ending = sorted(runs, key=lambda run: run.end_ms)
    used = [decay(account.gpu_ms, now_ms - account.settled_ms, half_life_ms)]
    used += [interval(run.micro / MICRO, run.start_ms, now_ms, now_ms, half_life_ms=half_life_ms) for run in ending]
    micro, flight = sum(run.micro for run in ending), sum(run.micro * (run.end_ms - now_ms) for run in ending)
    steps = [Step(now_ms, math.fsum(used), micro / MICRO, flight / MICRO)]
    for end, ended in groupby(ending, key=lambda run: run.end_ms):
        last = steps[-1]
        consumed = decay(last.consumed, end - last.at_ms, half_life_ms)
        consumed += interval(last.held, last.at_ms, end, end, half_life_ms=half_life_ms)
        flight -= micro * (end - last.at_ms)
        micro -= sum(run.micro for run in ended)
        if end == last.at_ms:
            steps.pop()
        steps.append(Step(end, consumed, micro / MICRO, flight / MICRO))
    return Prospect(name, target, tuple(steps), half_life_ms, ahead_of_time)


def _instant(step: Step) -> int:
    return step.at_ms


class Prospects(NamedTuple):
    """Who is compared with whom: the projects with work, and by project its people with work; nobody of weight 0."""

    projects: tuple[Prospect, ...]
    people: dict[str, tuple[Prospect, ...]]


def prospects(snapshot: Snapshot) -> Prospects:
    """Everybody who has a target in the snapshot, each family in the order of the queue, whoever is first before the
    others."""
    share = FairShare.of(snapshot)
    usage, people = snapshot.usage, dict[str, list[Prospect]]()
    by_project: dict[str, list[Run]] = {}
    by_user: dict[tuple[str, str], list[Run]] = {}
    for attempt in snapshot.live:
        run = _run(snapshot, attempt)
        by_project.setdefault(attempt.project, []).append(run)
        by_user.setdefault((attempt.project, attempt.user), []).append(run)

    def made(name: str, target: float, account: Account, runs: Sequence[Run]) -> Prospect:
        policy = snapshot.policy
        return prospect(
            name, target, account, runs, now_ms=snapshot.now_ms, half_life_ms=round(policy.half_life_s * 1000),
            ahead_of_time=policy.in_flight == "full",
        )  # fmt: skip

    projects = [
        made(key, target, usage.project.get(key, NOTHING), by_project.get(key, ()))
        for key, target in _targets(share.projects)
    ]
    for (project, user), target in _targets(share.users):
        key = (project, user)
        people.setdefault(project, []).append(made(user, target, usage.user.get(key, NOTHING), by_user.get(key, ())))
    return Prospects(_ordered(projects), {project: _ordered(family) for project, family in sorted(people.items())})


def passes(behind: Prospect, ahead: Prospect, until_ms: int) -> int | None:
    """The first millisecond at which ``behind`` has used less of its target than ``ahead``; None if that is not before
    ``until_ms``."""
    if _before(behind, ahead, behind.now_ms):
        return behind.now_ms
    ends = {step.at_ms for step in (*behind.steps, *ahead.steps) if behind.now_ms < step.at_ms < until_ms}
    for start, end in pairwise([behind.now_ms, *sorted(ends), until_ms]):
        for low, high in pairwise([start, *_turns(behind, ahead, start, end), end]):
            if _before(behind, ahead, high):
                return _first(behind, ahead, low, high)
    return None


def _first(behind: Prospect, ahead: Prospect, low: int, high: int) -> int:
    """The first instant after ``low`` at which it is so, as it is at ``high``; the difference only falls between."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _before(behind, ahead, middle) else (middle, high)
    return high


def _before(behind: Prospect, ahead: Prospect, at_ms: int) -> bool:
    return behind.ratio(at_ms) < ahead.ratio(at_ms)


def _turns(behind: Prospect, ahead: Prospect, start_ms: int, end_ms: int) -> list[int]:
    """Where the difference of the two turns, within a time in which nothing ends.

    Of each, what is used is ``(K - R s) x + R s + F - R t`` with x = 2^-(t / H) and s = H / ln 2: K consumed at first,
    R GPUs held, F in flight; the last two terms only if that counts ahead of time. The difference of two such turns at
    one place at most.
    """
    half_life_ms = behind.half_life_ms
    if half_life_ms <= 0:
        return []
    scale = half_life_ms / math.log(2.0)

    def terms(each: Prospect) -> tuple[float, float]:
        held = each.step(start_ms).held
        falls = held if each.ahead_of_time else 0.0
        return (each.consumed(start_ms) - held * scale) / each.target, falls / each.target

    (curve, line), (other_curve, other_line) = terms(behind), terms(ahead)
    bend, slope = curve - other_curve, line - other_line
    part = -slope * scale / bend if bend else 0.0
    if not 0.0 < part < 1.0:
        return []
    turn = start_ms - half_life_ms * math.log2(part)
    return [ms for ms in (math.floor(turn), math.ceil(turn)) if start_ms < ms < end_ms]


def _targets(ledger: Ledger[Any]) -> list[tuple[Any, float]]:
    return [(key, target) for key in ledger.keys() if (target := ledger.target(key)) > 0.0]  # noqa: SIM118  no mapping


def _ordered(family: Sequence[Prospect]) -> tuple[Prospect, ...]:
    return tuple(sorted(family, key=lambda each: (each.ratio(each.now_ms), each.name)))


def _run(snapshot: Snapshot, attempt: LiveAttempt) -> Run:
    micro = attempt.billing_micro
    if micro is None:
        known = snapshot.pool.gpu_by_uuid
        micro = billing_micro(snapshot.policy, (known[gpu] for gpu in attempt.gpus if gpu in known))
    return Run(micro, attempt.granted_ms, max(attempt.end_ms, snapshot.now_ms))
