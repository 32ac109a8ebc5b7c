"""How did the account of a project, or of a person in it, get to what orders the queue now? A statement that sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from scheduling.core.decay import decay
from scheduling.core.fields import nearest, shown
from scheduling.core.statement import Line, Statement, balances, statement
from scheduling.services.reports import period
from scheduling.services.reports.period import Period
from scheduling.store import load
from scheduling.store.clock import to_ms
from scheduling.store.queries import charges as rows
from scheduling.store.queries import share
from scheduling.store.queries.access import Actor
from scheduling.store.queries.charges import JobName

FIELDS = ("from", "to", "zone", "project", "user")
FORGOTTEN = 64  # half-lives after which a year of ten thousand GPUs counts less than a GPU-ms
READS = 3  # of an account that is settled meanwhile


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose statement, over which time: the project's, or that of ``user`` in it where it is not ""."""

    period: Period
    project: str
    user: str

    @property
    def ledger(self) -> tuple[str, str]:
        """The ledger of the account and its key there."""
        return ("user", f"{self.project}/{self.user}") if self.user else ("project", self.project)

    @property
    def jobs(self) -> dict[str, str]:
        """The filter of the jobs that are charged to it."""
        return {"project": self.project} | ({"user": self.user} if self.user else {})


class JobLine(NamedTuple):
    """What one job did to the account."""

    job: str
    about: JobName
    line: Line


class Account(NamedTuple):
    """One balance at one instant, found twice, in GPU-ms: ``counted`` from the allocations, and ``stored``, as the
    scheduler has it with what runs."""

    counted: float
    stored: float


class Peer(NamedTuple):
    """Who is just ahead, in GPU-hours."""

    name: str
    target_gpu_h: float
    used_gpu_h: float


class Standing(NamedTuple):
    """How the entity stands now among those with work, in GPU-hours: in place ``place`` of ``of``, behind ``ahead``.
    What it has ``used`` is what it consumed and what its running jobs may still use."""

    target_gpu_h: float
    consumed_gpu_h: float
    in_flight_gpu_h: float
    deficit: float
    place: int
    of: int
    ahead: Peer | None

    @property
    def used_gpu_h(self) -> float:
        """What is compared with the target."""
        return self.consumed_gpu_h + self.in_flight_gpu_h


@dataclass(frozen=True, slots=True)
class Told:
    """A statement from ``start`` up to ``end``, which is not after ``now``. ``jobs``: those that the reader may know
    of, the most charged first; ``others``: how many more there are, and their sum."""

    asked: Asked
    start: datetime
    end: datetime
    now: datetime
    half_life_s: float
    account: Statement
    jobs: tuple[JobLine, ...]
    others: tuple[int, Line]
    check: Account
    standing: Standing | None


def read(actor: Actor, given: Mapping[str, str], now: datetime) -> tuple[Asked | None, tuple[dict[str, Any], ...]]:
    """What :data:`FIELDS` ask for, or None and all that is wrong with it; the time is as that of a report.

    Every project has a statement, as its share is told to everybody; people have one for who may know of them. Left
    out, the project is the first of one's own.
    """
    found, wrong = period.read({**{name: given.get(name, "") for name in FIELDS[:3]}, "each": "month"}, now)
    if found is not None and found.start > now:
        today = now.astimezone(ZoneInfo(found.zone)).date()
        message = f"from ({found.first}) must not be after today ({today}): what is to come has no statement"
        wrong = (*wrong, {"field": "from", "code": "to_come", "message": message, "limit": today.isoformat()})
    project, user = given.get("project") or next(iter(actor.projects), ""), given.get("user", "")
    projects = share.project_names()
    if project not in projects:
        wrong = (*wrong, _unknown("project", project, projects))
    elif user:
        user = actor.username if user == "me" else user
        people = share.people(actor, project)
        if not actor.sees(project) or (user not in people and not rows.had_jobs(project, user)):
            wrong = (*wrong, _unknown("user", user, people))
    if wrong or found is None:
        return None, wrong
    return Asked(found, project, user), ()


def told(actor: Actor, asked: Asked, now: datetime) -> Told:
    """The statement. It is made of the allocations alone; the stored account is there to compare."""
    half_life_s = load.policy_of().half_life_s
    half_life_ms, at = round(half_life_s * 1000), to_ms(now)
    start, end = asked.period.start, min(asked.period.end, now)
    since = far_enough(start, half_life_s)
    for _ in range(READS):
        before = rows.settled(*asked.ledger)
        charged = [charge for _, charge in rows.charged(asked.jobs, now, since=since)]
        credits = [credit for _, credit in rows.given_back(asked.jobs, now, since=since)]
        going = [charge for _, charge in rows.running(asked.jobs, now)]
        if rows.settled(*asked.ledger) == before:
            break
    account = statement(charged, credits, start_ms=to_ms(start), end_ms=to_ms(end), half_life_ms=half_life_ms)
    counted = balances(charged, credits, [at], half_life_ms=half_life_ms)[0]
    stored = decay(before[0], at - before[1], half_life_ms) + balances(going, [], [at], half_life_ms=half_life_ms)[0]
    jobs, others = _jobs(account.lines, known=actor.sees(asked.project))
    return Told(
        asked, start, end, now, half_life_s, account, jobs, others, Account(counted, stored),
        standing(actor, asked, now),
    )  # fmt: skip


def standing(actor: Actor, asked: Asked, now: datetime) -> Standing | None:
    """How it stands now; None while it has no work, or no weight."""
    found = share.share(actor, now)
    peers = found["projects"]
    if asked.user:
        peers = [row for row in found["users"] if row["project"] == asked.project]
    name = asked.user or asked.project
    ranked = sorted((row for row in peers if row["deficit"] is not None), key=lambda row: -row["deficit"])
    mine = next((row for row in ranked if row["name"] == name), None)
    if mine is None:
        return None
    ahead = [row for row in ranked if row["deficit"] > mine["deficit"]]
    peer = ahead[-1] if ahead else None
    return Standing(
        mine["target_gpu_h"], mine["consumed_gpu_h"], mine["in_flight_gpu_h"], mine["deficit"], len(ahead) + 1,
        len(ranked),
        peer and Peer(peer["name"], peer["target_gpu_h"], peer["consumed_gpu_h"] + peer["in_flight_gpu_h"]),
    )  # fmt: skip


def far_enough(start: datetime, half_life_s: float) -> datetime | None:
    """What ended before then counts nothing any more at ``start``; None where everything counts."""
    seconds = FORGOTTEN * half_life_s
    return start - timedelta(seconds=seconds) if 0 < seconds < start.timestamp() else None


def _jobs(lines: Mapping[str, Line], *, known: bool) -> tuple[tuple[JobLine, ...], tuple[int, Line]]:
    """The jobs that may be ``known``, and how many others there are with their sum."""
    if known:
        names = rows.names(sorted(lines))
        ranked = sorted(lines.items(), key=lambda each: (-each[1].charged_micro, -each[1].credited, each[0]))
        return tuple(JobLine(job, names[job], line) for job, line in ranked), (0, Line())
    rest = Line()
    for line in lines.values():
        rest.add(line)
    return (), (len(lines), rest)


def _unknown(field: str, value: str, known: Sequence[str]) -> dict[str, Any]:
    of = "whom you may know of in this project" if field == "user" else ""
    said = f"there is no {field} {shown(value)} {of}".rstrip() if value else f"{field} is needed"
    leave = ", or leave user out" if field == "user" else ""
    message = f"{said}{nearest(value, known)}; give one of {', '.join(known[:100]) or 'none'}{leave}"
    return {"field": field, "code": f"unknown_{field}" if value else f"no_{field}", "message": message,
            "limit": list(known[:100])}  # fmt: skip
