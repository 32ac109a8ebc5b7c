"""What people write is shown as they wrote it, and never run."""

from __future__ import annotations

import html as entities

import pytest

from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
NAMES = [
    "<script>alert(1)<script>",
    '"><img src=x onerror=alert(1)>',
    "🚀 rocket",
    "اختبار",
    "{{ 7*7 }}",
    "' onclick='x",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_escaped_on_every_page_that_shows_it(name):
    alice = b.people()["alice"]
    b.node("n1")
    models = [b.model(alice, "a", 1), b.model(alice, "b", 2)]
    run = b.running(alice, models, name=name)
    client = browser()
    for page in ("/", "/jobs/", f"/jobs/{run.job}/", f"/jobs/new/?from={run.job}", "/nodes/n1/"):
        shown = text(client.get(page))
        assert entities.escape(name) in shown
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown


def test_a_log_and_an_error_are_escaped():
    alice = b.people()["alice"]
    b.node("n1")
    run = b.running(alice, [b.model(alice, "a", 1), b.model(alice, "b", 2)])
    evil = "<script>alert(2)</script>"
    b.beat(reports=[{"type": "logs", "attempt": run.attempt, "epoch": run.epoch, "offset": 0, "text": evil}])
    b.finished(run, "FAILED", exit_code=1, error=evil)
    assert evil not in text(browser().get(f"/jobs/{run.job}/"))


def test_a_search_is_escaped_where_it_is_repeated():
    b.people()
    assert "<script>x" not in text(browser().get("/jobs/", {"q": '"><script>x'}))


@pytest.mark.parametrize("page", ["/", "/jobs/", "/jobs/new/", "/account/", "/login/"])
def test_no_page_has_inline_script_or_style(page):
    b.people()
    shown = text(browser().get(page))
    assert "<style" not in shown
    assert "style=" not in shown
    assert "<script>" not in shown
    assert " onclick=" not in shown
