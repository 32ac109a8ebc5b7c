"""Every page, on a phone and on a desk: nothing to scroll sideways, no complaint of the console, nothing axe calls
serious."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser import world
from tests.browser.person import Person

FIXED = ["/", "/jobs/", "/jobs/?q=nothing-at-all", "/jobs/new/", "/jobs/new/?preset=mean", "/jobs/new/command/",
         "/jobs/new/evaluate/", "/jobs/new/evolve/", "/jobs/new/infer/?preset=draw", "/share/", "/share/statement/",
         "/share/statement/?project=alpha&user=alice", "/share/over-time/",
         "/reports/", "/artifacts/", "/account/",
         "/account/password/", "/nodes/node-1/", "/nowhere/"]  # fmt: skip
# Seen by axe in both schemes, because contrast differs; each width once.
LOOKS = [(390, "dark"), (1440, "light")]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_fits_and_complains_of_nothing(chromium, server, width, scheme):
    addresses = world.everything()
    person = Person(chromium, server, width=width, scheme=scheme)
    page = person.sign_in("admin")
    found = []
    for path in [*FIXED, *addresses.values()]:
        page.goto(server.url + path)
        found += [f"{path}: {what}" for what in faults(page)]
    person.context.clear_cookies()
    page.goto(f"{server.url}/login/")
    found += [f"/login/: {what}" for what in faults(page)]
    # A browser notes every answer that is an error; the page that is not there is one on purpose.
    complaints = [c for c in person.complaints if "404 (Not Found)" not in c]
    person.leave()
    assert (found, complaints) == ([], [])


@pytest.mark.parametrize("width", [360, 2560])
def test_the_board_and_a_job_fit_the_smallest_and_the_widest(chromium, server, width):
    addresses = world.everything()
    person = Person(chromium, server, width=width)
    page = person.sign_in()
    found = []
    for path in ("/", "/jobs/", "/jobs/new/", "/jobs/new/command/", "/jobs/new/evaluate/", "/jobs/new/evolve/",
                 "/jobs/new/infer/", addresses["running"], addresses["judged"], addresses["inferred"],
                 addresses["searched"], addresses["artifact"]):  # fmt: skip
        page.goto(server.url + path)
        found += [path] if sideways(page) else []
    person.leave()
    assert found == []


def faults(page):
    """What is wrong with the page that is open."""
    page.wait_for_load_state("load")
    results = Axe().run(page)
    serious = [v for v in results.response["violations"] if v["impact"] in ("serious", "critical")]
    wide = ["scrolls sideways"] if sideways(page) else []
    return wide + [f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:160]}" for v in serious]


def sideways(page):
    """True when the page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
