"""The forms and the pages of a job that takes the place of a waiting one."""

from __future__ import annotations

import re

import pytest

from scheduling.models import Job
from scheduling.services import jobs
from tests import builders as b
from tests.web.pages import beside, browser, form, text

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_outlook")]

NOBODYS = "There is no job that you may replace under the id that was given: this one would take nobody's place."
BOX = re.compile(r'name="replaces" value="([^"]*)">.*?<input type="checkbox" name="in_place" (checked|)[ >]', re.S)


@pytest.fixture
def world():
    lab = b.lab()
    return lab.who, lab.models, b.submitted(lab.who["alice"], b.merge_body(lab.models, name="first", gpu_count=4))


def box(html: str) -> tuple[str, bool] | None:
    """The job that the form's box names, and whether it is ticked; None for a form without one."""
    found = BOX.search(html)
    return None if found is None else (found.group(1), found.group(2) == "checked")


def test_the_page_of_a_waiting_job_links_to_the_form_that_changes_it_and_to_one_that_copies_it(world):
    _, _, job = world
    html = text(browser().get(f"/jobs/{job}/"))
    assert (
        f'href="/jobs/new/?from={job}&amp;replaces={job}" title="A changed job in the place of this one">Change' in html
    )
    assert f'href="/jobs/new/?from={job}">Clone' in html


def test_a_change_that_would_help_opens_the_form_with_the_box():
    lab = b.lab()
    b.running(lab.who["alice"], lab.models, gpu_count=2)
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, gpu_count=4))
    html = text(browser().get(f"/jobs/{job}/"))
    (link,) = re.findall(r'href="([^"]*)">Change it so', html)
    opened = text(browser().get(link.replace("&amp;", "&")))
    assert (box(opened), 'name="gpu_count" value="2"' in opened) == ((job, True), True)


@pytest.mark.parametrize("columns", [{"attempt_number": 1}, {"state": "RUNNING", "attempt_number": 1}])
def test_a_job_that_has_run_is_offered_no_change_in_its_place(world, columns):
    _, _, job = world
    Job.objects.filter(pk=job).update(**columns)
    assert "replaces=" not in text(browser().get(f"/jobs/{job}/"))


def test_a_change_of_a_job_that_has_run_opens_a_copy():
    lab = b.lab()
    b.running(lab.who["alice"], lab.models, gpu_count=2)
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, gpu_count=4))
    Job.objects.filter(pk=job).update(attempt_number=1)
    page = text(browser().get(f"/jobs/{job}/"))
    (link,) = re.findall(r'href="([^"]*)">Submit it so beside this one', page)
    opened = text(browser().get(link.replace("&amp;", "&")))
    assert ("Change it so" in page, box(opened)) == (False, None)
    assert "has run before, so nothing can take its place: it keeps waiting beside this one" in opened
    assert "To have this one alone, cancel it on the page of that one." in opened


@pytest.mark.parametrize(("columns", "says"), [
    ({}, "keeps waiting beside this one, which is another job. To have this one alone, choose Change on"),
    ({"state": "RUNNING", "attempt_number": 1}, "has started and goes on beside this one"),
    ({"state": "CANCELLED", "ended_at": b.NOON}, None),
])  # fmt: skip
def test_a_copy_says_what_becomes_of_the_job_that_it_is_of(world, columns, says):
    _, _, job = world
    Job.objects.filter(pk=job).update(**columns)
    html = text(browser().get(f"/jobs/new/?from={job}"))
    assert ('name="copy_of"' in html, (says or "") in html) == (says is not None, True)


def test_what_is_said_of_the_copied_job_stays_when_the_form_is_sent(world):
    _, models, job = world
    html = text(browser().post("/jobs/new/", form(models, copy_of=job, gpu_count="0")))
    assert "keeps waiting beside this one" in html


def test_the_form_for_a_job_that_has_started_since_its_page_was_read_has_no_box(world):
    _, _, job = world
    Job.objects.filter(pk=job).update(state="RUNNING", attempt_number=1)
    html = text(browser().get(f"/jobs/new/?from={job}&replaces={job}"))
    assert (box(html), "has started and goes on beside this one" in html) == (None, True)


def test_the_form_for_a_job_that_was_replaced_names_the_newest_in_its_place(world):
    who, models, job = world
    newest = job
    for name in ("second", "third"):
        newest = b.submitted(who["alice"], b.merge_body(models, name=name, gpu_count=4, replaces=newest))
    html = text(browser().get(f"/jobs/new/?from={job}&replaces={job}"))
    assert (box(html), f'<a href="/jobs/{newest}/"><bdi>third</bdi></a>, which has its place' in html) == (None, True)


def test_a_copy_has_no_box(world):
    _, _, job = world
    assert box(text(browser().get(f"/jobs/new/?from={job}"))) is None


def test_the_box_is_there_in_the_form_of_programs_too():
    who = b.lab().who
    job = b.submitted(who["alice"], b.command_body(name="first"))
    html = text(browser().get(f"/jobs/new/?from={job}&replaces={job}", follow=True))
    assert (box(html), "In place of <bdi>first</bdi>" in html) == ((job, True), True)


def test_sent_with_the_box_ticked_it_takes_the_place_and_both_pages_say_so(world):
    _, models, job = world
    client = browser()
    place = client.post("/jobs/new/", form(models, name="second", replaces=job, in_place="on"))["Location"]
    new = Job.objects.get(replaces=job)
    assert place == f"/jobs/{new.pk}/"
    told = f'<dt>In place of</dt><dd><a href="/jobs/{job}/"><bdi>first</bdi></a>, whose place in the queue it has</dd>'
    assert told in text(client.get(place))
    old = text(client.get(f"/jobs/{job}/"))
    assert f'<dt>Replaced by</dt><dd><a href="/jobs/{new.pk}/"><bdi>second</bdi></a></dd>' in old
    assert "Cancelled before it started: another job took its place." in old


def test_a_new_place_is_said_on_the_page(world):
    _, models, job = world
    filled = form(models, replaces=job, in_place="on", max_duration="2h")
    html = text(browser().post("/jobs/new/", filled, follow=True))
    assert "<bdi>first</bdi></a>, at a new place in the queue</dd>" in html
    assert "at a new place in the queue: it asks for 2 h instead of 1 h" in html


def test_sent_with_the_box_unticked_both_wait(world):
    _, models, job = world
    browser().post("/jobs/new/", form(models, replaces=job))
    assert list(Job.objects.values_list("state", "replaces")) == [("QUEUED", None)] * 2


def test_what_is_wrong_is_told_with_the_box_as_it_was(world):
    _, models, job = world
    for ticked in ({"in_place": "on"}, {}):
        html = text(browser().post("/jobs/new/", form(models, replaces=job, gpu_count="0", **ticked)))
        assert (box(html), Job.objects.get(pk=job).state) == ((job, bool(ticked)), "QUEUED")


def test_a_job_that_has_started_meanwhile_is_told_beside_the_box(world):
    _, models, job = world
    Job.objects.filter(pk=job).update(state="RUNNING", attempt_number=1)
    response = browser().post("/jobs/new/", form(models, replaces=job, in_place="on"))
    told = beside(text(response), "replaces")
    assert (response.status_code, f"job {job} has started: cancel it first" in told) == (422, True)
    assert "untick In place of to have it beside what there is" in told


def test_a_refused_one_is_mended_with_the_box(world):
    who, models, job = world
    refused = jobs.submit(b.merge_body(models, gpu_count=0, replaces=job), who["alice"], b.NOON)
    assert box(text(browser().get(f"/jobs/new/?from={refused.job_id}"))) == (job, True)


@pytest.mark.parametrize("given", ["x", "", "5f0f7f0e-0000-4000-8000-000000000000' onx='"])
def test_an_address_that_names_no_job_opens_the_form_without_the_box(world, given):
    _, _, job = world
    assert box(text(browser().get("/jobs/new/", {"from": job, "replaces": given}))) is None


def test_a_job_of_another_project_has_no_box_as_if_it_were_none(world):
    who, _, job = world
    theirs = b.submitted(who["bob"], b.command_body(project="beta", name="secret"))
    html = text(browser().get("/jobs/new/", {"from": job, "replaces": theirs}))
    assert ("secret" in html, box(html), NOBODYS in html) == (False, None, True)


def test_an_id_that_no_job_has_is_offered_no_place_and_said_to_have_none(world):
    _, _, job = world
    html = text(browser().get("/jobs/new/", {"from": job, "replaces": "6f1c2d9e-0000-4000-8000-000000000000"}))
    assert ("6f1c2d9e" in html, box(html), NOBODYS in html) == (False, None, True)
    assert "keeps waiting beside this one" in html


@pytest.mark.parametrize(("limit", "says"), [
    ("1h", "first would be cancelled for it, and it would stand at its place in the queue."),
    ("2h", "first would be cancelled for it, and it would stand at a new place: it asks for 2 h instead of 1 h."),
])  # fmt: skip
def test_the_plan_says_whose_place_it_would_take(world, limit, says):
    _, models, job = world
    filled = form(models, replaces=job, in_place="on", max_duration=limit)
    assert says in text(browser().post("/jobs/new/plan/", filled, headers={"HX-Request": "true"}))


def test_the_box_of_a_held_job_says_that_this_one_will_be_held_too(world):
    who, _, job = world
    told = "That job is held, and so this one will be until it is released."
    pages = []
    for _ in range(2):
        pages.append(told in text(browser().get(f"/jobs/new/?from={job}&replaces={job}")))
        jobs.hold(job, who["alice"], b.NOON)
    assert pages == [False, True]


def test_the_plan_in_the_place_of_a_held_job_says_that_it_would_be_held(world):
    who, models, job = world
    jobs.hold(job, who["alice"], b.NOON)
    html = text(browser().post("/jobs/new/plan/", form(models, replaces=job, in_place="on")))
    assert "It would be held as that job is; what is told here holds once it is released." in html


def test_the_plan_of_what_would_be_refused_says_that_the_other_job_stays(world):
    _, models, job = world
    html = text(browser().post("/jobs/new/plan/", form(models, replaces=job, in_place="on", gpu_count="4000")))
    assert "first would stay where it is, as nothing is cancelled for a job that is refused." in html


def test_the_plan_without_the_box_speaks_of_no_place(world):
    _, models, job = world
    html = text(browser().post("/jobs/new/plan/", form(models, replaces=job)))
    assert ("would be cancelled for it" in html, box(html)) == (False, (job, False))
