"""Reports by REST: numbers that add up, whose they are, and every wrong value at once."""

from __future__ import annotations

import pytest

from scheduling.models import NodeLive
from scheduling.services import upkeep
from tests import builders as b
from tests.api.calls import PROBLEM, Caller, token

pytestmark = pytest.mark.django_db
DAY = "from=2026-03-02&to=2026-03-02"


@pytest.fixture
def house():
    """Alice's merge held two GPUs for an hour, idle, before it failed; two of four were busy with nothing."""
    lab, run = b.busy_lab()
    for minute in range(61):
        samples = {f"GPU-n1-{i}": {"utilization": 1.0} for i in range(4)}
        NodeLive.objects.update(sampled_at=b.later(minute * 60), samples=samples)
        upkeep.look_at_gpus(b.later(minute * 60))
    b.finished(run, "FAILED", exit_code=1, now=b.later(3600))
    return lab, run


def caller(lab, name):
    return Caller(token(lab.who[name]))


def test_usage_is_told_by_what_one_asks_for_and_adds_up(house):
    lab, _ = house
    answer = caller(lab, "alice").get(f"reports/usage/?{DAY}").json()
    hours = {"held_gpu_h": 2.0, "lost_gpu_h": 0.0, "used_gpu_h": 2.0, "charged_gpu_h": 2.0}
    assert answer["total"] == hours
    assert answer["results"] == [{"piece": 0, "project": "alpha", **hours}]
    assert answer["period"] == {
        "first": "2026-03-02", "last": "2026-03-02", "each": "day", "zone": "UTC",
        "pieces": [{"first": "2026-03-02", "last": "2026-03-02", "start": "2026-03-02T00:00:00Z",
                    "end": "2026-03-03T00:00:00Z"}],
    }  # fmt: skip
    rows = caller(lab, "alice").get(f"reports/usage/?{DAY}&by=user,kind,queue").json()["results"]
    assert rows == [{"user": "alice", "kind": "merge", "queue": "merge", **hours}]


def test_people_of_another_project_have_no_names(house):
    lab, _ = house
    bob = caller(lab, "bob")
    (row,) = bob.get(f"reports/usage/?{DAY}&by=project,user").json()["results"]
    assert (row["project"], row["user"], row["used_gpu_h"]) == ("alpha", None, 2.0)
    (row,) = bob.get(f"reports/idle/?{DAY}").json()["results"]
    assert (row["job"], row["name"], row["user"], row["project"]) == (None, None, None, "alpha")
    (row,) = bob.get(f"reports/capacity/?{DAY}").json()["jobs"]
    assert (row["user"], row["project"]) == (None, "alpha")


def test_what_was_there_and_how_busy(house):
    lab, _ = house
    answer = caller(lab, "alice").get(f"reports/capacity/?{DAY}").json()
    numbers = {"installed_gpu_h": 4.0, "out_gpu_h": 0.0, "held_gpu_h": 2.0, "held_part": 0.5, "utilization": 1.0}
    assert answer["total"] == numbers
    assert answer["results"] == [{"piece": 0, **numbers}]
    assert answer["looked_since"] == "2026-03-02T12:00:00Z"
    assert [(row["known_gpu_h"], row["utilization"]) for row in answer["jobs"]] == [(2.0, 1.0)]


def test_idle_gpus_are_told_with_their_job(house):
    lab, run = house
    answer = caller(lab, "alice").get(f"reports/idle/?{DAY}").json()
    (row,) = answer["results"]
    assert (row["job"], row["gpu_hours"], row["stretches"], row["longest_s"]) == (run.job, 2.0, 2, 3600.0)
    assert len(row["gpus"]) == 2
    assert all(gpu.startswith("n1/") for gpu in row["gpus"])
    assert (answer["gpu_hours"], answer["below_percent"], answer["for_minutes"]) == (2.0, 5.0, 15.0)


def test_waits_and_losses(house):
    lab, _ = house
    answer = caller(lab, "alice").get(f"reports/waits/?{DAY}").json()
    assert answer["all"] == {"jobs": 1, "median_s": 0.0, "p95_s": 0.0, "longest_s": 0.0, "mean_s": 0.0}
    assert [(row["queue"], row["priority"], row["jobs"]) for row in answer["priorities"]] == [("merge", "Normal", 1)]
    answer = caller(lab, "alice").get(f"reports/lost/?{DAY}").json()
    assert (answer["gpu_hours"], answer["results"]) == (0, [])


def test_a_report_of_nothing_is_empty():
    caller_ = Caller(token(b.people()["alice"]))
    for name in ("usage", "lost", "idle"):
        assert caller_.get(f"reports/{name}/?{DAY}").json()["results"] == []
    assert caller_.get(f"reports/waits/?{DAY}").json()["all"] is None
    answer = caller_.get(f"reports/capacity/?{DAY}").json()
    assert (answer["looked_since"], answer["total"]["held_part"], answer["total"]["utilization"]) == (None, None, None)


@pytest.mark.parametrize("name", ["usage", "waits", "lost", "capacity", "idle"])
def test_every_wrong_value_is_refused_at_once(name):
    who = b.people()
    answer = Caller(token(who["alice"])).get(f"reports/{name}/?from=x&each=y&zone=z&project=beta&user=bob&kind=k")
    assert answer.status_code == 400
    assert answer["Content-Type"] == PROBLEM
    assert {e["field"] for e in answer.json()["errors"]} == {"from", "each", "zone", "project", "user", "kind"}


@pytest.mark.parametrize(
    ("by", "says"),
    [("colour", "by: 'colour' is unknown; give some of piece, project, user, kind, queue, each once, with commas"),
     ("project,project", "by: 'project' is given twice"), ("", None), ("project,", "by: '' is unknown")],
)  # fmt: skip
def test_rows_are_told_by_what_there_is(by, says):
    answer = Caller(token(b.people()["alice"])).get(f"reports/usage/?by={by}")
    assert answer.status_code == (400 if says else 200)
    if says:
        assert answer.json()["errors"][0]["field"] == "by"
        assert answer.json()["detail"].startswith(says)
