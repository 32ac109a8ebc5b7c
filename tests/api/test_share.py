"""Fair share by REST: the documented members, sums, whose they are, and what is refused."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduling.api.shapes import share as shapes
from scheduling.models import Balance
from tests import builders as b
from tests.api.calls import PROBLEM, Caller, token

pytestmark = pytest.mark.django_db
MARCH = "from=2026-03-01&to=2026-03-31"


@pytest.fixture
def house():
    """Alice's merge held two GPUs for an hour before it failed."""
    lab, run = b.busy_lab()
    b.finished(run, "FAILED", exit_code=1, now=b.later(3600))
    return lab, run


def caller(lab, name):
    return Caller(token(lab.who[name]))


def test_a_statement_has_exactly_the_documented_members_and_adds_up(house):
    lab, run = house
    answer = caller(lab, "alice").get(f"share/statement/?project=alpha&{MARCH}").json()
    assert answer.keys() == shapes.StatementShape().fields.keys()
    assert answer["period"].keys() == shapes.StatementPeriod().fields.keys()
    assert answer["account"].keys() == shapes.StatementCheck().fields.keys()
    (job,) = answer["jobs"]
    assert job.keys() == shapes.StatementJob().fields.keys()
    assert (job["job"], job["held_gpu_h"], job["charged_gpu_h"]) == (run.job, 2.0, 2.0)
    assert answer["others"] == {
        "jobs": 0, "held_gpu_h": 0.0, "charged_gpu_h": 0.0, "given_back_gpu_h": 0.0, "faded_gpu_h": 0.0,
        "counts_gpu_h": 0.0,
    }  # fmt: skip
    moved = answer["charged_gpu_h"] - answer["given_back_gpu_h"] - answer["faded_gpu_h"]
    assert answer["opening_gpu_h"] + moved == pytest.approx(answer["closing_gpu_h"], abs=1e-9)
    assert answer["account"]["counted_gpu_h"] == pytest.approx(answer["account"]["stored_gpu_h"], abs=1e-9)
    assert (answer["user"], answer["half_life_s"], answer["standing"]) == (None, 604_800.0, None)


def test_jobs_of_another_project_are_told_together(house):
    lab, _ = house
    mine = caller(lab, "alice").get(f"share/statement/?project=alpha&{MARCH}").json()
    theirs = caller(lab, "bob").get(f"share/statement/?project=alpha&{MARCH}").json()
    assert theirs["jobs"] == []
    assert theirs["others"] == {"jobs": 1, **{name: mine["jobs"][0][name] for name in shapes.StatementLine().fields}}
    answer = caller(lab, "bob").get(f"share/statement/?project=alpha&user=alice&{MARCH}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "user")


def test_the_standing_has_who_is_just_ahead(house):
    lab, _ = house
    for name, project in (("alice", "alpha"), ("bob", "beta")):
        models = [b.model(lab.who[name], f"m{n}", n, project=project) for n in (5, 6)]
        b.submitted(lab.who[name], b.merge_body(models, project=project), now=b.later(3600))
    Balance.objects.filter(key="alpha").update(settled_at=timezone.now())  # of late, not long faded
    standing = caller(lab, "alice").get("share/statement/").json()["standing"]
    assert standing.keys() == shapes.StandingShape().fields.keys()
    assert (standing["place"], standing["of"], standing["ahead"]["name"]) == (2, 2, "beta")
    assert standing["ahead"].keys() == shapes.PeerShape().fields.keys()


def test_every_wrong_value_is_refused_at_once():
    who = b.people()
    answer = Caller(token(who["alice"])).get("share/statement/?from=x&zone=z&project=gamma")
    assert answer.status_code == 400
    assert answer["Content-Type"] == PROBLEM
    assert {e["field"] for e in answer.json()["errors"]} == {"from", "zone", "project"}
    answer = Caller(token(who["alice"])).get("share/statement/?each=day")
    assert answer.json()["errors"][0]["code"] == "unknown_parameter"


def test_shares_over_time_have_exactly_the_documented_members(house):
    lab, _ = house
    answer = caller(lab, "bob").get("share/over-time/?from=2026-03-01&to=2026-03-03&queue=merge").json()
    assert answer.keys() == shapes.OverTimeShape().fields.keys()
    (alpha,) = answer["results"]
    assert alpha.keys() == shapes.ProjectOverTime().fields.keys()
    assert (alpha["project"], alpha["due_part"], alpha["target_gpu_h"]) == ("alpha", 1.0, None)
    assert [piece["held_gpu_h"] for piece in alpha["pieces"]] == [0.0, 2.0, 0.0]
    assert [piece["held_part"] for piece in alpha["pieces"]] == [None, 1.0, None]
    assert alpha["pieces"][0].keys() == shapes.SharePiece().fields.keys()
    # Eleven hours after it ended, and a day more.
    on = [piece["account_gpu_h"] for piece in alpha["pieces"]]
    assert on == pytest.approx([0.0, 2 * 2 ** (-11.5 / 168), 2 * 2 ** (-35.5 / 168)], rel=1e-5)
    assert caller(lab, "bob").get("share/over-time/?queue=what").status_code == 400


def test_a_forecast_has_exactly_the_documented_members(house):
    lab, _ = house
    for name, project in (("alice", "alpha"), ("bob", "beta")):
        models = [b.model(lab.who[name], f"m{n}", n, project=project) for n in (5, 6)]
        b.submitted(lab.who[name], b.merge_body(models, project=project), now=b.later(3600))
    Balance.objects.filter(key="alpha").update(settled_at=timezone.now())
    answer = caller(lab, "bob").get("share/forecast/").json()
    assert answer.keys() == shapes.ForecastShape().fields.keys()
    assert [(row["name"], row["project"], row["ahead"]) for row in answer["results"]] == [
        ("beta", None, None), ("alpha", None, "beta"), ("bob", "beta", None)
    ]  # fmt: skip
    alpha = answer["results"][1]
    assert alpha.keys() == shapes.ForeseenShape().fields.keys()
    assert len(alpha["points"]) == 8
    assert alpha["points"][0].keys() == shapes.SharePoint().fields.keys()
    assert alpha["points"][7]["account_gpu_h"] == pytest.approx(alpha["points"][0]["account_gpu_h"] / 2)
    assert alpha["falls_behind_at"] is None
