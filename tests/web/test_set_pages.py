"""Pipelines and sweeps on the pages: a job says which it is of, and the list shows one alone."""

from __future__ import annotations

import pytest

from scheduling.models import Job
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("kind", "called"), [("pipeline", "as a"), ("sweep", "number 1")])
def test_a_job_links_to_the_list_of_its_set_which_shows_no_other(kind, called):
    alice = b.lab().who["alice"]
    b.submitted(alice, b.command_body(name="alone"))
    set_id = b.a_set(alice, kind)
    job = Job.objects.filter(member_of=set_id).order_by("place_in_set").first()
    html = text(browser().get(f"/jobs/{job.pk}/"))
    assert f'<a href="/jobs/?{kind}={set_id}"><code>{set_id}</code></a>, {called}' in html
    page = text(browser().get(f"/jobs/?{kind}={set_id}"))
    assert (page.count("<tr data-job="), "alone" in page) == (2, False)
    assert f"Only the jobs of {kind} <code>{set_id}</code>" in page
    assert f'<input type="hidden" name="{kind}" value="{set_id}">' in page


def test_a_set_of_another_project_shows_nothing():
    set_id = b.a_set(b.lab().who["alice"], "sweep")
    assert "<tr data-job=" not in text(browser("bob").get(f"/jobs/?sweep={set_id}"))


def test_an_id_that_is_none_is_refused_and_escaped():
    b.people()
    answer = browser().get("/jobs/?sweep=<script>")
    assert answer.status_code == 400
    assert "weep must be the id of a sweep" in text(answer)
    assert "<script>'" not in text(answer)


def test_what_is_kept_back_says_so():
    from scheduling.services import sweeps

    alice = b.lab().who["alice"]
    sent = {"job": b.command_body(), "over": {"gpu_count": [1, 2]}, "max_running": 1}
    made = sweeps.submit(sent, alice, b.NOON)
    job = Job.objects.get(member_of=made.set_id, key="2")
    html = text(browser().get(f"/jobs/{job.pk}/"))
    assert "Waits for jobs of its sweep, of which at most 1 may run at a time, to end first" in html
    assert "When it starts" not in html
