"""Tokens over REST: made, listed, revoked, and never more than their maker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.models import ApiToken
from scheduling.services import now
from tests.api.calls import Caller, error, problem, world

pytestmark = pytest.mark.django_db


def test_a_token_is_shown_once_works_and_is_kept_as_a_hash():
    w = world(node=False)
    made = Caller(session="alice").post("tokens/", {"name": "ci", "scopes": ["jobs:read"]})
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    secret = made.json()["token"]
    assert secret.startswith("emep_")
    assert Caller(secret).get("jobs/").status_code == 200
    listed = w.alice.get("tokens/").content.decode()
    assert secret not in listed
    assert secret not in str(list(ApiToken.objects.values()))


def test_the_new_tokens_id_is_the_one_to_revoke_it_by():
    world(node=False)
    browser = Caller(session="alice")
    made = browser.post("tokens/", {"name": "ci", "scopes": ["jobs:read"]}).json()
    assert [t["id"] for t in browser.get("tokens/").json()["results"]] == [made["id"]]
    assert browser.delete(f"tokens/{made['id']}/").status_code == 204
    assert Caller(made["token"]).get("jobs/").status_code == 401


def test_it_lives_90_days_unless_told_otherwise():
    world(node=False)
    browser = Caller(session="alice")
    browser.post("tokens/", {"name": "a", "scopes": ["jobs:read"]})
    browser.post("tokens/", {"name": "b", "scopes": ["jobs:read"], "days": 365})
    lives = {t.name: round((t.expiry - now()) / timedelta(days=1)) for t in ApiToken.objects.all()}
    assert lives == {"a": 90, "b": 365}


@pytest.mark.parametrize(
    ("body", "field", "code", "limit"),
    [
        ({"name": "x", "scopes": ["jobs:read"], "days": 366}, "days", "out_of_range", [1, 365]),
        ({"name": "x", "scopes": ["jobs:read"], "days": 0}, "days", "out_of_range", [1, 365]),
        ({"name": "x", "scopes": ["jobs:read"], "days": True}, "days", "out_of_range", [1, 365]),
        ({"name": "x" * 81, "scopes": ["jobs:read"]}, "name", "bad_name", 80),
        ({"name": "a\nb", "scopes": ["jobs:read"]}, "name", "bad_name", 80),
    ],
)
def test_a_bad_value_is_refused_with_its_limit(body: dict[str, Any], field: str, code: str, limit: Any):
    world(node=False)
    assert error(Caller(session="alice").post("tokens/", body), 422, field, code)["limit"] == limit


def test_every_fault_is_told_at_once_and_unknown_words_name_the_nearest():
    world(node=False)
    answer = Caller(session="alice").post("tokens/", {"scopes": ["jobs:raed"], "days": "many", "scope": 1})
    found = {e["field"]: e["message"] for e in problem(answer, 422)["errors"]}
    assert found.keys() == {"name", "scopes.0", "days", "scope"}
    assert "'jobs:read'" in found["scopes.0"]
    assert "'scopes'" in found["scope"]


@pytest.mark.parametrize("scopes", [None, [], "jobs:read", {}])
def test_a_token_needs_a_list_of_scopes(scopes: Any):
    world(node=False)
    error(Caller(session="alice").post("tokens/", {"name": "x", "scopes": scopes}), 422, "scopes", "required")


def test_a_scope_of_null_is_called_null():
    world(node=False)
    answer = Caller(session="alice").post("tokens/", {"name": "x", "scopes": [None]})
    assert error(answer, 422, "scopes.0", "unknown_scope")["message"] == "there is no scope null"


def test_a_token_can_not_give_a_scope_that_it_lacks():
    w = world(node=False)
    answer = w.caller("alice", "jobs:read").post("tokens/", {"name": "x", "scopes": ["jobs:read", "jobs:submit"]})
    assert error(answer, 422, "scopes.1", "scope_not_held")["limit"] == ["jobs:read"]


@pytest.mark.parametrize("scope", ["admin", "pool:operate", "jobs:submit:critical"])
def test_nobody_can_give_a_scope_beyond_their_own_permissions(scope: str):
    world(node=False)
    body = {"name": "x", "scopes": [scope]}
    error(Caller(session="alice").post("tokens/", body), 422, "scopes.0", "scope_not_held")
    assert Caller(session="admin").post("tokens/", body).status_code == 201


def test_a_token_made_by_a_token_does_not_outlive_it():
    w = world(node=False)
    short = w.caller("alice", "jobs:read")
    ApiToken.objects.update(expiry=now() + timedelta(days=5, hours=1))
    body = {"name": "x", "scopes": ["jobs:read"]}
    assert error(short.post("tokens/", {**body, "days": 6}), 422, "days", "out_of_range")["limit"] == [1, 5]
    made = short.post("tokens/", body)
    assert made.status_code == 201
    assert ApiToken.objects.get(name="x").expiry <= now() + timedelta(days=5)
