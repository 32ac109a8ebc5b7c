"""Every change of policy, with who, when, before and after."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from scheduling import admin_history
from scheduling.models import Level, Membership, PreemptionRule, Project, Queue
from scheduling.services import windows
from scheduling.store import seed
from tests import builders as b
from tests.api.calls import Caller, token

from .test_admin import boss
from .test_queues import form as queue_form

pytestmark = pytest.mark.django_db
PAGE = "/admin/scheduling/changes/"


def newest(*of, **more):
    return admin_history.newest(of, **more)


def weights(client, **wanted):
    rows = list(Project.objects.order_by("name"))
    form = {"form-TOTAL_FORMS": str(len(rows)), "form-INITIAL_FORMS": str(len(rows)), "_save": "Save"}
    for i, row in enumerate(rows):
        form |= {f"form-{i}-id": str(row.pk), f"form-{i}-weight": str(wanted.get(row.name, row.weight))}
    assert client.post("/admin/scheduling/project/", form).status_code == 302


def test_a_weight_is_told_with_what_it_was_and_by_whom():
    b.people()
    weights(boss(), alpha=5)
    change = newest("project")[0]
    assert (change.of, change.what, change.did, change.who, change.fields) == (
        "project", "alpha", "changed", "admin", (("weight", "2", "5"),),
    )  # fmt: skip
    html = boss().get(PAGE).content.decode()
    assert "<del>2</del></td><td><ins>5</ins>" in html


def test_what_a_command_has_made_is_told_as_such():
    b.people()
    seed.project("gamma", weight=4.0)
    change = newest("project")[0]
    assert (change.what, change.did, change.who) == ("gamma", "added", "a command")
    assert ("weight", "–", "4") in change.fields


def test_a_number_of_a_level_is_told_by_its_queue_and_name():
    b.people()
    page = f"/admin/scheduling/queue/{Queue.objects.get(name='inference').pk}/change/"
    assert boss().post(page, queue_form({"Realtime": 9})).status_code == 302
    change = next(row for row in newest("level") if row.did == "changed" and row.fields)
    assert (change.what, change.who, change.fields) == ("inference/Realtime", "admin", (("value", "4", "9"),))


def test_a_rule_and_a_person_are_told_by_their_names_also_when_they_are_gone():
    b.people()
    rule = PreemptionRule.objects.get(preemptor__name="Realtime")
    rule.delete()
    change = newest("preemptionrule")[0]
    assert (change.what, change.did) == ("inference/Realtime > inference/Normal", "deleted")
    assert change.fields == (
        ("preemptor", "inference/Realtime", "–"), ("victim", "inference/Normal", "–"),
    )  # fmt: skip
    Level.objects.filter(name="Realtime").first().delete()
    assert newest("preemptionrule")[0].what == "inference/Realtime > inference/Normal"
    member = Membership.objects.get(user__username="bob")
    member.weight = 3.0
    member.save()
    change = newest("membership")[0]
    assert (change.what, change.fields) == ("bob in beta", (("weight", "1", "3"),))


def test_windows_are_told_by_whichever_door_they_were_made():
    lab = b.lab()
    body = {"name": "fans", "nodes": ["n1"], "start": "2030-01-01T00:00:00Z", "end": "2030-01-01T06:00:00Z"}
    made = Caller(token(lab.who["admin"])).post("pool/windows/", body)
    assert made.status_code == 201
    windows.remove(made.json()["id"], lab.who["admin"], b.NOON)
    rows = {row.did: row for row in newest("window")}
    said = "fans: n1 closed to all jobs from 2030-01-01 00:00 to 2030-01-01 06:00 UTC"
    assert (rows["added"].who, rows["added"].what) == ("admin", "fans")
    assert rows["added"].fields == (("nodes and time", "–", said),)
    assert rows["removed"].fields == (("nodes and time", said, "–"),)


def test_one_table_and_one_person_can_be_asked_for():
    b.people()
    weights(boss(), alpha=5)
    html = boss().get(PAGE, {"of": "queue"}).content.decode()
    assert "Queue merge" in html
    assert "Project alpha" not in html
    html = boss().get(PAGE, {"who": "admin"}).content.decode()
    assert "Project alpha" in html
    assert "Queue merge" not in html
    html = boss().get(PAGE, {"who": "nobody-at-all"}).content.decode()
    assert "Nothing was changed that matches." in html


def test_older_changes_are_on_the_next_page_and_none_is_told_twice_or_left_out():
    b.people()
    client = boss()
    for weight in range(1, 61):
        weights(client, alpha=weight + 0.5)
    html = client.get(PAGE, {"of": "project"}).content.decode()
    (older,) = re.findall(r'<a href="([^"]*before=[^"]*)">Older', html)
    more = client.get(PAGE + older.replace("&amp;", "&")).content.decode()
    told = [float(n) for page in (html, more) for n in re.findall(r"<ins>([\d.]+)</ins>", page)]
    assert told[:60] == [n + 0.5 for n in range(60, 0, -1)]


def test_changes_of_one_instant_stay_together():
    b.people()
    Project.history.all().delete()
    rows = [
        Project.history.model(id=1, name="alpha", weight=float(n), history_date=b.later(n // 20), history_type="~")
        for n in range(120)
    ]
    Project.history.bulk_create(rows)
    client, told, query = boss(), [], "?of=project"
    while query:
        html = client.get(PAGE + query.replace("&amp;", "&")).content.decode()
        told += re.findall(r"<ins>([\d.]+)</ins>", html)
        (query,) = re.findall(r'<a href="([^"]*before=[^"]*)">Older', html) or [""]
    assert len([value for value in told if value != "alpha"]) == 120
    assert told[-1] == "0"


def test_as_many_queries_for_many_changes_as_for_one(django_assert_num_queries):
    b.people()
    client = boss()
    with django_assert_num_queries(6):
        newest("project")
    for weight in range(5, 15):
        weights(client, alpha=weight)
    with django_assert_num_queries(6):
        newest("project")


def test_only_what_one_may_look_at_is_told():
    b.people()
    person = get_user_model().objects.create_user("ops", "", b.PASSWORD, is_staff=True)
    client = Client()
    client.login(username="ops", password=b.PASSWORD)
    assert client.get(PAGE).status_code == 403
    person.user_permissions.add(Permission.objects.get(codename="view_queue"))
    html = client.get(PAGE).content.decode()
    assert "Queue merge" in html
    assert "Project" not in html
    assert "Project" not in client.get(PAGE, {"of": "project"}).content.decode()
    researcher = Client()
    researcher.login(username="alice", password=b.PASSWORD)
    assert researcher.get(PAGE).status_code == 302
