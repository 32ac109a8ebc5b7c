"""How did shares go over some days: who held which part of the pool, and what was on whose account?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from scheduling.core.statement import Charge, Credit, balances
from scheduling.services import filters, share_ahead
from scheduling.services.reports import asked as reports
from scheduling.services.reports import period, usage
from scheduling.services.reports.period import Period
from scheduling.services.share_ahead import Foreseen
from scheduling.services.share_statement import far_enough
from scheduling.store import load
from scheduling.store.clock import to_ms
from scheduling.store.queries import charges as rows
from scheduling.store.queries.access import Actor

FIELDS = (*period.FIELDS, "project", "queue")
USUAL = timedelta(days=27)  # before today


@dataclass(frozen=True, slots=True)
class Asked:
    """Which time, one project or all ("") and one queue or all (""): a queue narrows what was held, not accounts, which
    are over all queues."""

    period: Period
    project: str
    queue: str


class Piece(NamedTuple):
    """What a project had in a piece of the period: GPU-ms ``held``, which ``part`` of what all held (None: nobody held
    any), and what was on its account (GPU-ms times weight) as the piece ended, or now; None if it has yet to begin."""

    held: int
    part: float | None
    account: float | None


@dataclass(frozen=True, slots=True)
class Share:
    """A project: the ``due`` part of it by the weights of now, among those that held any GPU in the period; its
    ``target`` of now in GPU-ms, None without work; what was on its account ``at_first``, and its pieces."""

    project: str
    due: float
    target: float | None
    at_first: float | None
    pieces: tuple[Piece, ...]
    foreseen: Foreseen | None


@dataclass(frozen=True, slots=True)
class Told:
    """Shares over a time, the largest part of the GPU time first; ``whole``: the GPU-ms that all held."""

    asked: Asked
    now: datetime
    whole: int
    shares: tuple[Share, ...]


def read(actor: Actor, given: Mapping[str, str], now: datetime) -> tuple[Asked | None, tuple[dict[str, Any], ...]]:
    """What :data:`FIELDS` ask for, or None and all that is wrong with it; "" asks for all, and for the last 28 days."""
    days = {name: given.get(name, "") for name in period.FIELDS}
    found, wrong = period.read(days, now)
    if found is not None and not days["from"]:
        found, wrong = period.read({**days, "from": (found.last - USUAL).isoformat()}, now)
    wrong += filters.wrong_of_shares(actor, {name: given.get(name, "") for name in ("project", "queue")})
    if wrong or found is None:
        return None, wrong
    return Asked(found, given.get("project", ""), given.get("queue", "")), ()


def told(actor: Actor, asked: Asked, now: datetime) -> Told:
    """The shares of all projects that held anything or have anything on their account, or of the one asked for."""
    weights = load.policy_of().project_weights
    held = _held(actor, asked, now)
    accounts = _accounts(asked, now)
    whole = [sum(of[place] for of in held.values()) for place in range(len(asked.period.pieces))]
    named = [name for name in weights if any(held.get(name, ())) or any(accounts.get(name, ()))]
    holders = {name for name in named if any(held.get(name, ()))}
    later = {each.name: each for each in share_ahead.ahead(actor, now) if not each.project}
    told = [name for name in named if asked.project in ("", name)]
    found = [
        Share(
            name, _part(weights, name, holders), later[name].target if name in later else None,
            *_pieces(held.get(name, [0] * len(whole)), whole, accounts.get(name), asked.period, now), later.get(name),
        )
        for name in told
    ]  # fmt: skip
    return Told(
        asked, now, sum(whole), tuple(sorted(found, key=lambda each: (-sum(p.held for p in each.pieces), each.project)))
    )


def _part(weights: Mapping[str, float], name: str, others: Set[str]) -> float:
    """The part of the project by weight, among the ``others`` and itself."""
    whole = sum(weights[each] for each in {*others, name})
    return weights[name] / whole if whole else 0.0


def _held(actor: Actor, asked: Asked, now: datetime) -> dict[str, list[int]]:
    """GPU-ms by project and piece."""
    jobs = {"queue": asked.queue} if asked.queue else {}
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * len(asked.period.pieces))
    found = usage.usage(actor, reports.Asked(asked.period, jobs), now)
    for (project, piece), amount in found.by(("project", "piece")).items():
        sums[str(project)][int(piece)] = amount.held
    return dict(sums)


def _accounts(asked: Asked, now: datetime) -> dict[str, list[float]]:
    """By project, what was on its account as the first piece began, and as each ended, or now; none beyond that."""
    half_life_s = load.policy_of().half_life_s
    at = to_ms(now)
    edges = [edge for edge in usage.edges_of(asked.period)[:-1] if edge < at]
    if not edges:
        return {}
    edges.append(min(at, to_ms(asked.period.end)))
    since = far_enough(asked.period.start, half_life_s)
    wanted = {"project": asked.project} if asked.project else {}
    charged: dict[str, list[Charge]] = defaultdict(list)
    credited: dict[str, list[Credit]] = defaultdict(list)
    for (_, project, _), charge in rows.charged(wanted, now, since=since):
        charged[project].append(charge)
    for (_, project, _), credit in rows.given_back(wanted, now, since=since):
        credited[project].append(credit)
    half_life_ms = round(half_life_s * 1000)
    return {
        project: balances(found, credited.get(project, ()), edges, half_life_ms=half_life_ms)
        for project, found in charged.items()
    }


def _pieces(
    held: list[int], whole: list[int], accounts: list[float] | None, when: Period, now: datetime
) -> tuple[float | None, tuple[Piece, ...]]:
    """What was on the account at first, and the pieces."""
    begun = sum(1 for piece in when.pieces if piece.start < now)
    known = accounts or ([0.0] * (begun + 1) if begun else [])
    parts = (
        Piece(held[n], held[n] / whole[n] if whole[n] else None, known[n + 1] if n < begun else None)
        for n in range(len(when.pieces))
    )
    return (known[0] if known else None), tuple(parts)


def instants(when: Period, now: datetime) -> Iterator[datetime]:
    """When the first piece began, and when each that has begun ended, or now: the instants of the accounts."""
    for n, piece in enumerate(when.pieces):
        if piece.start < now:
            if not n:
                yield piece.start
            yield min(piece.end, now)
