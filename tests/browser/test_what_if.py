"""A change is tried, watched while it is played, applied and reverted, by hand in a browser."""

from __future__ import annotations

from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from scheduling.models import WhatIfRun
from scheduling.services import now, whatif_runs
from scheduling.store import load
from scheduling.store.commit import whatif_rows
from tests.browser.person import Person
from tests.services.history import HOUR, afternoon

PLAYED = "Jobs of alpha would have waited 59m 59s less."


@pytest.fixture
def day(server):
    """Three hours of work that ended an hour ago."""
    return afternoon(now() - timedelta(seconds=4 * HOUR))


def test_a_weight_is_tried_applied_and_reverted(chromium, server, day):
    person = Person(chromium, server)
    page = person.sign_in("admin")
    page.get_by_role("link", name="What if").click()
    page.get_by_label("The last").fill("1")
    page.get_by_label("alpha", exact=True).fill("5")
    page.get_by_label("beta", exact=True).fill("-1")
    page.get_by_role("button", name="Play it").click()
    # What is wrong stands beside its field, and what was typed is kept.
    expect(page.locator(".field", has_text="beta").get_by_text("from 0 to")).to_be_visible()
    expect(page.get_by_label("alpha", exact=True)).to_have_value("5")
    page.get_by_label("beta", exact=True).fill("1")
    page.get_by_role("button", name="Play it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("It waits for a worker.")
    run = WhatIfRun.objects.get()
    whatif_rows.take_up(run.pk, now())
    whatif_rows.told(run.pk, now(), done=2, total=6, rate=4.0)
    expect(page.locator("#progress")).to_contain_text("2 of 6 jobs played, 4 jobs/s, about 1 s left")
    WhatIfRun.objects.update(state="QUEUED")
    assert whatif_runs.play(str(run.pk)) == "done"
    # Nobody has touched the page.
    expect(page.get_by_role("heading", level=1)).to_have_text("It would have changed nobody's wait.")
    expect(page.locator("#trust")).to_have_attribute("data-trust", "close")
    page.get_by_role("link", name="Apply").click()
    expect(page.get_by_role("row", name="Weight of project alpha")).to_contain_text("2")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("admin changed the policy last.")
    assert load.policy_of().project_weights["alpha"] == 5.0
    page.get_by_text("Revert", exact=True).first.click()
    page.get_by_role("button", name="Revert version").click()
    expect(page.get_by_role("status").first).to_contain_text("is reverted")
    assert load.policy_of().project_weights["alpha"] == 2.0
    complaints = [c for c in person.complaints if "422" not in c]
    person.leave()
    assert complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_its_pages_fit_and_complain_of_nothing(chromium, server, day, width, scheme):
    person = Person(chromium, server, width=width, scheme=scheme)
    page = person.sign_in("admin")
    body = {"days": 1, "add_nodes": [{"like": "n1", "count": 1}], "policy": {"project_weights": {"alpha": 5}}}
    run = whatif_runs.ask(body, day.who["admin"], now())
    found = []
    addresses = [f"/what-if/{run}/", "/what-if/", f"/what-if/?from={run}", f"/what-if/{run}/apply/", "/what-if/policy/"]
    for path in addresses:
        page.goto(server.url + path)
        found += [f"{path}: {what}" for what in faults(page)]
    whatif_runs.play(str(run))
    page.goto(f"{server.url}/what-if/{run}/")
    heading = page.get_by_role("heading", level=1).inner_text()
    found += faults(page)
    complaints = person.complaints
    person.leave()
    assert (found, complaints, heading) == ([], [], PLAYED)


def faults(page):
    """What is wrong with the page that is open."""
    page.wait_for_load_state("load")
    results = Axe().run(page)
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    serious = [v for v in results.response["violations"] if v["impact"] in ("serious", "critical")]
    return [*(["scrolls sideways"] if wide else []), *(f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in serious)]
