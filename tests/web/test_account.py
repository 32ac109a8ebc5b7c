"""Signing in, tokens shown once, and a changed password."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from scheduling.models import ApiToken
from scheduling.services import now
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def test_the_right_password_leads_to_the_board():
    b.people()
    response = Client().post("/login/", {"username": "alice", "password": b.PASSWORD})
    assert (response.status_code, response["Location"]) == (302, "/")


def test_a_wrong_password_says_what_to_do():
    b.people()
    assert "try again" in text(Client().post("/login/", {"username": "alice", "password": "wrong"}))


def test_after_eight_wrong_passwords_the_sign_in_pauses(settings):
    settings.AXES_ENABLED = True
    b.people()
    client = Client()
    answers = [client.post("/login/", {"username": "alice", "password": "wrong"}) for _ in range(8)]
    assert answers[-1].status_code == 429
    assert "Sign-in is paused" in text(answers[-1])


def test_signing_out_ends_the_session():
    b.people()
    client = browser()
    client.post("/logout/")
    assert client.get("/").status_code == 302


def test_a_token_is_shown_once_and_works():
    b.people()
    client = browser()
    html = text(client.post("/account/tokens/", {"name": "ci", "days": "30", "scope": ["jobs:read"]}))
    secret = re.search(r'<pre class="secret">(emep_[^<]+)</pre>', html).group(1)
    assert secret not in text(client.get("/account/"))
    answer = Client().get("/api/v1/jobs/", headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == 200


def test_a_token_without_a_name_or_scope_is_refused_with_both_reasons():
    b.people()
    response = browser().post("/account/tokens/", {"name": "", "days": "30"})
    assert (response.status_code, sorted(response.context["errors"])) == (422, ["name", "scopes"])


def test_a_researcher_can_not_give_a_token_what_only_an_admin_may():
    b.people()
    browser().post("/account/tokens/", {"name": "x", "days": "30", "scope": ["jobs:read", "admin"]})
    assert not ApiToken.objects.exists()


def test_a_revoked_token_is_gone():
    b.people()
    client = browser()
    client.post("/account/tokens/", {"name": "ci", "days": "30", "scope": ["jobs:read"]})
    client.post(f"/account/tokens/{ApiToken.objects.get().digest[:16]}/revoke/")
    assert not ApiToken.objects.exists()


def test_a_token_that_has_expired_says_so_and_counts_no_more():
    b.people()
    client = browser()
    for name in ("old", "new"):
        client.post("/account/tokens/", {"name": name, "days": "30", "scope": ["jobs:read"]})
    assert "2 tokens can act for you" in text(client.get("/account/"))
    ApiToken.objects.filter(name="old").update(expiry=now())
    page = text(client.get("/account/"))
    assert "1 token can act for you" in page
    assert page.count('<span class="tag warn">expired</span>') == 1


def test_another_persons_token_can_not_be_revoked():
    b.people()
    browser().post("/account/tokens/", {"name": "ci", "days": "30", "scope": ["jobs:read"]})
    token = ApiToken.objects.get().digest[:16]
    assert browser("bob").post(f"/account/tokens/{token}/revoke/").status_code == 404


def test_a_password_is_changed_and_the_old_one_no_longer_works():
    b.people()
    new = "a much longer sentence 7"
    browser().post("/account/password/", {"old_password": b.PASSWORD, "new_password1": new, "new_password2": new})
    assert not Client().login(username="alice", password=b.PASSWORD)
    assert Client().login(username="alice", password=new)


def test_a_weak_password_is_refused_beside_its_field():
    b.people()
    weak = {"old_password": b.PASSWORD, "new_password1": "password", "new_password2": "password"}
    html = text(browser().post("/account/password/", weak))
    assert "too common" in html
