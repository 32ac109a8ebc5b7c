"""Choosing what to be told, and looking after one's webhooks, without scripts."""

from __future__ import annotations

import html
import re

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from scheduling.models import ApiToken, Delivery, NoticeChoice, Webhook
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
URL = "https://93.184.216.34/hook"
POSTED = {"name": "ci", "url": URL, "event": ["failed"], "of": "own"}


def made(client: Client) -> Webhook:
    client.post("/account/webhooks/", POSTED)
    return Webhook.objects.latest("created_at")


def test_at_first_nothing_is_told_and_the_page_says_why_no_e_mail_comes():
    b.people()
    page = text(browser().get("/account/"))
    assert "asked for nothing yet" in page
    assert "EMEP_EMAIL_URL" in page
    assert not NoticeChoice.objects.exists()


def test_with_a_mail_server_the_page_tells_where_e_mail_goes_or_whom_to_ask(settings):
    b.people()
    settings.EMAIL_IS_SENT = True
    assert "ask an admin to enter it" in text(browser().get("/account/"))
    get_user_model().objects.filter(username="alice").update(email="alice@example.org")
    assert "alice@example.org" in text(browser().get("/account/"))


def test_choices_are_kept_and_shown():
    b.people()
    client = browser()
    posted = {"event": ["failed", "started"], "of": "projects", "long_wait_minutes": "90"}
    assert client.post("/account/notices/", posted).status_code == 302
    page = text(client.get("/account/"))
    assert re.findall(r'name="event" value="(\w+)" checked', page.split('id="hook-form"')[0]) == ["failed", "started"]
    assert 'value="90"' in page
    client.post("/account/notices/", {"of": "own", "long_wait_minutes": "90"})
    assert NoticeChoice.objects.get().email_events == []


def test_a_wrong_choice_stands_beside_its_field_with_what_was_typed():
    b.people()
    response = browser().post("/account/notices/", {"event": ["failed"], "of": "own", "long_wait_minutes": "soon"})
    assert response.status_code == 422
    assert "long_wait_minutes must be a whole number from 1 to 43200" in html.unescape(text(response))
    assert 'value="soon"' in text(response)


def test_a_webhooks_secret_is_shown_on_one_answer_only():
    b.people()
    client = browser()
    response = client.post("/account/webhooks/", POSTED)
    secret = re.search(r'<pre class="secret">(emephs_[^<]+)</pre>', text(response)).group(1)
    assert "no-store" in response["Cache-Control"]
    key = Webhook.objects.get().pk
    assert secret not in text(client.get(f"/account/webhooks/{key}/")) + text(client.get("/account/"))
    other = text(client.post(f"/account/webhooks/{key}/secret/"))
    assert re.search(r'<pre class="secret">(emephs_[^<]+)</pre>', other).group(1) != secret


def test_a_webhook_that_is_refused_keeps_what_was_typed():
    b.people()
    response = browser().post("/account/webhooks/", {**POSTED, "url": "https://10.0.0.1/", "name": ""})
    page = text(response)
    assert response.status_code == 422
    assert "no address in the Internet" in page
    assert 'value="https://10.0.0.1/"' in page
    assert not Webhook.objects.exists()


def test_a_webhook_is_changed_switched_off_and_on_and_removed():
    b.people()
    client = browser()
    hook = made(client)
    client.post(f"/account/webhooks/{hook.pk}/change/", {**POSTED, "name": "new", "event": ["succeeded"]})
    client.post(f"/account/webhooks/{hook.pk}/off/")
    assert "Nothing is sent to it: its owner switched it off." in text(client.get(f"/account/webhooks/{hook.pk}/"))
    hook.refresh_from_db()
    assert (hook.name, hook.events, hook.off_at is None) == ("new", ["succeeded"], False)
    client.post(f"/account/webhooks/{hook.pk}/on/")
    assert Webhook.objects.get().off_at is None
    client.post(f"/account/webhooks/{hook.pk}/remove/")
    assert not Webhook.objects.exists()


def test_a_test_and_a_second_sending_are_in_the_log():
    b.people()
    client = browser()
    hook = made(client)
    client.post(f"/account/webhooks/{hook.pk}/test/")
    page = text(client.get(f"/account/webhooks/{hook.pk}/"))
    assert "not tried yet" in page
    assert 'hx-trigger="every 2s"' in page
    row = Delivery.objects.get()
    said = {"at": b.NOON.isoformat(), "status": 500, "ms": 7, "answer": "<b>oops</b>", "error": "it answered 500"}
    Delivery.objects.update(state="FAILED", due_at=None, ended_at=b.NOON, log=[said, said])
    page = text(client.get(f"/account/webhooks/{hook.pk}/"))
    assert "&lt;b&gt;oops&lt;/b&gt;" in page
    assert "2 tries" in page
    assert "every 2s" not in page
    client.post(f"/account/webhooks/{hook.pk}/deliveries/{row.pk}/redeliver/")
    assert Delivery.objects.get().state == "WAITING"
    answer = client.post(f"/account/webhooks/{hook.pk}/deliveries/{row.pk}/redeliver/", follow=True)
    assert "Nothing was sent: it is still being tried" in text(answer)


@pytest.mark.parametrize("verb", ["change", "secret", "test", "on", "off", "remove"])
def test_another_persons_webhook_is_not_there(verb):
    b.people()
    hook = made(browser())
    stranger = browser("bob")
    assert stranger.get(f"/account/webhooks/{hook.pk}/").status_code == 404
    assert stranger.post(f"/account/webhooks/{hook.pk}/{verb}/", POSTED).status_code == 404
    assert Webhook.objects.filter(pk=hook.pk, off_at=None, secret_number=1).exists()


def test_nothing_changes_by_a_mere_look():
    b.people()
    client = browser()
    hook = made(client)
    assert client.get(f"/account/webhooks/{hook.pk}/remove/").status_code == 405
    assert client.get("/account/notices/").status_code == 405


def test_a_test_e_mail_that_can_not_be_sent_says_why():
    b.people()
    assert "No test was sent: whoever runs this server has set no mail server" in text(
        browser().post("/account/notices/test/", follow=True)
    )


def test_a_refused_token_keeps_its_own_form_and_leaves_the_others():
    b.people()
    page = text(browser().post("/account/tokens/", {"name": "", "days": "30"}))
    assert 'id="hook-form"' in page
    assert not ApiToken.objects.exists()
