"""Charts of two tellings of the same days: bars side by side, and lines over time, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

WIDTH, BAR, GAP, LABEL, ROOM = 420, 18, 14, 110, 84
LINES, LEFT, RIGHT, TOP, BOTTOM = 190, 62, 8, 12, 30
SHORT = 14  # characters of a name beside its bars
MOST = 12  # groups of bars, and projects that have a chart of their own
Words = Callable[[float], str]


def bars(
    before: Mapping[str, Any], after: Mapping[str, Any], figure: str, words: Words, *, title: str
) -> dict[str, Any] | None:  # fmt: skip
    """A pair of bars for each group that has the figure in either telling; None where there is none."""
    names = [
        name for name in dict.fromkeys((*before, *after)) if _has(before, name, figure) or _has(after, name, figure)
    ]
    values = [(name, _value(before, name, figure), _value(after, name, figure)) for name in names[:MOST]]
    most = max((value or 0.0 for _, *pair in values for value in pair), default=0.0)
    if not most:
        return None
    rows, scale = [], (WIDTH - LABEL - ROOM) / most
    for place, (name, *pair) in enumerate(values):
        y = place * (2 * BAR + GAP)
        rows.append(
            {
                "name": name, "y": y + BAR, "short": name if len(name) <= SHORT else f"{name[: SHORT - 1]}…",
                "bars": [
                    {
                        "side": side, "y": y + BAR * number, "width": round(scale * (value or 0.0), 1),
                        "end": round(LABEL + scale * (value or 0.0) + 6, 1), "text": y + BAR * number + BAR / 2,
                        "said": "–" if value is None else words(value),
                    }
                    for number, (side, value) in enumerate(zip(("before", "after"), pair, strict=True))
                ],
            }
        )  # fmt: skip
    height = len(rows) * (2 * BAR + GAP)
    return {"title": title, "width": WIDTH, "height": height, "left": LABEL, "bar": BAR - 2, "rows": rows,
            "label": LABEL - 10, "left_out": max(0, len(names) - MOST)}  # fmt: skip


def lines(
    series: Mapping[str, Sequence[float]], words: Words, moments: Sequence[str], *, title: str, most: float = 0.0
) -> dict[str, Any] | None:
    """The series by name as lines over the same time, from 0 to at least ``most``; None without any. ``moments``: what
    stands below the begin, the middle and the end."""
    top = max([most, *(value for row in series.values() for value in row)])
    if not top:
        return None
    across, down = WIDTH - LEFT - RIGHT, LINES - TOP - BOTTOM

    def at(place: float, value: float) -> str:
        return f"{LEFT + across * place:.1f} {TOP + down * (1 - value / top):.1f}"

    paths = [
        {"name": name, "path": "M" + " L".join(at(i / max(1, len(row) - 1), value) for i, value in enumerate(row))}
        for name, row in series.items()
        if row
    ]
    levels = [{"y": round(TOP + down * (1 - part), 1), "said": words(top * part)} for part in (0.0, 0.5, 1.0)]
    ends = [
        {"x": LEFT + across * part, "said": said, "anchor": anchor}
        for part, said, anchor in zip((0.0, 0.5, 1.0), moments, ("start", "middle", "end"), strict=True)
    ]
    return {
        "title": title, "width": WIDTH, "height": LINES, "left": LEFT, "right": WIDTH - RIGHT, "label": LEFT - 8,
        "foot": LINES - 8, "paths": paths, "levels": levels, "ends": ends,
    }  # fmt: skip


def shares(before: Mapping[str, Any], after: Mapping[str, Any], moments: Sequence[str], words: Words) -> list[Any]:
    """A chart for each project: which share of all GPUs that are held it holds over time."""
    names = list(dict.fromkeys((*before["projects"], *after["projects"])))[:MOST]
    found = []
    for name in names:
        rows = {side: _share(series["projects"], name) for side, series in (("before", before), ("after", after))}
        chart = lines(rows, words, moments, title=f"Share of {name} over time", most=1.0)
        found.append({"name": name, "chart": chart})
    return found


def held(series: Mapping[str, Any], gpus: int) -> list[float]:
    """The share of the GPUs that is held, over time."""
    rows = list(series["projects"].values())
    return [sum(part) / gpus for part in zip(*rows, strict=True)] if rows and gpus else []


def _share(projects: Mapping[str, Sequence[float]], name: str) -> list[float]:
    wholes = [sum(part) for part in zip(*projects.values(), strict=True)]
    mine = projects.get(name, [0.0] * len(wholes))
    return [value / whole if whole else 0.0 for value, whole in zip(mine, wholes, strict=True)]


def _has(groups: Mapping[str, Any], name: str, figure: str) -> bool:
    return _value(groups, name, figure) is not None


def _value(groups: Mapping[str, Any], name: str, figure: str) -> float | None:
    return groups[name][figure] if name in groups else None
