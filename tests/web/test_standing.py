"""Whether a node takes work is told alike by its page, the board and REST, and never against the truth."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.models import Node, NodeLive, Project, Window
from scheduling.services import pool
from scheduling.store.queries.standing import Standing, idle
from tests import builders as b
from tests.api.calls import Caller
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def who():
    people = b.people()
    b.node("n1")
    return people


def window(*, hours: tuple[float, float] = (-1, 2), project: str = "") -> Window:
    start, end = (timezone.now().replace(microsecond=0) + timedelta(hours=each) for each in hours)
    owner = Project.objects.get(name=project) if project else None
    made = Window.objects.create(name="demo", start=start, end=end, project=owner, created_at=timezone.now())
    made.nodes.set(Node.objects.all())
    return made


def lose() -> None:
    b.listening(60)
    b.ticked(b.later(61))


def until(made: Window) -> str:
    return f"{made.end:%-d %b %Y, %H:%M}" + (f":{made.end:%S}" if made.end.second else "") + " UTC"


def rest():
    return Caller(session="alice").get("pool/").json()["nodes"][0]


def told() -> tuple[str, str, str | None]:
    """The node's standing, why it takes no work, and why its first GPU gets none: as REST has them."""
    one = rest()
    return one["standing"], one["why"], one["gpus"][0]["idle"]


def test_one_that_takes_work_says_nothing(who):
    assert told() == ("READY", None, None)
    assert "n1 takes work: 4 of 4 GPUs healthy, 0 busy." in text(browser().get("/nodes/n1/"))


def test_a_window_that_closes_it_now_is_why(who):
    made = window()
    assert told() == ("CLOSED", f"a window closes it to all jobs until {until(made)}", "its node is closed")


@pytest.mark.parametrize("hours", [(1, 2), (-2, -1)])
def test_a_window_of_another_time_is_not(who, hours):
    window(hours=hours)
    assert told()[0] == "READY"


def test_a_reservation_is_told_without_whose_it_is(who):
    made = window(project="beta")
    why = f"a window closes it to all jobs but those of the project that has reserved it until {until(made)}"
    assert told() == ("RESERVED", why, "its node is reserved")


def test_maintenance_tells_before_a_reservation(who):
    window(project="beta")
    window()
    assert told()[0] == "CLOSED"


@pytest.mark.parametrize(
    ("field", "standing", "why", "gpu"),
    [
        ("leaving", "LEAVING", "its agent is shutting down", "its node is leaving"),
        ("disk_low", "LOW_DISK", "its disk is nearly full", "its node: low disk"),
    ],
)
def test_what_its_agent_says_of_itself(who, field, standing, why, gpu):
    NodeLive.objects.update(**{field: True})
    assert told() == (standing, why, gpu)


@pytest.mark.parametrize(("verb", "standing"), [("cordon", "CORDONED"), ("drain", "DRAINING")])
def test_an_operators_word_goes_first_and_the_window_is_told_besides(who, verb, standing):
    window()
    pool.operate("n1", verb, who["admin"], b.NOON)
    got, why, gpu = told()
    assert (got, gpu) == (standing, f"its node is {standing.lower()}")
    assert ["admin" in why.split("; ")[0], "a window closes it" in why.split("; ")[1]] == [True, True]


def test_of_a_lost_one_no_number_is_told(who):
    lose()
    html = text(browser().get("/nodes/n1/"))
    assert "n1 is lost: what its 4 GPUs do is not known." in html
    assert "healthy, " not in html
    assert told()[0::2] == ("LOST", "its node is lost")


@pytest.mark.parametrize("page", ["/", "/nodes/n1/"])
def test_no_gpu_of_a_closed_node_is_called_free_and_its_card_not_ready(who, page):
    window()
    html = text(browser().get(page))
    assert 'class="free"' not in html
    assert 'data-state="READY"' not in html
    assert html.count(">its node is closed<") == 4


def test_the_heading_of_a_closed_node_says_so(who):
    window()
    assert "n1 takes no new work, since a window closes it: 4 of 4 GPUs healthy, 0 busy." in text(
        browser().get("/nodes/n1/")
    )


def test_the_boards_headline_counts_it_out(who):
    window()
    assert "1 node not in service (n1)" in text(browser().get("/"))


@pytest.mark.parametrize(
    ("state", "standing", "words"),
    [
        ("SUSPECT", Standing.READY, "no new work"),
        ("QUARANTINED", Standing.CLOSED, "out of service"),
        ("QUARANTINED", Standing.LOST, "its node is lost"),
        ("HEALTHY", Standing.READY, ""),
    ],
)
def test_a_gpus_own_fault_tells_before_its_nodes_unless_that_is_lost(state, standing, words):
    assert idle(state, standing) == words
