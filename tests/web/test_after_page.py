"""The page of a job that waits for others, and of one that others wait for."""

from __future__ import annotations

import pytest

from scheduling.services import jobs
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def pair():
    """The lab, a job that waits for GPUs, and one that waits for it."""
    made = b.lab()
    first = b.submitted(made.who["alice"], b.command_body(name="first"))
    return made, first, b.submitted(made.who["alice"], b.command_body(name="second", after=[first]))


def page(job, who="alice"):
    return text(browser(who).get(f"/jobs/{job}/"))


def test_it_tells_what_it_waits_for_with_a_link_and_foretells_nothing(pair):
    _, first, second = pair
    html = page(second)
    assert "Waits for one job to succeed first: first (queued)" in html
    assert f'<dt>After</dt><dd><a href="/jobs/{first}/"><bdi>first</bdi></a>' in html
    assert "When it starts" not in html
    assert first not in html.split("What it is")[0].split("What was asked for")[1]  # no raw ids among what was asked


def test_the_one_before_tells_what_waits_for_it_and_what_cancelling_takes_with_it(pair):
    made, first, second = pair
    b.submitted(made.who["alice"], b.command_body(name="third", after=[second]))
    html = page(first)
    assert f'<dt>Wait for it</dt><dd><a href="/jobs/{second}/"><bdi>second</bdi></a></dd>' in html
    assert "its place in the queue is. 2 jobs that wait for it will be cancelled too." in html
    assert "1 job that waits for it will be cancelled too." in page(second)


def test_what_goes_on_after_any_end_is_not_cancelled_with_it(pair):
    made, _, second = pair
    b.submitted(made.who["alice"], b.command_body(name="third", after=[second], after_any=True))
    assert "will be cancelled too" not in page(second)


def test_any_end_is_told(pair):
    made, first, _ = pair
    job = b.submitted(made.who["alice"], b.command_body(after=[first], after_any=True))
    assert "<dt>After, however they end</dt>" in page(job)


def test_a_name_is_escaped(pair):
    made, _, _ = pair
    first = b.submitted(made.who["alice"], b.command_body(name="<b>first<i>"))
    html = page(b.submitted(made.who["alice"], b.command_body(after=[first])))
    assert "&lt;b&gt;first&lt;i&gt;" in html
    assert "<b>first<i>" not in html


def test_the_form_of_a_change_sends_along_what_it_waits_for(pair):
    made, first, second = pair
    html = text(browser().get(f"/jobs/new/command/?from={second}&replaces={second}"))
    assert first in html
    body = jobs.body_again(second, made.who["alice"])
    assert body["after"] == [first]


def test_a_job_of_another_project_is_not_named(pair):
    made, _, _ = pair
    theirs = b.submitted(made.who["bob"], b.command_body(project="beta", name="secret"))
    html = page(b.submitted(made.who["admin"], b.command_body(after=[theirs])))
    assert "a job of another project" in html
    assert "secret" not in html
