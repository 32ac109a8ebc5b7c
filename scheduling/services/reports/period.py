"""Which time does a report tell of, and in what pieces? Days, weeks or months as a zone has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from scheduling.core.fields import nearest, shown

FIELDS = ("from", "to", "each", "zone")
EACH = ("day", "week", "month")
MAX_PIECES = 400
FIRST_YEAR, LAST_YEAR = 2000, 9998
DAYS_UP_TO, WEEKS_UP_TO = 62, 200  # days of a period that is told by day, by week
DAY = timedelta(days=1)
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True, slots=True)
class Piece:
    """A day, a week or a month, or what of it lies within the period: from ``start`` up to and without ``end``, both in
    UTC. ``first`` and ``last`` are its days in the zone of the period."""

    first: date
    last: date
    start: datetime
    end: datetime


@dataclass(frozen=True)
class Period:
    """The days from ``first`` to ``last``, both within, in the zone of that name; told by ``each`` of :data:`EACH`."""

    first: date
    last: date
    each: str
    zone: str

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Its days, weeks (from Monday) or months, the earliest first; they have no gap and no overlap."""
        return tuple(self._cut())

    @property
    def start(self) -> datetime:
        """The instant at which its first day begins, in UTC."""
        return self._midnight(self.first)

    @property
    def end(self) -> datetime:
        """The instant at which its last day is over, in UTC."""
        return self._midnight(self.last + DAY)

    def _cut(self) -> Iterator[Piece]:
        first = self.first
        while first <= self.last:
            last = min(_last_of(first, self.each), self.last)
            yield Piece(first, last, self._midnight(first), self._midnight(last + DAY))
            first = last + DAY

    def _midnight(self, day: date) -> datetime:
        return datetime.combine(day, time.min, ZoneInfo(self.zone)).astimezone(UTC)


def read(given: Mapping[str, str], now: datetime) -> tuple[Period | None, tuple[dict[str, Any], ...]]:
    """The period that :data:`FIELDS` ask for, or None and everything that is wrong with them; "" is not asked.

    Left out, ``to`` is today, ``from`` the first day of the month of ``to``, ``zone`` UTC, and ``each`` as many pieces
    as read well.
    """
    wrong = list(_wrong_words(given))
    zone = given.get("zone") or "UTC"
    today = now.astimezone(ZoneInfo(zone if zone in zones() else "UTC")).date()
    last = _day("to", given, wrong) or today
    first = _day("from", given, wrong) or last.replace(day=1)
    if not wrong and first > last:
        message = f"from ({first}) must not be after to ({last}): swap them, or leave one out"
        wrong.append(_wrong("from", "from_after_to", message, last.isoformat()))
    if wrong:
        return None, tuple(wrong)
    period = Period(first, last, given.get("each") or _usual(first, last), zone)
    count = len(period.pieces) if (last - first).days < MAX_PIECES * 31 else MAX_PIECES + 1
    if count > MAX_PIECES:
        message = (
            f"a report has at most {MAX_PIECES} pieces, and {first} to {last} has more by {period.each}: "
            "ask for fewer days, or for weeks or months"
        )
        return None, (_wrong("from", "too_long", message, MAX_PIECES),)
    return period, ()


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    """The names of the zones there are, as ``Europe/Berlin``."""
    return frozenset(available_timezones())


def _last_of(day: date, each: str) -> date:
    """The last day of the piece in which this one lies."""
    if each == "day":
        return day
    if each == "week":
        return day + timedelta(days=6 - day.weekday())
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1) - DAY


def _usual(first: date, last: date) -> str:
    days = (last - first).days + 1
    return "day" if days <= DAYS_UP_TO else "week" if days <= WEEKS_UP_TO else "month"


def _day(name: str, given: Mapping[str, str], wrong: list[dict[str, Any]]) -> date | None:
    text = given.get(name, "")
    if not text:
        return None
    try:
        found = date.fromisoformat(text) if _WRITTEN.fullmatch(text) else None
    except ValueError:
        found = None
    if found is None or not FIRST_YEAR <= found.year <= LAST_YEAR:
        message = (
            f"{name} must be a day like 2026-11-30, of the years {FIRST_YEAR} to {LAST_YEAR}, not {shown(text)}; "
            "or leave it out"
        )
        wrong.append(_wrong(name, "bad_day", message, [f"{FIRST_YEAR}-01-01", f"{LAST_YEAR}-12-31"]))
        return None
    return found


def _wrong_words(given: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    each, zone = given.get("each", ""), given.get("zone", "")
    if each and each not in EACH:
        message = f"each must be one of {', '.join(EACH)}, not {shown(each)}{nearest(each, EACH)}; or leave it out"
        yield _wrong("each", "unknown_each", message, list(EACH))
    if zone and zone not in zones():
        message = f"there is no zone {shown(zone)}{nearest(zone, sorted(zones()))}; give one like Europe/Berlin or UTC"
        yield _wrong("zone", "unknown_zone", message, None)


def _wrong(field: str, code: str, message: str, limit: Any) -> dict[str, Any]:
    return {"field": field, "code": code, "message": message, "limit": limit}
