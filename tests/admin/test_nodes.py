"""Many nodes at once by hand: what runs there is told first, and only what was told is confirmed."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from scheduling.models import Event, Node
from scheduling.services import pool
from tests import builders as b

from .test_admin import boss

pytestmark = pytest.mark.django_db
PAGE = "/admin/scheduling/node/"


def chosen(*names):
    return [str(Node.objects.get(name=name).pk) for name in names]


def asked(client, action, *names, **more):
    """The page that asks."""
    answer = client.post(PAGE, {"action": action, "_selected_action": chosen(*names), **more})
    assert answer.status_code == 200
    return answer.content.decode()


def confirmed(client, action, *names, **more):
    """The answer to the confirmation of what the page showed."""
    (seen,) = re.findall(r'name="seen" value="(\w+)"', asked(client, action, *names))
    return client.post(PAGE, {"action": action, "_selected_action": chosen(*names), "seen": seen, **more})


def state(name="n1"):
    return Node.objects.get(name=name).state


@pytest.mark.parametrize(("action", "becomes"), [("cordon", "CORDONED"), ("drain", "DRAINING")])
def test_nodes_are_closed_once_it_was_confirmed(action, becomes):
    b.lab()
    b.node("n2")
    client = boss()
    html = asked(client, action, "n1", "n2")
    assert "Nothing runs on them." in html
    assert (state("n1"), state("n2")) == ("READY", "READY")
    assert confirmed(client, action, "n1", "n2", reason=" new  fans ").status_code == 302
    assert (state("n1"), state("n2")) == (becomes, becomes)
    assert Node.objects.get(name="n2").why == f"{action} by admin: new fans"
    assert Event.objects.filter(type=f"node_{becomes.lower()}", actor="user admin").count() == 2


def test_what_runs_there_is_told_with_what_would_have_to_be_done_again():
    _, run = b.busy_lab()
    html = asked(boss(), "drain", "n1")
    assert "1 job runs on them." in html
    assert f'<a href="/jobs/{run.job}/">slerp-a-b</a>' in html
    assert "2 Mar 2026, 13:00 UTC" in html
    assert "none: it would begin again" in html
    assert state() == "READY"


def test_a_drain_has_a_deadline():
    b.lab()
    assert confirmed(boss(), "drain", "n1", deadline="4h").status_code == 302
    assert Node.objects.get(name="n1").drain_by is not None
    assert confirmed(boss(), "drain", "n1").status_code == 302
    assert Node.objects.get(name="n1").drain_by is None


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"reason": "x" * 121}, "reason must be a text of 120 characters at most, without NUL; shorten or omit it"),
        ({"deadline": "soon"}, "deadline"),
        ({"deadline": "31d"}, "deadline may be 2592000 s (30d) at most; leave it out to let every job end"),
    ],
)
def test_what_is_wrong_is_told_beside_its_field_and_nothing_is_closed(more, says):
    b.lab()
    answer = confirmed(boss(), "drain", "n1", **more)
    assert answer.status_code == 200
    (told,) = re.findall(r'<ul class="errorlist"[^>]*><li>([^<]*)', answer.content.decode())
    assert says in told
    assert state() == "READY"


def test_when_other_jobs_run_there_than_were_told_it_is_asked_again():
    lab = b.lab()
    client = boss()
    (seen,) = re.findall(r'name="seen" value="(\w+)"', asked(client, "drain", "n1"))
    b.running(lab.who["alice"], lab.models)
    answer = client.post(PAGE, {"action": "drain", "_selected_action": chosen("n1"), "seen": seen})
    assert "Other jobs run there now than those that were shown" in answer.content.decode()
    assert state() == "READY"
    assert confirmed(client, "drain", "n1").status_code == 302
    assert state() == "DRAINING"


def test_nodes_are_returned_to_service():
    who = b.people()
    b.node("n1")
    pool.operate("n1", "cordon", who["admin"], b.NOON)
    html = asked(boss(), "back", "n1")
    assert 'name="reason"' not in html
    assert 'name="deadline"' not in html
    confirmed(boss(), "back", "n1")
    assert state() == "READY"


def test_what_a_node_can_not_do_is_told_by_its_name():
    b.lab()
    b.node("n2")
    Node.objects.filter(name="n1").update(state="LOST")
    client = boss()
    confirmed(client, "back", "n1", "n2")
    assert "N1 is lost: it can&#x27;t be asked to return" in client.get(PAGE).content.decode()


def test_without_the_permission_nobody_closes_nodes():
    b.lab()
    person = get_user_model().objects.create_user("ops", "", b.PASSWORD, is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_node"))
    client = Client()
    client.login(username="ops", password=b.PASSWORD)
    client.post(PAGE, {"action": "drain", "_selected_action": chosen("n1"), "seen": "x"})
    assert state() == "READY"
    person.user_permissions.add(Permission.objects.get(codename="operate_pool"))
    assert confirmed(client, "drain", "n1").status_code == 302
    assert state() == "DRAINING"


def test_an_operator_is_not_told_the_names_of_jobs_of_projects_that_are_not_theirs():
    _, run = b.busy_lab()
    person = get_user_model().objects.create_user("ops", "", b.PASSWORD, is_staff=True)
    person.user_permissions.add(*Permission.objects.filter(codename__in=["view_node", "operate_pool"]))
    client = Client()
    client.login(username="ops", password=b.PASSWORD)
    html = asked(client, "drain", "n1")
    assert "1 job runs on them." in html
    assert "slerp-a-b" not in html
    assert run.job not in html
