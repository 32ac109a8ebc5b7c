"""A job that fails by several problems keeps each once: in ``errors``, one a line on its page."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.models import Job
from scheduling.services.failures import MOST, errors_of, in_short
from tests import builders as b
from tests.web.pages import browser, text

ERRORS = [
    {"field": "params.batch_size", "code": "out_of_range", "message": "batch_size must be from 1 to 65536, not 0"},
    {"field": "params.dataset", "code": "not_a_text", "message": "line 3: text must be a text, not <b>3</b>"},
]


@pytest.fixture
def running(db: Any) -> Any:
    alice = b.people()["alice"]
    b.node("n1")
    return b.running(alice, [b.model(alice, "a"), b.model(alice, "b", 2)])


def failed(run: Any, **report: Any) -> Job:
    b.finished(run, "FAILED", exit_code=2, error="config: 2 problems: one; two (exit code 2)", **report)
    return Job.objects.get()


def test_a_failed_job_has_each_problem_once(running: Any) -> None:
    job = failed(running, errors=ERRORS)
    assert (job.state, job.errors) == ("FAILED", ERRORS)
    assert job.error == "refused for 2 reasons, the first: batch_size must be from 1 to 65536, not 0"
    answer: Any = browser("admin").get(f"/api/v1/jobs/{job.pk}/").json()
    assert answer["errors"] == ERRORS
    page = text(browser("admin").get(f"/jobs/{job.pk}/"))
    part = page.split("<h2>What went wrong</h2>")[1].split("</section>")[0]
    assert part.count("<li>") == 2
    assert "line 3: text must be a text, not &lt;b&gt;3&lt;/b&gt;" in part
    assert ("Why it was refused" in page, page.count("<h2>What went wrong</h2>")) == (False, 1)
    assert page.count("line 3: text") == 1


@pytest.mark.parametrize("given", [None, "x", {}, [], [3, {"code": "c"}]])
def test_an_agent_of_before_or_a_list_of_nothing_is_told_by_its_words(running: Any, given: Any) -> None:
    job = failed(running, errors=given)
    assert (job.errors, job.error) == ([], "config: 2 problems: one; two (exit code 2)")
    assert '<pre class="error">config: 2 problems' in text(browser("admin").get(f"/jobs/{job.pk}/"))


def test_a_job_that_did_not_fail_has_none(running: Any) -> None:
    b.finished(running, errors=ERRORS)
    assert Job.objects.get().errors == []


def test_they_are_bounded_in_number_and_length() -> None:
    many = [{"field": "f" * 300, "code": "c" * 300, "message": "m\0" * 600, "more": 1}] * (MOST + 9)
    found = errors_of({"errors": many})
    assert len(found) == MOST
    assert {name: len(value) for name, value in found[0].items()} == {"field": 200, "code": 100, "message": 500}
    assert "\0" not in found[0]["message"]


def test_one_sentence_says_how_many_and_the_first() -> None:
    assert [in_short([]), in_short(ERRORS[:1])] == ["", ""]
    more = {"field": "", "code": "omitted", "message": "and 4 more, left out here"}
    assert in_short([*ERRORS, more]).startswith("refused for more than 2 reasons, the first: batch_size")
