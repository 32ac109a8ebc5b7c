"""Windows come and go on open pages by the socket, without a reload."""

from __future__ import annotations

from datetime import timedelta

from scheduling.services import now
from scheduling.store.commit import windows
from tests import builders as b
from tests.browser.person import Person
from tests.browser.world import pool_with_models


def test_the_board_and_a_jobs_page_follow_a_window_that_is_added_and_removed(chromium, server):
    alice, models = pool_with_models()
    job = b.submitted(alice, b.merge_body(models), now=now())
    person = Person(chromium, server)
    board = person.sign_in()
    page = person.context.new_page()
    page.goto(f"{server.url}/jobs/{job}/")
    before = page.locator("#job").get_attribute("data-windows")
    begins = now()
    made = windows.add("new fans", ["node-1"], begins, end=begins + timedelta(hours=1), project=None, note="",
                       user_id=alice.user_id, now=now(), actor="user admin")  # fmt: skip
    board.get_by_text("new fans").wait_for()
    closed = board.get_by_text("its node is closed").first
    closed.wait_for()
    page.wait_for_function("before => document.getElementById('job').dataset.windows !== before", arg=before)
    windows.remove(made, now=now(), actor="user admin")
    board.get_by_text("new fans").wait_for(state="detached")
    closed.wait_for(state="detached")
    complaints = person.complaints
    person.leave()
    assert complaints == []
