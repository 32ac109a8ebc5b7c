"""A researcher reads why somebody is ahead: the share, its statement, the jobs in it, and how it went over time."""

from __future__ import annotations

from datetime import timedelta

from scheduling.services import now
from scheduling.store.commit import balances
from tests import builders as b
from tests.browser import world
from tests.browser.person import Person
from tests.browser.test_every_page import faults
from tests.services.reports import history


def test_from_the_share_to_the_jobs_that_made_it_and_back_in_time(chromium, server):
    alice, models = world.pool_with_models()
    history.write(now() - timedelta(days=40), 39, 120)
    balances.rebuild(now())
    b.submitted(alice, b.merge_body(models, name="running"), now=now())
    world.started()
    other = [b.model(b.people()["bob"], f"m{n}", n, project="beta") for n in (5, 6)]
    b.submitted(b.people()["bob"], b.merge_body(other, project="beta"), now=now())
    found = []
    for width, scheme in ((390, "dark"), (1440, "light")):
        person = Person(chromium, server, width=width, scheme=scheme)
        page = person.sign_in()
        page.goto(f"{server.url}/share/")
        assert "of its target now to" in page.locator("#ahead").inner_text()
        page.get_by_role("link", name="alpha", exact=True).first.click()
        page.wait_for_url("**project=alpha**")
        assert "the account of alpha" in page.locator("h1").inner_text()
        assert "to the second" in page.locator("#account").inner_text()
        page.get_by_role("link", name="12 months").click()
        found += faults(page)
        assert page.locator("#jobs a", has_text="past-").count() > 10
        with page.expect_download() as saved:
            page.locator("#jobs").get_by_role("link", name="CSV").click()
        lines = saved.value.path().read_text().splitlines()
        assert (lines[1].split(",")[0], lines[-1].split(",")[0]) == ("opening balance", "closing balance")
        page.goto(f"{server.url}/share/over-time/")
        assert page.locator("#held rect").count() > 10
        assert page.locator("#accounts path.foreseen").count() == 2
        page.get_by_text("By day", exact=True).click()
        page.get_by_text("The next 7 days", exact=True).click()
        found += faults(page)
        page.locator("[name=project]").select_option("beta")
        page.get_by_role("button", name="Show").click()
        page.wait_for_url("**project=beta**")
        assert page.locator("#accounts path.foreseen").count() == 1
        found += person.complaints
        person.leave()
    assert found == []
