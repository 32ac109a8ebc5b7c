"""Somebody chooses what to be told, makes a webhook, sees why one is refused, and watches a test arrive."""

from __future__ import annotations

import ipaddress

import pytest
from playwright.sync_api import expect

from scheduling.models import NoticeChoice, Webhook
from scheduling.services import notices, now
from tests import builders as b
from tests.browser.person import Person
from tests.services.receiver import receiving

pytestmark = pytest.mark.browser


def test_choices_are_kept_and_a_test_is_seen_to_arrive(chromium, server, settings):
    b.people()
    person = Person(chromium, server)
    page = person.sign_in()
    page.get_by_role("link", name="alice").click()
    form = page.locator("#mail-form")
    expect(page.get_by_text("asked for nothing yet")).to_be_visible()
    expect(page.get_by_text("You get no e-mail")).to_be_visible()
    form.get_by_label("failed or reached its time limit").check()
    form.get_by_label("A wait is long from, in minutes").fill("15")
    form.get_by_role("button", name="Keep this").click()
    expect(page.get_by_text("What you are told by e-mail is changed.")).to_be_visible()
    row = NoticeChoice.objects.get()
    assert (row.email_events, row.long_wait_minutes) == (["failed"], 15)

    page.get_by_text("New webhook").click()
    form = page.locator("#hook-form")
    form.get_by_label("Name").fill("ci")
    form.get_by_label("Address").fill("https://127.0.0.1/hook")
    form.get_by_role("button", name="Make a webhook").click()
    expect(form.get_by_text("which is no address in the Internet")).to_be_visible()
    form.get_by_label("Address").fill("https://93.184.216.34/hook")
    form.get_by_role("button", name="Make a webhook").click()
    secret = page.locator(".secret")
    expect(secret).to_contain_text("emephs_")
    shown = secret.inner_text()
    key = Webhook.objects.get().pk
    page.goto(f"{server.url}/account/webhooks/{key}/")
    assert shown not in page.content()

    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("A test is on its way.")).to_be_visible()
    expect(page.locator("#log").get_by_text("not tried yet")).to_be_visible()
    with receiving() as other:
        settings.WEBHOOK_HTTP, settings.WEBHOOK_PORTS = True, (other.port,)
        settings.WEBHOOK_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"),)
        Webhook.objects.update(url=other.url)
        notices.run(now())
        expect(page.locator("#log").get_by_text("arrived", exact=True)).to_be_visible()  # without a reload
    assert [each["events"][0]["type"] for each in other.bodies] == ["test"]
    page.get_by_text("Remove", exact=True).click()
    page.get_by_role("button", name="Yes, remove it").click()
    expect(page.get_by_text("The webhook is removed.")).to_be_visible()
    complaints = [c for c in person.complaints if "422" not in c]
    person.leave()
    assert complaints == []
    assert not Webhook.objects.exists()
