"""Windows on the pages of their nodes and on the board: name, times and for whom, as far as the reader may know."""

from __future__ import annotations

import html as entities
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.models import Node, Project, Window
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def window(name: str, *nodes: str, project: str = "", hours: tuple[float, float] = (1, 3), note: str = "") -> Window:
    """A window from and until so many hours from now."""
    start, end = (timezone.now() + timedelta(hours=each) for each in hours)
    owner = Project.objects.get(name=project) if project else None
    made = Window.objects.create(
        name=name, start=start, end=end, project=owner, note=note, created_at=timezone.now()
    )  # fmt: skip
    made.nodes.set(Node.objects.filter(name__in=nodes))
    return made


def told(page: str, who: str = "alice") -> list[str]:
    """Each line about a window, without its tags."""
    found = re.findall(r"<p class=\"facts\" data-window>(.*?)</p>", text(browser(who).get(page)), re.DOTALL)
    return [re.sub(r"\s+", " ", entities.unescape(re.sub(r"<[^>]+>", "", line))).strip() for line in found]


def when(moment) -> str:
    return f"{moment:%-d %b %Y, %H:%M} UTC"


@pytest.fixture
def pool():
    b.lab()
    b.node("n2")


@pytest.mark.parametrize("page", ["/", "/nodes/n1/"])
def test_a_window_that_comes_is_told_with_its_name_times_and_note(pool, page):
    made = window("new racks", "n1", note="power off")
    assert told(page) == [
        f"to be closed Window new racks: n1 is closed to all jobs from {when(made.start)} until {when(made.end)}."
        " power off"
    ]


@pytest.mark.parametrize(
    ("who", "name", "whose"),
    [("alice", "reserved", "another project"), ("bob", "demo", "beta"), ("admin", "demo", "beta")],
)
@pytest.mark.parametrize("page", ["/", "/nodes/n1/"])
def test_a_window_that_is_open_now_is_named_to_those_who_know_its_project(pool, page, who, name, whose):
    made = window("demo", "n1", "n2", project="beta", hours=(-1, 2), note="secret" if who == "alice" else "")
    (line,) = told(page, who)
    assert line.startswith(
        f"closed Window {name}: n1 and n2 are closed to all jobs but those of {whose} since {when(made.start)} until"
    )
    assert "secret" not in line


def test_a_node_tells_of_its_own_windows_only_and_of_none_that_has_ended(pool):
    window("other", "n2")
    window("past", "n1", hours=(-3, -1))
    assert told("/nodes/n1/") == []


def test_the_board_tells_of_three_those_of_now_first_and_counts_the_rest(pool):
    for number in range(4):
        window(f"w{number}", "n1", hours=(number + 1, 9))
    window("now", "n1", hours=(-1, 9))
    assert [line.split(":")[0].split("Window ")[1] for line in told("/")] == ["now", "w0", "w1"]
    assert "2 more windows close nodes now or later" in text(browser().get("/"))
