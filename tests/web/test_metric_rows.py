"""What a job has measured stands on its page: the newest value of each series."""

from __future__ import annotations

import html as entities
import re
from uuid import uuid4

import pytest

from scheduling.models import Attempt, Job, MetricPoint
from scheduling.store.queries import series
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def point(attempt: str, name: str, step: int, value: float) -> None:
    MetricPoint.objects.create(attempt_id=attempt, name=name, step=step, value=value)


def told(job: str) -> list[str]:
    """Each row under the heading, in words."""
    page = text(browser().get(f"/jobs/{job}/"))
    found = re.search(r"<h2>What it measured</h2>\s*<dl>(.*?)</dl>", page, re.S)
    rows = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", found.group(1), re.S) if found else []
    return [entities.unescape(re.sub(r"<[^>]+>", "", f"{word}: {value}")) for word, value in rows]


@pytest.mark.parametrize(
    ("body", "step", "points", "rows"),
    [
        (b.evaluate_body, 538, {"loss": 0.40681234, "accuracy": 0.87732342, "not_finite": 2.0},
         ["Accuracy: 0.877323 of 538 samples", "Loss: 0.406812 of 538 samples",
          "Losses that are no numbers: 2 of 538 samples"]),
        (b.infer_body, 538_000, {"not_finite": 2.0, "bad_rows": 1.0, "new_tokens": 17_216_000.0},
         ["New tokens: 17,216,000 of 538,000 rows", "Rows that could not be read: 1 of 538,000 rows",
          "Rows without a finite result: 2 of 538,000 rows"]),
    ],
    ids=["evaluate", "infer"],
)  # fmt: skip
def test_what_came_of_samples_or_rows_is_told_in_its_order_with_their_number(body, step, points, rows):
    lab = b.lab()
    model, data = b.mlp(lab.who["alice"], "net", sizes=(4, 3)), b.dataset(lab.who["alice"], "tests")
    job = b.submitted(lab.who["alice"], body(model, data))
    b.ticked()
    attempt = str(Attempt.objects.get(job_id=job).pk)
    for name, value in points.items():
        point(attempt, name, step, value)
    assert told(job) == rows


def test_of_a_program_each_series_newest_value_is_told_with_its_step():
    _, run = b.busy_lab()
    for step, value in ((10, 0.5), (20, 0.25), (15, 9.0)):
        point(run.attempt, "val_loss", step, value)
    point(run.attempt, "<b>lr", 3, 1e-4)
    assert told(run.job) == ["<b>lr: 0.0001 at step 3", "val_loss: 0.25 at step 20"]


def test_of_a_step_that_two_attempts_have_told_the_latest_counts():
    _, run = b.busy_lab()
    again = Attempt.objects.get(pk=run.attempt)
    again.pk, again.number, again.epoch, again.ended_at = uuid4(), 2, 99, b.NOON
    again.save(force_insert=True)
    point(str(again.pk), "loss", 4, 2.0)
    point(run.attempt, "loss", 4, 1.0)
    assert series.newest(Job.objects.get(pk=run.job), 5) == [{"name": "loss", "step": 4, "value": 2.0}]


def test_a_job_that_has_measured_nothing_has_no_such_heading():
    _, run = b.busy_lab()
    assert "What it measured" not in text(browser().get(f"/jobs/{run.job}/"))


def test_of_very_many_series_the_first_are_told(django_assert_num_queries):
    _, run = b.busy_lab()
    for n in range(40):
        point(run.attempt, f"m{n:02}", 1, float(n))
    assert told(run.job)[-1] == "m23: 23 at step 1"
    with django_assert_num_queries(2):
        series.newest(Job(pk=run.job), 24)
