"""A node falls silent and is heard of again: open pages tell it by the socket, without a reload."""

from __future__ import annotations

from scheduling.services import now
from tests import builders as b
from tests.browser.person import Person
from tests.browser.world import pool_with_models


def test_the_board_a_nodes_page_and_a_jobs_page_follow_a_node_that_falls_silent_and_returns(chromium, server):
    alice, models = pool_with_models()
    run = b.running(alice, models, now=now(), node="node-1")
    b.quiet(0)
    person = Person(chromium, server)
    board = person.sign_in()
    node, job = person.context.new_page(), person.context.new_page()
    node.goto(f"{server.url}/nodes/node-1/")
    job.goto(f"{server.url}/jobs/{run.job}/")
    pages = [board, node, job]
    for page in pages:
        page.evaluate("window.sameDocument = true")
    for _ in range(2):
        b.quiet(300, "node-1")
        board.locator('[data-node="node-1"][data-state=SILENT] .state[data-state=SILENT]').wait_for()
        board.locator("#headline", has_text="1 node not in service (node-1)").wait_for()
        node.locator("#standing h1", has_text="node-1 takes no new work, since it is silent").wait_for()
        node.locator(".gpu[data-state=UNREACHABLE]").first.wait_for()
        job.locator(".note.error", has_text="node-1 has not been heard of since").wait_for()
        b.quiet(0)
        board.locator('[data-node="node-1"][data-state=READY]').wait_for()
        node.locator("#standing h1", has_text="node-1 takes work").wait_for()
        node.locator(".gpu[data-state=UNREACHABLE]").first.wait_for(state="detached")
        job.locator(".note.error").wait_for(state="detached")
    kept = [page.evaluate("window.sameDocument") for page in pages]
    complaints = person.complaints
    person.leave()
    assert (kept, complaints) == ([True] * 3, [])
