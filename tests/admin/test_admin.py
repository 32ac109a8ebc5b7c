"""The admin decides policy and sees everything; it never writes what the scheduler writes."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client

from scheduling.models import Job, Level, Node, PreemptionRule, Project
from tests import builders as b

pytestmark = pytest.mark.django_db
OURS = sorted(
    f"{m._meta.app_label}/{m._meta.model_name}"
    for m in admin.site._registry
    if m._meta.app_label in ("scheduling", "auth")
)
RECORDS = ["gpu", "job", "attempt", "allocation", "event", "artifact"]


def boss() -> Client:
    client = Client()
    assert client.login(username="admin", password=b.PASSWORD)
    return client


def world():
    return b.busy_lab()[1]


@pytest.mark.parametrize("page", OURS)
def test_every_list_opens(page):
    world()
    assert boss().get(f"/admin/{page}/").status_code == 200


@pytest.mark.parametrize("page", ["queue/1", "project/1", "node/1", "preemptionrule/1", "fairsharesettings/1"])
def test_a_row_opens(page):
    world()
    assert boss().get(f"/admin/scheduling/{page}/change/").status_code == 200


def test_a_researcher_does_not_get_in():
    world()
    client = Client()
    client.login(username="alice", password=b.PASSWORD)
    assert client.get("/admin/").status_code == 302


def test_weights_are_edited_in_the_list_and_kept_in_the_history():
    b.people()
    rows = list(Project.objects.order_by("name"))
    form = {"form-TOTAL_FORMS": "2", "form-INITIAL_FORMS": "2", "_save": "Save"}
    for i, row in enumerate(rows):
        form |= {f"form-{i}-id": str(row.pk), f"form-{i}-weight": "5" if row.name == "alpha" else "1"}
    boss().post("/admin/scheduling/project/", form)
    alpha = Project.objects.get(name="alpha")
    assert alpha.weight == 5.0
    assert alpha.history.first().history_user.username == "admin"


@pytest.mark.parametrize("weight", ["-1", "nan", "inf", "10000000", "heavy"])
def test_a_weight_that_the_scheduler_would_refuse_is_refused(weight):
    b.people()
    rows = list(Project.objects.order_by("name"))
    form = {"form-TOTAL_FORMS": "2", "form-INITIAL_FORMS": "2", "_save": "Save"}
    for i, row in enumerate(rows):
        form |= {f"form-{i}-id": str(row.pk), f"form-{i}-weight": weight}
    assert boss().post("/admin/scheduling/project/", form).status_code == 200
    assert [p.weight for p in Project.objects.order_by("name")] == [2.0, 1.0]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_can_not_be_added(name):
    world()
    assert boss().get(f"/admin/scheduling/{name}/add/").status_code == 403


@pytest.mark.parametrize("name", [*RECORDS, "node"])
def test_a_record_can_not_be_deleted(name):
    world()
    key = {"job": Job.objects.get().pk}.get(name, 1)
    assert boss().post(f"/admin/scheduling/{name}/{key}/delete/", {"post": "yes"}).status_code in (302, 403)
    html = boss().get(f"/admin/scheduling/{name}/").content.decode()
    assert "delete_selected" not in html
    assert Job.objects.exists()
    assert Node.objects.exists()


def test_a_jobs_state_can_not_be_edited():
    run = world()
    client = boss()
    assert 'name="state"' not in client.get(f"/admin/scheduling/job/{run.job}/change/").content.decode()
    assert client.post(f"/admin/scheduling/job/{run.job}/change/", {"state": "FAILED"}).status_code == 403
    assert Job.objects.get(pk=run.job).state == "RUNNING"


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_is_posted_is_refused(name):
    world()
    rows = apps.get_model("scheduling", name).objects
    before = list(rows.values())
    key = rows.order_by("pk").first().pk
    posted = {"state": "RETIRED", "released_at_0": "2026-01-01", "outcome": "FAILED", "message": "x", "name": "x"}
    assert boss().post(f"/admin/scheduling/{name}/{key}/change/", posted).status_code == 403
    assert list(rows.values()) == before


def test_a_nodes_state_can_not_be_edited():
    world()
    client = boss()
    assert 'name="state"' not in client.get("/admin/scheduling/node/1/change/").content.decode()
    assert client.post("/admin/scheduling/node/1/change/", {"state": "LOST"}).status_code == 403


def test_a_new_nodes_token_is_shown_once_and_is_good_for_it():
    world()
    client = boss()
    html = client.post("/admin/scheduling/node/add/", {"name": "n7"}).content.decode()
    token = re.search(r'<pre id="token">(emepn_[^<]+)</pre>', html).group(1)
    assert token not in client.get(f"/admin/scheduling/node/{Node.objects.get(name='n7').pk}/change/").content.decode()
    answer = Client().post("/api/v1/nodes/register/", b.description("n7"), "application/json",
                           headers={"authorization": f"Bearer {token}"})  # fmt: skip
    assert answer.status_code == 200


def test_a_bad_node_name_is_refused_beside_its_field():
    world()
    html = boss().post("/admin/scheduling/node/add/", {"name": "Bad Name!"}).content.decode()
    assert "use 1 to 63 lower-case letters, digits and dashes" in html


def test_a_rule_by_which_jobs_would_evict_each_other_is_refused():
    b.people()
    normal = Level.objects.get(queue__name="merge", name="Normal")
    for victim in (normal, Level.objects.get(queue__name="merge", name="High")):
        answer = boss().post("/admin/scheduling/preemptionrule/add/", {"preemptor": normal.pk, "victim": victim.pk})
        assert answer.status_code == 200
        assert f"the number of its level ({victim.value}) must be below 2" in answer.content.decode()
    assert not PreemptionRule.objects.filter(preemptor=normal).exists()
