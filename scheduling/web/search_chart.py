"""How does a search get on? The best score so far and the mean of each generation as lines, the scores side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.web.metric_words import METRIC_WORDS
from workers.evaluate_params import METRICS
from workers.search_rows import BEST, BEST_SO_FAR, FIXED, MEAN, SEARCH, TESTED

Points = Sequence[tuple[int, float]]
SERIES = (BEST_SO_FAR, MEAN)
MOST = 20_000
WIDTH, HEIGHT = 640, 240
LEFT, RIGHT, TOP, BOTTOM = 84, 24, 12, 34
DRAWN = 400  # points of a line: more are nearer to each other than a pixel
ROWS = 12  # generations in the table, the newest


def chart(series: Mapping[str, Points]) -> dict[str, Any] | None:
    """The chart of the series ``best`` and ``mean`` by generation: its lines as SVG paths, ticks, and the newest
    generations as rows; None while there is no generation to draw."""
    known = {name: list(series.get(name, ())) for name in SERIES}
    values = [value for points in known.values() for _, value in points]
    if not values:
        return None
    last = max(step for points in known.values() for step, _ in points)
    low, high = _around(min(values), max(values))
    across = max(last, 1)

    def at(step: int, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / across
        return round(x, 1), round(TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low), 1)

    lines = [{"name": name, "path": _path([at(*each) for each in _thinned(points)]), "end": at(*points[-1])}
             for name, points in known.items() if points]  # fmt: skip
    by_step = {name: dict(points) for name, points in known.items()}
    steps = sorted({step for points in known.values() for step, _ in points})
    return {
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "bottom": HEIGHT - BOTTOM,
        "lines": lines,
        "levels": [{"y": at(0, value)[1], "said": f"{value:.4g}"} for value in _ticks(low, high)],
        "ends": [{"x": at(step, low)[0], "said": str(step)} for step in _steps(last)],
        "generation": last,
        "rows": [
            {"generation": step or "before", **{name: _said(by_step[name].get(step)) for name in SERIES}}
            for step in reversed(steps[-ROWS:])
        ],
        "cut": len(steps) > ROWS,
    }  # fmt: skip


def metric_of(params: Mapping[str, Any]) -> str:
    """What the scores are, in words: the first metric asked for; where none were, the job alone knows of which kind the
    models are."""
    asked = [name for name in METRICS if name in (params["objective"].get("metrics") or ())]
    return METRIC_WORDS[asked[0]] if asked else "score"


def scores(newest: Mapping[str, float], titles: Mapping[str, str]) -> list[dict[str, str]]:
    """A row for the best, the best fixed point and each model: its scores on the search set and on the test set.
    ``newest``: the values of the series, ``titles``: what people call the models, by the names of the inputs."""
    called = {BEST: "The best", FIXED: "The best fixed values", **titles}
    return [
        {"what": words, "search": _said(newest.get(f"{SEARCH} {what}")), "test": _said(newest.get(f"{TESTED} {what}")),
         "best": "yes" if what == BEST else ""}
        for what, words in called.items()
        if f"{SEARCH} {what}" in newest or f"{TESTED} {what}" in newest
    ]  # fmt: skip


def names_of_scores(titles: Mapping[str, str]) -> list[str]:
    """The series that :func:`scores` reads."""
    return [f"{part} {what}" for what in (BEST, FIXED, *titles) for part in (SEARCH, TESTED)]


def _around(low: float, high: float) -> tuple[float, float]:
    """A little more than what is drawn, and never nothing."""
    room = (high - low) * 0.08 or abs(high) * 0.05 or 0.5
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    return [low + (high - low) * part for part in (0.1, 0.5, 0.9)]


def _steps(last: int) -> list[int]:
    return sorted({0, last // 2, last})


def _thinned(points: Points) -> Points:
    """As many as can be told apart, the last among them."""
    stride = -(-len(points) // DRAWN)
    kept = list(points[::stride])
    return kept if kept[-1] == points[-1] else [*kept, points[-1]]


def _path(places: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x} {y}" for x, y in places)


def _said(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"
