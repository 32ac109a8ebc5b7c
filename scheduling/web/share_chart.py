"""What was on accounts as lines over time, against the target, and dotted how it goes on if nothing new starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from scheduling.web import report_chart

WIDTH, HEIGHT = report_chart.WIDTH, report_chart.HEIGHT
LEFT, RIGHT, TOP, BOTTOM = report_chart.LEFT, report_chart.RIGHT, report_chart.TOP, report_chart.BOTTOM

Points = Sequence[tuple[datetime, float]]
"""Instants and percents of the target."""


class Line(NamedTuple):
    """The points that have been, and those that are foreseen: these begin where the others end, or there are none."""

    past: Points
    foreseen: Points


def accounts(lines: Mapping[str, Line], colours: Mapping[str, int], *, zone: str = "UTC") -> dict[str, Any] | None:
    """The lines that have a colour, 0 to at least 100 %, which has a line of its own; None where there is nothing to
    draw. The days at its ends are those of the zone."""
    shown = {name: line for name, line in lines.items() if name in colours and (line.past or line.foreseen)}
    points = [point for line in shown.values() for point in (*line.past, *line.foreseen)]
    if not points:
        return None
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    high = report_chart.round_up(max(100.0, *(value for _, value in points)))
    span = max((last - first).total_seconds(), 1.0)

    def place(at: datetime, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * (at - first).total_seconds() / span
        return f"{x:.2f} {report_chart.height_of(value, high):.2f}"

    def path(points: Points) -> str:
        return " ".join(f"{'L' if n else 'M'}{place(*point)}" for n, point in enumerate(points))

    now = max((line.foreseen[0][0] for line in shown.values() if line.foreseen), default=None)
    return {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM,
        "levels": report_chart.levels(high, " %"),
        "target": round(report_chart.height_of(100.0, high), 2),
        "now": None if now is None else place(now, 0.0).split()[0],
        "lines": [
            {"name": name, "colour": colours[name], "past": path(line.past), "foreseen": path(line.foreseen)}
            for name, line in shown.items()
        ],
        "first": first.astimezone(ZoneInfo(zone)).date(), "last": last.astimezone(ZoneInfo(zone)).date(),
    }  # fmt: skip
