"""Credentials: what is wrong with one, what it may do, and that it is noticed at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection

from scheduling.models import ApiToken
from scheduling.services import now
from tests import builders as b
from tests.api.calls import Caller, problem, token, world

pytestmark = pytest.mark.django_db


def refused(caller: Caller, code: str) -> None:
    answer = caller.get("jobs/")
    problem(answer, 401, code)
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_no_credential_is_401():
    world(node=False)
    refused(Caller(), "not_authenticated")


@pytest.mark.parametrize("wrong", ["emep_" + "0" * 64, "nonsense", "emep_", "emep_\xe9"])
def test_a_wrong_token_is_401(wrong: str):
    world(node=False)
    refused(Caller(wrong), "invalid_token")


def test_a_token_with_a_space_is_401():
    w = world(node=False)
    refused(Caller(token(w.who["alice"]) + " x"), "bad_header")


def test_an_expired_token_is_401_says_so_and_stays_listed():
    w = world(node=False)
    mine, other = token(w.who["alice"], "jobs:read"), token(w.who["alice"], "jobs:read")
    ApiToken.objects.update(expiry=now() - timedelta(seconds=1))
    for _ in range(2):
        refused(Caller(mine), "expired_token")
    ApiToken.objects.filter(digest__startswith="").update(expiry=now() + timedelta(days=1))
    assert Caller(other).get("jobs/").status_code == 200
    assert ApiToken.objects.count() == 2


def test_a_revoked_token_is_401_at_once():
    w = world(node=False)
    mine = token(w.who["alice"])
    listed = Caller(mine).get("tokens/").json()["results"]
    assert Caller(mine).delete(f"tokens/{listed[0]['id']}/").status_code == 204
    refused(Caller(mine), "invalid_token")


def test_a_deactivated_person_is_401_by_token_and_by_session():
    w = world(node=False)
    by_token, by_session = w.alice, Caller(session="alice")
    get_user_model().objects.filter(username="alice").update(is_active=False)
    refused(by_token, "inactive_user")
    refused(by_session, "not_authenticated")


def test_a_token_of_somebody_who_left_the_project_sees_it_no_more():
    w = world(node=False)
    job = b.submitted(w.who["alice"], w.body())
    get_user_model().objects.get(username="alice").memberships.all().delete()
    problem(w.alice.get(f"jobs/{job}/"), 404)


def test_last_used_is_kept_at_most_once_a_minute(monkeypatch):
    w = world(node=False)
    alice = w.alice
    seen = []
    for seconds in (0, 30, 61):
        monkeypatch.setattr("scheduling.api.access.now", lambda s=seconds: b.later(s))
        alice.get("jobs/")
        seen.append(ApiToken.objects.get().last_used_at)
    assert seen == [b.later(0), b.later(0), b.later(61)]


@pytest.mark.django_db(transaction=True)
def test_a_read_is_answered_while_nothing_can_be_written():
    w = world(node=False)
    alice = w.alice

    def locked(execute, sql, *rest):
        if not sql.lstrip().startswith(("SELECT", "SAVEPOINT", "RELEASE")):
            raise OperationalError("database is locked")
        return execute(sql, *rest)

    with connection.execute_wrapper(locked):
        assert alice.get("jobs/").status_code == 200
        problem(alice.post("jobs/", w.body()), 503, "database_unavailable")
    assert ApiToken.objects.get().last_used_at is None


def test_a_session_may_read_and_needs_the_csrf_token_to_change_anything():
    world(node=False)
    browser = Caller(session="alice", csrf=True)
    assert browser.get("jobs/").status_code == 200
    problem(browser.post("jobs/", {"kind": "merge"}), 403, "permission_denied")


def test_a_session_with_the_csrf_token_may_what_the_person_may():
    w = world()
    browser = Caller(session="alice", csrf=True)
    browser.client.cookies["csrftoken"] = secret = "x" * 32
    assert browser.post("jobs/", w.body(), X_CSRFToken=secret).status_code == 201


def test_a_token_needs_no_csrf_token():
    w = world()
    caller = Caller(token(w.who["alice"]), csrf=True)
    assert caller.post("jobs/", w.body()).status_code == 201


def test_a_users_token_is_no_good_on_a_nodes_call():
    w = world()
    problem(w.alice.post("nodes/heartbeat/", {}), 401, "not_a_node_token")


def test_a_nodes_token_is_no_good_on_a_persons_call():
    w = world()
    problem(w.node.get("jobs/"), 401, "node_token")


def test_a_replaced_node_token_is_401():
    w = world()
    old = w.node
    b.node("n1")
    problem(old.post("nodes/heartbeat/", {}), 401, "invalid_token")


def test_the_admin_scope_is_worth_nothing_without_being_an_admin():
    w = world(node=False)
    problem(w.caller("alice", "admin").get("jobs/"), 403, "scope_missing")
    assert w.caller("admin", "admin").get("jobs/").status_code == 200


def test_critical_needs_the_permission_and_a_token_needs_the_scope_too():
    from django.contrib.auth.models import Permission

    w = world()
    alice = get_user_model().objects.get(username="alice")
    alice.user_permissions.add(Permission.objects.get(codename="submit_critical"))
    alice.memberships.update(level_cap=4)
    body = w.body(priority="Critical", purpose="regression_gate")
    problem(w.caller("alice", "jobs:submit").post("jobs/", body), 422, "priority_not_permitted")
    assert w.caller("alice", "jobs:submit", "jobs:submit:critical", "jobs:read").post("jobs/", body).status_code == 201
