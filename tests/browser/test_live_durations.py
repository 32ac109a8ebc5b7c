"""How long a job has waited goes on counting on open pages, and stands still once it has started."""

from __future__ import annotations

from datetime import timedelta

from scheduling.services import now
from tests import builders as b
from tests.browser.person import Person
from tests.browser.world import pool_with_models

GROWN = """([selector, before]) => {
  const shown = document.querySelector(selector)?.textContent.trim();
  return Boolean(shown) && shown !== before;
}"""


def test_how_long_a_job_has_waited_counts_on_its_page_and_in_the_list(chromium, server):
    alice, models = pool_with_models()
    job = b.submitted(alice, b.merge_body(models), now=now() - timedelta(seconds=23))
    person = Person(chromium, server)
    page = person.sign_in()
    for address, selector in (
        (f"jobs/{job}/", '[data-hook="sentence"] [data-counts]'),
        ("jobs/", '[data-hook="waited"]'),
    ):
        page.goto(f"{server.url}/{address}")
        before = page.locator(selector).first.inner_text()
        page.wait_for_function(GROWN, arg=[selector, before], timeout=10_000)
    complaints = person.complaints
    person.leave()
    assert complaints == []
