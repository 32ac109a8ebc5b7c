"""Webhooks and choices over REST: made, changed, tested, looked at, sent again."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from scheduling.api.shapes import notices as shapes
from scheduling.models import Delivery, Webhook
from scheduling.services import notices
from tests import builders as b
from tests.api.calls import Caller, error, problem, world
from tests.services.receiver import receiving

pytestmark = pytest.mark.django_db
PUBLIC = "https://93.184.216.34/hook"
BODY = {"name": "ci", "url": PUBLIC, "events": ["failed", "succeeded"]}


def test_a_webhook_is_made_with_a_secret_that_is_shown_once():
    w = world(node=False)
    made = w.alice.post("webhooks/", BODY)
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    assert made.json().keys() == shapes.WebhookMade().fields.keys()
    secret = made.json()["secret"]
    key = made.json()["id"]
    for path in ("webhooks/", f"webhooks/{key}/", f"webhooks/{key}/deliveries/"):
        assert secret not in w.alice.get(path).content.decode()
    shown = w.alice.get(f"webhooks/{key}/").json()
    assert shown.keys() == shapes.WebhookShape().fields.keys()
    assert (shown["events"], shown["of"], shown["active"]) == (["succeeded", "failed"], "own", True)


def test_what_is_left_out_of_a_change_stays():
    w = world(node=False)
    key = w.alice.post("webhooks/", BODY).json()["id"]
    changed = w.alice.put(f"webhooks/{key}/", {"of": "projects", "active": False}).json()
    assert (changed["of"], changed["active"], changed["url"]) == ("projects", False, PUBLIC)
    assert changed["off_why"] == "its owner switched it off"
    again = w.alice.put(f"webhooks/{key}/", {"active": True}).json()
    assert (again["active"], again["off_why"]) == (True, "")


@pytest.mark.parametrize(
    ("changed", "field", "code"),
    [
        ({"url": "http://93.184.216.34/"}, "url", "bad_url"),
        ({"url": "https://127.0.0.1/"}, "url", "private_address"),
        ({"url": "https://93.184.216.34:8080/"}, "url", "bad_port"),
        ({"url": 7}, "url", "bad_url"),
        ({"url": None}, "url", "required"),
        ({"name": "a\nb"}, "name", "bad_name"),
        ({"events": ["end"]}, "events.0", "unknown_event"),
        ({"events": "failed"}, "events", "bad_value"),
        ({"of": "everybody"}, "of", "bad_value"),
        ({"secret": "mine"}, "secret", "unknown_field"),
    ],
)
def test_what_is_wrong_is_refused_when_made_and_when_changed(changed: dict[str, Any], field: str, code: str):
    w = world(node=False)
    error(w.alice.post("webhooks/", {**BODY, **changed}), 422, field, code)
    key = w.alice.post("webhooks/", BODY).json()["id"]
    error(w.alice.put(f"webhooks/{key}/", changed), 422, field, code)
    assert w.alice.get(f"webhooks/{key}/").json()["url"] == PUBLIC


def test_another_persons_webhook_is_not_there():
    w = world(node=False)
    key = w.alice.post("webhooks/", BODY).json()["id"]
    bob = w.caller("bob")
    assert bob.get("webhooks/").json()["results"] == []
    for call in (bob.get, bob.delete):
        problem(call(f"webhooks/{key}/"), 404)
    problem(bob.post(f"webhooks/{key}/secret/"), 404)
    assert Webhook.objects.filter(pk=key).exists()


@pytest.mark.parametrize("path", ["webhooks/7/", "webhooks/../", "webhooks/7/deliveries/"])
def test_what_is_no_id_is_not_there(path: str):
    assert world(node=False).alice.get(path).status_code == 404


def test_a_token_that_only_reads_makes_no_webhook():
    w = world(node=False)
    reader = w.caller("alice", "jobs:read")
    assert reader.get("webhooks/").status_code == 200
    assert problem(reader.post("webhooks/", BODY), 403)["scope"] == "webhooks:write"
    writer = w.caller("alice", "webhooks:write")
    assert writer.post("webhooks/", BODY).status_code == 201


def test_a_test_is_sent_seen_in_the_log_and_sent_again(settings):
    w = world(node=False)
    with receiving() as other:
        settings.WEBHOOK_HTTP, settings.WEBHOOK_PORTS = True, (other.port,)
        settings.WEBHOOK_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"),)
        key = w.alice.post("webhooks/", {**BODY, "url": other.url}).json()["id"]
        queued = w.alice.post(f"webhooks/{key}/test/")
        assert queued.status_code == 202
        row = w.alice.get(f"webhooks/{key}/deliveries/").json()["results"][0]
        assert (row["id"], row["state"], row["tries"]) == (queued.json()["delivery"], "WAITING", [])
        notices.run(Delivery.objects.get().due_at)
        row = w.alice.get(f"webhooks/{key}/deliveries/").json()["results"][0]
        assert row.keys() == shapes.DeliveryShape().fields.keys()
        assert row["tries"][0].keys() == shapes.TryShape().fields.keys()
        assert (row["state"], row["tries"][0]["status"]) == ("SENT", 200)
        again = f"webhooks/{key}/deliveries/{row['id']}/redeliver/"
        assert w.alice.post(again).status_code == 202
        problem(w.alice.post(again), 409, "still_waiting")
        notices.run(Delivery.objects.get().due_at)
        assert len({str(each) for each in other.bodies}) == 1
        assert len(other.bodies) == 2


def test_the_sixth_test_in_a_minute_waits():
    w = world(node=False)
    key = w.alice.post("webhooks/", BODY).json()["id"]
    assert [w.alice.post(f"webhooks/{key}/test/").status_code for _ in range(6)] == [202] * 5 + [429]


def test_a_webhook_that_is_off_is_sent_no_test():
    w = world(node=False)
    key = w.alice.post("webhooks/", BODY).json()["id"]
    w.alice.put(f"webhooks/{key}/", {"active": False})
    problem(w.alice.post(f"webhooks/{key}/test/"), 409, "webhook_off")


def test_the_log_comes_in_pages():
    w = world(node=False)
    key = w.alice.post("webhooks/", BODY).json()["id"]
    for n in range(5):
        Delivery.objects.create(user_id=w.who["alice"].user_id, webhook_id=key, state="SENT", created_at=b.later(n),
                                ended_at=b.later(n))  # fmt: skip
    first = w.alice.get(f"webhooks/{key}/deliveries/?limit=3").json()
    second = w.alice("GET", first["next"].split("testserver")[1]).json()
    ids = [row["id"] for row in (*first["results"], *second["results"])]
    assert ids == [str(d.pk) for d in Delivery.objects.order_by("-created_at")]


def test_choices_begin_with_nothing_and_are_changed_one_by_one(settings):
    w = world(node=False)
    shown = w.alice.get("notices/").json()
    assert shown.keys() == shapes.ChoicesShape().fields.keys()
    assert (shown["events"], shown["of"], shown["long_wait_minutes"]) == ([], "own", 60)
    assert "EMEP_EMAIL_URL" in shown["why_none"]
    changed = w.alice.put("notices/", {"events": ["started", "failed"], "long_wait_minutes": 30}).json()
    assert (changed["events"], changed["long_wait_minutes"]) == (["failed", "started"], 30)
    assert w.alice.put("notices/", {"events": []}).json()["long_wait_minutes"] == 30
    wrong = w.alice.put("notices/", {"long_wait_minutes": 0})
    assert error(wrong, 422, "long_wait_minutes", "out_of_range")["limit"] == 1


def test_a_test_e_mail_needs_a_mail_server_and_an_address(settings):
    w = world(node=False)
    problem(w.alice.post("notices/test/"), 409, "no_email")
    settings.EMAIL_IS_SENT = True
    get_user_model().objects.filter(username="alice").update(email="alice@example.org")
    assert w.alice.post("notices/test/").status_code == 202


def test_a_browser_may_do_it_too_with_its_csrf_token_alone():
    world(node=False)
    assert Caller(session="alice").post("webhooks/", BODY).status_code == 201
    assert Caller(session="alice", csrf=True).post("webhooks/", BODY).status_code == 403
