"""A waiting job's page: why it waits, when it starts, what would help; and the form's preview of the same."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from django.template.loader import render_to_string

from scheduling.core.plan import Reason
from scheduling.models import Queue
from scheduling.services import jobs, pool, whatif, windows
from scheduling.services.outlook import Foretold, Span
from scheduling.services.reasons import plain
from scheduling.web import outlook_words
from scheduling.web.job_words import cause
from tests import builders as b
from tests.web.pages import beside, browser, form, text

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def at_noon(monkeypatch, no_outlook):
    """The pages' clock stands at noon, and no outlook is kept from the test before."""
    for module in ("job", "submit", "share"):
        monkeypatch.setattr(f"scheduling.web.{module}.now", lambda: b.NOON)


@pytest.fixture
def world():
    lab = b.lab()
    who = lab.who
    who["models"] = lab.models
    return who


def waits(world, **kw) -> str:
    """A job that waits behind one of alpha with 2 of the 4 GPUs for an hour."""
    b.running(world["alice"], world["models"], gpu_count=2, name="in-the-way")
    job = b.submitted(world["alice"], b.merge_body(world["models"], **{"gpu_count": 4, **kw}))
    b.ticked()
    return job


def page(job, name="alice") -> str:
    return " ".join(text(browser(name).get(f"/jobs/{job}/")).split())


def test_the_page_says_why_when_and_what_would_help(world):
    html = page(waits(world))
    assert "Needs 4 GPUs in one NVLink group; 2 suitable free." in html
    assert '<p class="at"><time datetime="2026-03-02T13:00:00+00:00"' in html
    assert "With at most 2 GPUs it would start now." in html


def test_the_page_tells_the_rank_and_the_reservation(world):
    html = page(waits(world))
    assert "place 1" in html
    assert "It is the first in the queue and it holds a reservation." in html
    assert (
        "Its GPUs are kept from every job behind it: it starts sooner when what runs on them ends before its time "
        "limit, and later only through a fault or a job of higher priority, or of the same priority whose owner has "
        "used less of his share, even one submitted later. After 1d of waiting GPUs are kept for it from the jobs "
        "behind it whatever its rank, if it is among those that wait longest."
    ) in html


def test_where_nothing_is_kept_for_who_waits_long_the_page_promises_no_such_thing(world):
    queue = {"promised": True, "rank": 1}
    told = outlook_words.foretold(Foretold(span(60, 60, 60), **queue), "job", {}, now=b.NOON)
    assert "of waiting" not in told["assumes"]


def test_the_page_names_the_jobs_in_the_way(world):
    found = r'At the soonest on n1, once <a href="/jobs/[0-9a-f-]+/"><bdi>in-the-way</bdi></a> has left\.'
    assert re.search(found, page(waits(world)))


def test_a_job_of_another_project_in_the_way_has_no_name(world):
    b.running(world["alice"], world["models"], gpu_count=2, name="secret")
    theirs = [b.model(world["bob"], "c", 3, project="beta"), b.model(world["bob"], "d", 4, project="beta")]
    job = b.submitted(world["bob"], b.merge_body(theirs, project="beta", gpu_count=4))
    html = page(job, "bob")
    assert "At the soonest on n1, once 1 job of another project has left." in html
    assert "secret" not in html


def test_the_link_of_a_change_leads_to_the_form_with_it(world):
    job = waits(world)
    link = re.search(r'<a class="once" href="(/jobs/new/\?[^"]+)">', page(job)).group(1).replace("&amp;", "&")
    html = text(browser().get(link))
    assert 'name="gpu_count" value="2"' in html
    assert 'name="max_duration" value="1h"' in html


def test_a_change_of_nvlink_unticks_its_box(world):
    job = waits(world)
    html = text(browser().get(f"/jobs/new/?from={job}&nvlink_required=False"))
    assert 'name="nvlink_required" >' in html


def test_a_later_latest_start_and_several_nodes_are_filled_in(world):
    html = text(browser().get(f"/jobs/new/?from={waits(world)}&start_by=2026-03-02T13:01:00Z&allow_span=True"))
    assert 'name="start_by" value="2026-03-02T13:01:00Z"' in html
    assert 'name="allow_span" checked' in html


def test_the_page_says_how_many_gpus_a_change_leaves_and_what_else_it_gives_up(world):
    for name in ("n2", "n3"):
        b.node(name, rack="r2", wide="of two nodes")
    b.running(world["alice"], world["models"], gpu_count=4)
    b.running(world["alice"], world["models"], gpu_count=4, node="n2")
    body = b.command_body(gpu_count=8, node_count=2, required_level="rack", max_wait_for_level="1h")
    html = page(b.submitted(world["alice"], body))
    assert (
        "With at most 1 node, so 4 GPUs instead of 8, and without the need for one rack or NVLink group and the time "
        "to hold out, it would start now."
    ) in html


def test_a_job_that_would_leave_is_offered_a_later_latest_start(world):
    html = page(waits(world, start_by="2026-03-02T12:30:00Z"))
    assert (
        'With a latest start of <time datetime="2026-03-02T13:01:00+00:00" class="when">2 Mar 2026, 13:01 UTC</time> '
        "or later it would start in 1h if nothing else comes and all runs to its time limit."
    ) in html
    assert "start_by=2026-03-02T13%3A01%3A00Z" in html
    assert "reservation" not in html


def test_a_change_in_the_address_can_only_be_one_of_the_form(world):
    html = text(browser().get(f"/jobs/new/?from={waits(world)}&name=other&priority=Low"))
    assert 'value="slerp-a-b"' in html


def test_a_held_job_says_why_and_foretells_nothing(world):
    job = waits(world)
    jobs.hold(job, world["alice"], b.NOON)
    html = page(job)
    assert "Held: it does not start until it is released." in html
    assert "When it starts" not in html


def test_a_job_with_a_time_of_its_own_waits_for_that(world):
    job = b.submitted(world["alice"], b.merge_body(world["models"], not_before="2026-03-02T14:00:00Z"))
    b.ticked()
    html = page(job)
    assert re.search(
        r'wants it to start on <time datetime="2026-03-02T14:00:00\+00:00"[^>]*>2 Mar 2026, 14:00 UTC', html
    )
    assert "it waits for its time, not for GPUs" in html


def test_a_job_that_waits_for_gpus_past_its_own_time_is_not_told_that_it_waits_for_its_time(world):
    b.running(world["alice"], world["models"], gpu_count=4)
    job = b.submitted(world["alice"], b.merge_body(world["models"], not_before="2026-03-02T12:30:00Z"))
    b.ticked()
    html = page(job)
    assert '<p class="at"><time datetime="2026-03-02T13:00:00+00:00"' in html
    assert "not for GPUs" not in html


def test_a_job_without_a_place_in_the_pool_has_no_start_in_sight(world):
    job = b.submitted(world["alice"], b.merge_body(world["models"]))
    pool.operate("n1", "cordon", world["admin"], b.NOON)
    html = page(job)
    assert "No start in sight" in html
    assert "nodes or GPUs must come, or come back, first" in html


def test_a_job_that_starts_with_the_next_pass_says_now(world):
    job = b.submitted(world["alice"], b.merge_body(world["models"]))
    assert '<p class="at">Now</p>' in page(job)


def test_a_reason_is_told_without_what_stands_beside_it():
    numbers = (("need", 4), ("earliest_at_ms", 7), ("gpus_at_most", 2), ("held_for", "x"), ("first", "y"))
    told = cause(plain(Reason("BUSY", "Too few. It would start now with at most 2 GPUs.", numbers)), {"x": "mine"})
    assert told["message"] == "Too few."
    assert [(pair["word"], pair["value"]) for pair in told["pairs"]] == [
        ("needs", 4), ("held for", "mine"), ("the first of them", "a job of another project"),
    ]  # fmt: skip


@pytest.mark.parametrize("seconds", [16, 30, 59])
def test_a_start_within_the_minute_that_is_not_the_next_pass_tells_the_instant(world, seconds):
    later = b.later(seconds).isoformat()
    job = b.submitted(world["alice"], b.merge_body(world["models"], not_before=later))
    html = page(job)
    assert f'<p class="at"><time datetime="{later}"' in html
    assert '<p class="at">Now</p>' not in html


def heading(found: Span) -> str:
    """The start as the page tells it, seconds from noon for instants."""
    told = " ".join(render_to_string("parts/when.html", {"when": outlook_words.when(found)}).split())
    title = re.search(r'<p class="at">(.*?)</p>', told).group(1)
    instants = re.sub(
        '<time datetime="([^"]*)".*?</time>',
        lambda at: f"{(datetime.fromisoformat(at.group(1)) - b.NOON).total_seconds():g}", title,
    )  # fmt: skip
    return " ".join(instants.split())


@pytest.mark.parametrize(
    ("seconds", "title", "words"),
    [
        ((0, 0, 60), "By 60", "It would start within a minute."),
        ((37, 37, 97), "Between 37 and 97", "It would wait up to 2m."),
        ((60, 60, 120), "Between 60 and 120", "It would wait between 1m and 2m."),
        ((599, 599, 659), "Between 599 and 659", "It would wait between 9m and 11m."),
        ((600, 600, 660), "About 600", "It would wait about 10m."),
        ((37, 37, 37), "37", "It would start within a minute."),
        ((97, 97, 97), "97", "It would wait about 1m 37s."),
    ],
)
def test_a_near_start_is_told_no_more_exactly_than_it_is_known(seconds, title, words):
    low, at, high = map(b.later, seconds)
    start = Span(at, low, high, b.NOON)
    told = outlook_words.planned(whatif.Planned("later", b.NOON, start=start), {})["sentence"]
    assert (heading(start), told) == (title, words)


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0, "now"), (10, "in less than a minute at the soonest"), (59, "in less than a minute at the soonest"),
        (60, "in 1m at the soonest"), (119, "in 1m at the soonest"),
    ],
)  # fmt: skip
def test_a_change_starts_at_the_soonest_when_it_is_said_to(seconds, says):
    told = outlook_words._help(whatif.Change("at most 1 GPU", b.later(seconds), {"gpu_count": 1}), b.NOON)
    assert told["sentence"] == f"With at most 1 GPU it would start {says}."


def test_a_job_that_waits_for_a_window_names_no_job_that_leaves_before(world):
    b.running(world["alice"], world["models"], gpu_count=4, max_duration="10m", name="gone-by-then")
    windows.add(
        {"name": "service", "nodes": ["n1"], "start": "2026-03-02T12:12:00Z", "end": "2026-03-02T13:00:00Z"},
        world["admin"], b.NOON,
    )  # fmt: skip
    html = page(b.submitted(world["alice"], b.merge_body(world["models"], max_duration="3m")))
    assert "but it would not end before window service closes them" in html
    assert "At the soonest on n1" in html
    assert "has left" not in html


def span(low, at, high) -> Span:
    return Span(*(b.NOON + timedelta(minutes=m) for m in (at, low, high)), b.NOON)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Foretold(span(60, 90, 200), rank=4), "the latest if what is ahead runs to its time limits"),
        (
            Foretold(span(60, 60, 60), rank=4),
            "and so may a job of higher priority, or of the same priority whose owner has",
        ),
        (Foretold(span(60, 60, 60), rank=2, promised=True), "Its GPUs are kept from every job behind it"),
        (Foretold(None, rank=2), "The pool as it is now has no place for it"),
        (Foretold(span(0, 0, 0), promised=True), ""),
    ],
)
def test_the_estimate_says_what_it_rests_on(found, says):
    told = outlook_words.foretold(found, "job", {}, now=b.NOON)
    assert bool(told["assumes"]) is bool(says)
    assert says in told["assumes"]


# ---------------------------------------------------------------- the form's preview


def preview(world, name="alice", **kw):
    filled = form(world["models"], **kw)
    return browser(name).post("/jobs/new/plan/", filled, headers={"HX-Request": "true"})


def test_the_form_foretells_a_start_now_with_its_gpus_and_its_share(world):
    html = " ".join(text(preview(world)).split())
    assert "It would start now." in html
    assert "On n1: GPU 0, 1." in html
    assert "Up to 2.00 GPU-hours." in html
    assert "What it does to the share" in html
    assert "<!doctype" not in html


def test_the_form_foretells_a_wait_and_what_would_help(world):
    waits(world)
    html = text(preview(world, gpu_count="4"))
    assert "It would wait about 2h." in html
    assert "With at most 2 GPUs it would start now." in html


def test_the_form_does_not_propose_gpus_that_are_promised_to_another_job(world):
    waits(world)
    assert "With at most 2 GPUs" not in text(preview(world, gpu_count="4", max_duration="2h"))


def test_the_form_says_what_would_never_start(world):
    html = text(preview(world, gpu_count="5"))
    assert "It would never start" in html
    assert "ask for at most 4" in html


def test_the_form_says_what_would_be_refused_in_its_own_words(world):
    html = text(preview(world, gpu_count="many"))
    assert "It would be refused" in html
    assert "GPUs must be" in html


def test_without_scripts_the_preview_comes_with_the_form_as_it_was_filled(world):
    html = text(browser().post("/jobs/new/plan/", form(world["models"], name="mine")))
    assert "It would start now." in html
    assert 'value="mine"' in html
    wrong = browser().post("/jobs/new/plan/", form(world["models"], gpu_count="many"))
    assert (wrong.status_code, "GPUs must be" in text(wrong)) == (422, True)


@pytest.mark.parametrize(("given", "status"), [({"gpu_count": "many"}, 422), ({"gpu_count": "5"}, 200)])
def test_what_the_preview_refuses_is_told_beside_its_field(world, given, status):
    assert '<p data-beside="gpu_count">' in text(preview(world, **given))
    answer = browser().post("/jobs/new/plan/", form(world["models"], **given))
    assert (answer.status_code, bool(beside(text(answer), "gpu_count"))) == (status, True)


def test_previewing_submits_nothing(world):
    preview(world)
    assert jobs.queries.filtered(world["alice"], {}).count() == 0


def test_a_page_that_is_only_posted_to_says_so():
    b.people()
    answer = browser().get("/jobs/new/plan/")
    assert (answer.status_code, answer["Allow"]) == (405, "POST")
    assert text(answer) == "GET is not possible here; use POST, as the button on the page does."


def test_the_form_does_not_promise_what_can_not_be_submitted(world):
    b.node("n2")
    html = text(preview(world, gpu_count="8", nvlink_required=""))
    assert "It would be refused: a job of this kind lies on one node." in html
    assert "It would start now" not in html
    assert "gpu_count" not in re.sub('data-beside="[^"]*"', "", html)


def test_the_page_proposes_a_time_limit_as_people_write_it(world):
    waits(world)
    body = b.merge_body(world["models"], gpu_count=2, max_duration="2h")
    job = b.submitted(world["alice"], body, now=b.later(1))
    b.ticked(b.later(2))
    html = page(job)
    assert "With a time limit of at most 59 min it would start now." in html
    link = re.search(r'<a class="once" href="(/jobs/new/\?[^"]+)">', html).group(1).replace("&amp;", "&")
    assert 'name="max_duration" value="59 min"' in text(browser().get(link))


def test_where_and_when_it_could_start_are_told_once(world):
    html = page(waits(world))
    assert html.count("2026-03-02T13:00:00+00:00") == 1
    assert "enough free" not in html


def test_reasons_and_estimate_are_of_one_instant_however_old_the_last_pass_is(world, monkeypatch):
    # The pass at noon has kept its reasons. What came since, and no pass has seen, will have the free GPUs for an hour.
    job = waits(world, start_by="2026-03-02T13:10:00Z")
    kept = {r["code"] for r in jobs.queries.as_dict(jobs.queries.one(world["alice"], job), now=b.NOON)["reasons"]}
    b.submitted(world["alice"], b.merge_body(world["models"], gpu_count=2, priority="High"), now=b.later(1200))
    monkeypatch.setattr("scheduling.web.job.now", lambda: b.later(1201))
    html = page(job)
    assert "EXPIRES" not in kept
    assert "before it is expected to start" in html
    assert re.findall(r'<p class="at">About <time datetime="([^"]+)"', html) == ["2026-03-02T13:20:00+00:00"]
    assert (
        '<time datetime="2026-03-02T13:20:00+00:00"' in html.split("before it is expected to start")[1].split("<h2>")[0]
    )


@pytest.mark.parametrize(
    ("minutes", "words", "says"),
    [
        ((60, 60, 60), "It would wait about 1h.", []),
        ((108, 120, 132), "It would wait about 2h.", ["About"]),
        ((107, 120, 133), "It would wait between 1h 47m and 2h 13m.", ["Between", "and"]),
        ((119, 599, 1079), "It would wait between 1h 59m and 17h 59m.", ["Between", "and"]),
        ((0, 60, 120), "It would wait up to 2h.", ["Between", "and"]),
        ((0, 1, 1), "It would start within a minute.", ["By"]),
    ],
)
def test_a_wide_range_is_told_by_its_ends_and_about_is_off_by_a_tenth_at_most(minutes, words, says):
    found = span(*minutes)
    assert outlook_words.planned(whatif.Planned("later", b.NOON, start=found), {})["sentence"] == words
    told = " ".join(render_to_string("parts/when.html", {"when": outlook_words.when(found)}).split())
    heading = re.search(r'<p class="at">(.*?)</p>', told).group(1)
    assert re.sub("<time.*?</time>", "", heading).split() == says


def test_seconds_are_told_as_whole_minutes_as_the_pages_count_down():
    start = Span(*(b.later(s) for s in (3593, 3593, 3593)), b.NOON)
    assert outlook_words.planned(whatif.Planned("later", b.NOON, start=start), {})["sentence"] == (
        "It would wait about 59m."
    )


@pytest.mark.parametrize(
    ("names", "words"),
    [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (tuple("abcde"), "a, b, c and 2 more")],
)
def test_the_nodes_of_a_start_are_listed_up_to_three(names, words):
    assert outlook_words.foretold(Foretold(span(60, 60, 60), nodes=names), "j", {}, now=b.NOON)["where"] == words


def test_a_job_that_leaves_before_it_starts_says_so_on_its_page(world):
    html = page(waits(world, start_by="2026-03-02T12:30:00Z"))
    assert re.search("It leaves the queue on <time[^>]*>2 Mar 2026, 12:30 UTC</time>, before it is expected", html)
    assert re.search(
        "It leaves the queue on <time[^>]*>2 Mar 2026, 12:30 UTC</time> if it has not started by then", html
    )


def test_a_plan_that_leaves_before_it_starts_says_so():
    found = whatif.Planned(
        "later", b.NOON, start=span(60, 60, 60), reasons=({"code": "EXPIRES", "message": "Late.", "numbers": {}},)
    )
    assert outlook_words.planned(found, {})["sentence"] == "It would wait, and leave the queue before it starts."


def test_the_preview_names_whom_it_would_stop(world):
    b.running(world["alice"], world["models"], gpu_count=4, name="in-the-way")
    html = text(preview(world, "admin", gpu_count="4", priority="Critical", purpose="regression_gate"))
    assert "once 1 running job made room" in html
    assert "<bdi>in-the-way</bdi>" in html
    assert "4 GPUs, loses 0.13 GPU-hours" in html
    assert "only if it saves" not in html


def test_the_preview_says_where_whom_it_would_stop_runs_on_unless_it_saves(world):
    b.running(world["alice"], world["models"], gpu_count=4, name="in-the-way")
    Queue.objects.update(never_without_checkpoint=True)
    html = text(preview(world, "admin", gpu_count="4", priority="Critical", purpose="regression_gate"))
    words = "once 1 running job made room; only if it saves in the time given, and otherwise it would wait."
    assert words in html


def test_the_page_shows_a_plan_of_every_kind_of_change():
    # What the core may propose has a sentence, and a link wherever the form has the field.
    fields = [{"gpu_count": 2}, {"max_duration": 600}, {"gpu_memory_min": "81920MiB"},
              {"nvlink_required": False, "nvlink_exclusive": False}, {"required_level": None},
              {"gpu_count": 12, "node_count": 1, "gpus_per_node": 8}]  # fmt: skip
    changes = [whatif.Change("a change", b.NOON, each) for each in fields]
    told = [outlook_words._help(change, b.NOON, again={"from": "j"}) for change in changes]
    assert [bool(each["link"]) for each in told] == [True, True, True, True, True, False]


def test_the_page_of_a_refused_job_speaks_the_words_of_the_form(world):
    body = b.merge_body(world["models"], max_duration=10**8, gpu_count="many")
    html = page(jobs.submit(body, world["alice"], b.NOON).job_id)
    assert "<li>GPUs must be a whole number from 1 to 4" in html
    assert re.search(r"<li>Time limit may be at most 7 d in queue merge, and 100000000 counts as 1157 d", html)


def test_a_fault_is_named_before_a_sentence_that_does_not_begin_with_it(world):
    html = page(jobs.submit(b.merge_body(world["models"], gpu_count=99), world["alice"], b.NOON).job_id)
    assert "<li><b>GPUs</b>: no NVLink group has room for 99 GPUs: ask for at most 4</li>" in html


def test_a_change_that_helps_only_later_says_by_when(world):
    b.running(world["alice"], world["models"], gpu_count=2, max_duration="1h")
    b.running(world["alice"], world["models"], gpu_count=2, max_duration="2h")
    body = b.merge_body(world["models"], nvlink_required=True, nvlink_exclusive=True)
    html = page(b.submitted(world["alice"], body))
    assert "With an NVLink group shared with other jobs it would start in 1h at the soonest." in html


def test_a_job_whose_partner_ends_before_it_could_start_is_not_told_a_place(world):
    b.running(world["alice"], world["models"], gpu_count=4, group="red")
    body = b.merge_body(world["models"], **{"with": {"group": "red", "level": "node"}})
    html = page(b.submitted(world["alice"], body))
    assert "The jobs of group red that it is to run beside have a time limit until" in html
    assert "Nothing tells when a job that it is to run beside will run." in html
    assert "No start in sight" in html
    assert "At the soonest on" not in html


def test_a_start_beside_another_job_says_that_it_must_still_run(world):
    b.running(world["alice"], world["models"], gpu_count=2, group="red", max_duration="2h")
    b.running(world["alice"], world["models"], gpu_count=2, max_duration="1h")
    body = b.merge_body(world["models"], gpu_count=2, **{"with": {"group": "red", "level": "node"}})
    html = page(b.submitted(world["alice"], body))
    assert '<p class="at"><time datetime="2026-03-02T13:00:00+00:00"' in html
    assert "A job of group red must still run beside it then." in html


def test_the_late_end_of_a_wait_is_told_up_and_the_early_one_down():
    start = Span(*(b.later(s) for s in (7230, 3630, 10830)), b.NOON)
    assert outlook_words.planned(whatif.Planned("later", b.NOON, start=start), {})["sentence"] == (
        "It would wait between 1h and 3h 1m."
    )


def test_a_job_without_a_partner_is_not_told_that_nodes_must_come(world):
    body = b.merge_body(world["models"], **{"with": {"group": "red", "level": "node"}})
    job = b.submitted(world["alice"], body)
    b.ticked()
    html = page(job)
    assert "Nothing tells when a job that it is to run beside will run." in html
    assert "Without having to run beside group red it would start now." in html
