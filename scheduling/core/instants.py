"""When? Instants as people write them (ISO 8601 with a zone) and as milliseconds since 1970 in UTC."""

from __future__ import annotations

import re

from scheduling.core.fields import Fields, shown

# The longest job from the last instant on still ends within the years that every calendar and database can hold.
MAX_YEAR = 2199
DAY_MS = 86_400_000
EXAMPLE = "2030-01-31T09:00:00Z"

_INSTANT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?([Zz]|[+-]\d{2}:?\d{2})?", re.ASCII
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse_instant(value: object, what: str = "an instant") -> int:
    """Milliseconds since 1970-01-01 UTC, fractions of one cut off; ValueError with a sentence about ``what`` when it
    can't be read."""
    match = _INSTANT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{what} must be written like {EXAMPLE}")
    if match[8] is None:
        raise ValueError(f"{what} must say its zone: end it with Z for UTC, like {EXAMPLE}")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    if not 1970 <= year <= MAX_YEAR:
        raise ValueError(f"{what} must lie in the years 1970 to {MAX_YEAR}")
    if not (1 <= month <= 12 and 1 <= day <= _days_in(year, month)):
        raise ValueError(f"{what} must be a day that there is, like {EXAMPLE}")
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{what} must be a time of day that there is, from 00:00:00 to 23:59:59, like {EXAMPLE}")
    zone_s = _offset_s(match[8], what)
    seconds = (_days_before(year, month, day) * 24 + hour) * 3600 + minute * 60 + second - zone_s
    instant = seconds * 1000 + int((match[7] or "0").ljust(3, "0")[:3])
    if not 0 <= instant < LATEST_MS:
        raise ValueError(f"{what} must lie in the years 1970 to {MAX_YEAR} of UTC")
    return instant


def as_instant(instant_ms: int) -> str:
    """ISO 8601 in UTC, which :func:`parse_instant` reads back to the same number."""
    days, rest = divmod(instant_ms, DAY_MS)
    year = 1970 + days // 366
    while _days_before(year + 1, 1, 1) <= days:
        year += 1
    month, day = 1, days - _days_before(year, 1, 1) + 1
    while day > _days_in(year, month):
        day -= _days_in(year, month)
        month += 1
    seconds, millis = divmod(rest, 1000)
    fraction = f".{millis:03}" if millis else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}{fraction}Z"


def read_instant(fields: Fields, name: str) -> int | None:
    """The field's instant in ms, or None when it wasn't sent or after an error."""
    value = fields.value(name)
    if value is None:
        return None
    try:
        return parse_instant(value, name)
    except ValueError as error:
        fields.refuse(name, "bad_instant", f"{error} (not {shown(value)})", EXAMPLE)
        return None


def read_times(fields: Fields, now_ms: int) -> tuple[int | None, int | None]:
    """``not_before`` and ``start_by`` in ms; a ``start_by`` that could not be met is refused.

    A ``not_before`` that has passed is no error: it is kept already.
    """
    earliest, latest = read_instant(fields, "not_before"), read_instant(fields, "start_by")
    if latest is not None and latest <= now_ms:
        message = f"start_by must lie in the future, and it is {as_instant(now_ms)}; give a later instant"
        fields.refuse("start_by", "in_the_past", message)
    elif latest is not None and earliest is not None and latest <= earliest:
        message = (
            f"start_by ({as_instant(latest)}) must be after not_before ({as_instant(earliest)}); give a later one, "
            "or leave one of them out"
        )
        fields.refuse("start_by", "before_not_before", message)
    return earliest, latest


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_in(year: int, month: int) -> int:
    return 29 if month == 2 and _is_leap(year) else _DAYS[month - 1]


def _days_before(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to the day, by the Gregorian rule of leap years."""
    past = year - 1
    whole_years = past * 365 + past // 4 - past // 100 + past // 400 - 719_162
    return whole_years + sum(_days_in(year, each) for each in range(1, month)) + day - 1


def _offset_s(zone: str, what: str) -> int:
    if zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 14 or minutes > 59:
        raise ValueError(f"{what} must have a zone from -14:00 to +14:00; end it with Z for UTC, like {EXAMPLE}")
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


LATEST_MS = _days_before(MAX_YEAR + 1, 1, 1) * DAY_MS
"""The first instant that is too late."""
