"""The page of a search draws its best and mean scores by generation, and has both sets side by side."""

from __future__ import annotations

import html as entities
import re
from uuid import uuid4

import pytest

from scheduling.models import Attempt, Job, MetricPoint
from scheduling.web import search_chart
from scheduling.web.search_chart import BOTTOM, DRAWN, HEIGHT, LEFT, RIGHT, ROWS, TOP, WIDTH
from tests import builders as b
from tests.web.pages import browser, text


def places(drawn, name: str) -> list[tuple[float, float]]:
    """Where the line of that name goes."""
    (path,) = [line["path"] for line in drawn["lines"] if line["name"] == name]
    return [tuple(map(float, pair.split())) for pair in path[1:].split(" L")]


def test_a_line_goes_from_the_first_generation_on_the_left_to_the_last_on_the_right_and_higher_is_higher():
    drawn = search_chart.chart({"best": [(0, 0.5), (1, 0.6), (2, 0.9)], "mean": [(1, 0.4), (2, 0.5)]})
    best = places(drawn, "best")
    assert [x for x, _ in best] == [LEFT, LEFT + (WIDTH - LEFT - RIGHT) / 2, WIDTH - RIGHT]
    assert best[0][1] > best[1][1] > best[2][1] >= TOP
    assert max(y for _, y in places(drawn, "mean")) <= HEIGHT - BOTTOM
    assert places(drawn, "mean")[0][0] == best[1][0]


def test_the_levels_are_numbers_of_the_scale_from_low_to_high():
    drawn = search_chart.chart({"best": [(0, 10.0), (1, 20.0)]})
    said = [float(level["said"]) for level in drawn["levels"]]
    assert said == sorted(said)
    assert 9 < said[0] < said[-1] < 21
    assert [level["y"] for level in drawn["levels"]] == sorted((level["y"] for level in drawn["levels"]), reverse=True)


@pytest.mark.parametrize("value", [0.0, 0.875, -3.0, 1e-9, 1e300])
def test_one_score_alone_and_equal_scores_can_be_drawn(value):
    for points in ([(0, value)], [(0, value), (1, value)]):
        drawn = search_chart.chart({"best": points})
        assert all(TOP <= y <= HEIGHT - BOTTOM for _, y in places(drawn, "best"))


def test_without_a_generation_there_is_no_chart():
    assert search_chart.chart({}) is None
    assert search_chart.chart({"best": [], "mean": []}) is None


def test_a_long_search_is_drawn_by_some_hundred_points_with_its_last_one():
    drawn = search_chart.chart({"best": [(n, float(n)) for n in range(9_999)]})
    assert len(places(drawn, "best")) <= DRAWN + 1
    assert places(drawn, "best")[-1][0] == WIDTH - RIGHT
    assert (len(drawn["rows"]), drawn["cut"], drawn["rows"][0]["generation"]) == (ROWS, True, 9_998)


def test_the_rows_are_the_newest_generations_and_the_zeroth_is_what_was_before():
    drawn = search_chart.chart({"best": [(0, 0.5), (1, 0.625)], "mean": [(1, 0.25)]})
    assert drawn["rows"] == [
        {"generation": 1, "best": "0.625", "mean": "0.25"}, {"generation": "before", "best": "0.5", "mean": "–"},
    ]  # fmt: skip


@pytest.fixture
def searching(db):
    """A search that has an attempt, and the attempt's id."""
    lab = b.lab()
    for seed, name in enumerate(("one", "<two>")):
        b.mlp(lab.who["alice"], name, seed, sizes=(4, 3))
    b.dataset(lab.who["alice"], "search", content=b"a")
    b.dataset(lab.who["alice"], "test", content=b"b")
    params = {"test": {"dataset": "test"}, "objective": {"dataset": "search", "metrics": ["accuracy"]}}
    job = b.submitted(lab.who["alice"], b.evolve_body(["one", "<two>"], "search", params=params))
    b.ticked()
    return Job.objects.get(pk=job)


def told(job: Job, *points: tuple[str, int, float], attempt: Attempt | None = None) -> None:
    at = attempt or Attempt.objects.get(job=job)
    for name, step, value in points:
        MetricPoint.objects.create(attempt=at, name=name, step=step, value=value)


def page(job: Job) -> str:
    return text(browser().get(f"/jobs/{job.pk}/"))


def test_before_anything_was_told_the_place_of_the_chart_is_empty(searching):
    found = page(searching)
    assert '<div id="search">' in found, "the page's script draws it there"
    assert "The search</h2>" not in found


def test_the_page_draws_both_lines_says_what_they_are_and_has_the_numbers(searching):
    told(searching, ("best", 0, 0.5), ("mean", 0, 0.25), ("best", 1, 0.75), ("mean", 1, 0.625))
    found = page(searching)
    assert len(re.findall(r'<path class="(?:best|mean)" d="M[0-9. L]+"/>', found)) == 2
    assert "The best accuracy so far and the mean of each generation, up to generation 1</title>" in found
    assert '<th scope="row">1</th><td>0.75</td><td>0.625</td>' in found
    assert "What it measured" not in found


def test_search_and_test_stand_side_by_side_by_the_names_of_the_models(searching):
    told(searching, ("search best", 44, 0.9), ("test best", 44, 0.8), ("search fixed", 44, 0.85),
         ("test fixed", 44, 0.75),
         ("search model-0", 44, 0.5), ("test model-0", 44, 0.25), ("search model-1", 44, 0.125))  # fmt: skip
    found = page(searching)
    rows = re.findall(r'<tr><th scope="row"><bdi>(.*?)</bdi></th><td>(.*?)</td><td>(.*?)</td></tr>', found)
    assert [tuple(map(entities.unescape, row)) for row in rows] == [
        ("The best", "<b>0.9</b>", "<b>0.8</b>"), ("The best fixed values", "0.85", "0.75"), ("one", "0.5", "0.25"),
        ("<two>", "0.125", "–"),
    ]  # fmt: skip
    assert "<h3>Accuracy on both sets</h3>" in found


def test_of_a_generation_that_two_attempts_told_the_latest_counts(searching):
    told(searching, ("best", 0, 0.5), ("best", 1, 0.6))
    first = Attempt.objects.get(job=searching)
    again = Attempt.objects.get(job=searching)
    again.pk, again.number, again.epoch, again.ended_at = uuid4(), 2, 99, b.NOON
    again.save(force_insert=True)
    told(searching, ("best", 1, 0.75), ("best", 2, 0.875), attempt=again)
    assert first.pk != again.pk
    found = page(searching)
    assert re.findall(r'<th scope="row">(\w+)</th><td>([0-9.]+)</td>', found) == [
        ("2", "0.875"), ("1", "0.75"), ("before", "0.5"),
    ]  # fmt: skip
