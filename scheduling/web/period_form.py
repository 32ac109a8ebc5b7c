"""Which time does a page tell of? What its address says, and times that are asked for often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from urllib.parse import urlencode

from django.http import HttpRequest

from scheduling.services.reports import period


def given(request: HttpRequest, fields: Sequence[str]) -> dict[str, str]:
    """What the address says; the zone, where it says none, is the browser's own, which a script leaves as a cookie."""
    found = {name: request.GET.get(name, "")[:200].replace("\x00", "") for name in fields}
    kept = request.COOKIES.get("zone", "")
    return found if found["zone"] or kept not in period.zones() else {**found, "zone": kept}


def zone_of(given: Mapping[str, str]) -> str:
    """The zone that is given, or UTC where there is none of that name."""
    return given["zone"] if given["zone"] in period.zones() else "UTC"


def presets(today: date, kept: Mapping[str, str]) -> list[dict[str, str]]:
    """Times that are asked for often, with what is ``kept`` of the filter that is set."""
    month = today.replace(day=1)
    before = month - timedelta(days=1)
    year = (month - timedelta(days=330)).replace(day=1)
    times = (
        ("This month", month, today), ("Last month", before.replace(day=1), before),
        ("7 days", today - timedelta(days=6), today), ("12 months", year, today),
    )  # fmt: skip
    filled = {name: value for name, value in kept.items() if value}
    return [
        {"name": name, "query": urlencode({"from": first.isoformat(), "to": last.isoformat(), **filled})}
        for name, first, last in times
    ]
