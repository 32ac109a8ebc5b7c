"""A report as a picture: bars of GPU-hours by project, and lines of how much was held and how busy it was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 84, 12, 12, 30  # on a phone "100 %" takes all of the left
COLOURS = 6  # the last of them is for all others together
LABELS = 5
OTHERS = "others"


def bars(
    labels: Sequence[str], series: Mapping[str, Sequence[float]], *, due: Mapping[str, float] | None = None
) -> dict[str, Any] | None:
    """Bars of ``labels``, each the stack of its number in every series (GPU-hours); the largest series lie below, and
    those that have no colour of their own are one. None where there is nothing to draw.

    ``due``: the numbers are percents of a whole, and this is how high each series should be: where one should end and
    the next begin there is a mark.
    """
    ranked = sorted(series.items(), key=lambda each: (-sum(each[1]), each[0]))
    if not ranked or not sum(ranked[0][1]):
        return None
    shown = ranked if len(ranked) <= COLOURS else ranked[: COLOURS - 1]
    rest = [sum(column) for column in zip(*(values for _, values in ranked[len(shown) :]), strict=True)]
    if rest:
        shown = [*shown, (OTHERS, rest)]
    most = max(sum(column) for column in zip(*(values for _, values in shown), strict=True))
    high, unit, short = (round_up(most), " GPU-hours", "") if due is None else (100.0, " %", " %")
    wide = (WIDTH - LEFT - RIGHT) / len(labels)
    drawn, floor = [], [0.0] * len(labels)
    for number, (name, values) in enumerate(shown):
        for place, value in enumerate(values):
            if value <= 0:
                continue
            top, bottom = height_of(floor[place] + value, high), height_of(floor[place], high)
            floor[place] += value
            drawn.append(
                {"colour": number, "x": round(LEFT + wide * (place + 0.1), 2), "y": round(top, 2),
                 "width": round(wide * 0.8, 2), "height": round(max(bottom - top, 0.4), 2),
                 "said": f"{labels[place]}, {name}: {value:,.2f}{unit}"}
            )  # fmt: skip
    return {
        **_frame(labels), "bars": drawn, "levels": levels(high, short), "marks": _marks(ranked, due or {}),
        "keys": [{"colour": number, "name": name} for number, (name, _) in enumerate(shown)],
    }  # fmt: skip


def _marks(ranked: Sequence[tuple[str, Sequence[float]]], due: Mapping[str, float]) -> list[dict[str, Any]]:
    """Where each of the series that have a colour should end, but for the one at the top."""
    marks, floor = [], 0.0
    for name, _ in ranked[: COLOURS - 1]:
        floor += due.get(name, 0.0)
        if 0.0 < floor < 99.99:
            marks.append({"y": round(height_of(floor, 100.0), 2), "said": f"{name}: {due[name]:.1f} % due by weight"})
    return marks


def lines(labels: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> dict[str, Any] | None:
    """Lines over ``labels``, 0 to 100 %; where a series has None its line has a gap. None where there is nothing."""
    wide = (WIDTH - LEFT - RIGHT) / len(labels)
    drawn = []
    for name, values in series.items():
        dots = [
            (round(LEFT + wide * (place + 0.5), 2), round(height_of(value, 100.0), 2))
            for place, value in enumerate(values)
            if value is not None
        ]
        if dots:
            drawn.append({"name": name, "path": _path(values, wide), "dots": dots if len(dots) <= 62 else []})
    if not drawn:
        return None
    return {**_frame(labels), "lines": drawn, "levels": levels(100.0, " %")}


def _path(values: Sequence[float | None], wide: float) -> str:
    parts, down = [], False
    for place, value in enumerate(values):
        if value is None:
            down = False
            continue
        parts.append(f"{'L' if down else 'M'}{LEFT + wide * (place + 0.5):.2f} {height_of(value, 100.0):.2f}")
        down = True
    return " ".join(parts)


def _frame(labels: Sequence[str]) -> dict[str, Any]:
    wide = (WIDTH - LEFT - RIGHT) / len(labels)
    count = min(LABELS, len(labels))
    places = sorted({round(n * (len(labels) - 1) / max(1, count - 1)) for n in range(count)})
    ends = [{"x": round(LEFT + wide * (place + 0.5), 2), "said": labels[place], "anchor": "middle"} for place in places]
    if len(ends) > 1:
        ends[-1] |= {"x": WIDTH - RIGHT, "anchor": "end"}
        ends[0] |= {"x": LEFT, "anchor": "start"}
    return {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM, "ends": ends,
    }  # fmt: skip


def levels(high: float, unit: str) -> list[dict[str, Any]]:
    """The lines across at nothing, the half and ``high``, with what they say."""
    return [{"y": round(height_of(high * part, high), 2), "said": f"{high * part:,g}{unit}"} for part in (0, 0.5, 1)]


def height_of(value: float, high: float) -> float:
    """Where a value lies, down from the top of the picture whose frame ends at ``high``."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / high)


def round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... from the value on."""
    step = 10.0 ** math.floor(math.log10(value))
    return next(step * part for part in (1, 2, 5, 10) if step * part >= value)
