"""What is asked of a report: its period and whose jobs; every wrong value at once, with those that may be given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.services import filters
from scheduling.services.reports import period
from scheduling.services.reports.period import Period
from scheduling.store.queries.access import Actor

OF_JOBS = ("project", "user", "kind", "queue")
FIELDS = (*period.FIELDS, *OF_JOBS)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which report: its ``period``, and the values of :data:`OF_JOBS` that its jobs must have."""

    period: Period
    jobs: Mapping[str, str]


def read(actor: Actor, given: Mapping[str, str], now: datetime) -> tuple[Asked | None, tuple[dict[str, Any], ...]]:
    """What :data:`FIELDS` ask for, or None and all that is wrong with them; "" and what is left out ask for all.

    Whose jobs may be singled out is as with lists of jobs: those of one's own projects.
    """
    jobs = {name: given[name] for name in OF_JOBS if given.get(name)}
    found, wrong = period.read(given, now)
    wrong += filters.wrong_of_jobs(actor, jobs)
    if wrong or found is None:
        return None, wrong
    if jobs.get("user") == "me":
        jobs["user"] = actor.username
    return Asked(found, jobs), ()
