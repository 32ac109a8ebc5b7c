"""From what happens to a job to what arrives: to whom, once, joined, tried again, and given up."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core import mail

from scheduling.core.notices import MAX_TRIES, OFF_AFTER
from scheduling.models import Delivery, Event, Membership, Notice, NoticeChoice, NoticeCursor, Webhook
from scheduling.services import jobs, notice_choices, notice_mail, notices, pool, webhook_post, webhooks
from scheduling.services.webhooks import Secret
from scheduling.store.commit import notice_gathering, notice_sending
from tests import builders as b
from tests.services.receiver import post_office, receiving

pytestmark = pytest.mark.django_db
ALL = ["succeeded", "failed", "cancelled", "preempted", "started"]


@pytest.fixture
def lab(settings):
    """The lab, with e-mail that is sent and addresses of alice and bob; nothing was told before noon."""
    made = b.lab()
    settings.EMAIL_IS_SENT = True
    for name in ("alice", "bob", "admin"):
        get_user_model().objects.filter(username=name).update(email=f"{name}@example.org")
    notices.run(b.NOON)
    return made


@pytest.fixture
def other(settings):
    """Somebody who takes POSTs, at an address that webhooks may have."""
    with receiving() as it:
        settings.WEBHOOK_HTTP, settings.WEBHOOK_PORTS = True, (it.port,)
        settings.WEBHOOK_NETWORKS = (ipaddress.ip_network("127.0.0.0/8"),)
        yield it


def tells(actor, events, of="own", **kw) -> None:
    assert notice_choices.choose(actor, {"events": events, "of": of, **kw}, b.NOON) == ()


def hook(actor, other, events=ALL, of="own") -> Secret:
    made = webhooks.add(actor, {"name": "ci", "url": other.url, "events": events, "of": of}, b.NOON)
    assert isinstance(made, Secret), made
    return made


def failed(lab, at=10, **kw):
    """A job of alice's has failed."""
    run = b.running(lab.who["alice"], lab.models, now=b.later(at), **kw)
    b.finished(run, "FAILED", exit_code=1, error="out of memory", now=b.later(at + 1))
    return run


def told(until=100) -> list[str]:
    """The e-mails that were sent by then, as (to, subject)."""
    notices.run(b.later(until))
    return [(m.to[0].split("@")[0], m.subject) for m in mail.outbox]


def test_nobody_is_told_anything_unasked(lab):
    failed(lab)
    assert told() == []
    assert not Notice.objects.exists()


def test_a_failure_is_told_with_why_and_where(lab):
    tells(lab.who["alice"], ["failed"])
    run = failed(lab)
    assert told() == [("alice", "EMEP: slerp-a-b failed")]
    sent = mail.outbox[0]
    assert "out of memory" in sent.body
    assert f"/jobs/{run.job}/" in sent.body
    assert "/account/#notices" in sent.body
    assert sent.extra_headers["Auto-Submitted"] == "auto-generated"
    assert told(200) == [("alice", "EMEP: slerp-a-b failed")]


def test_each_end_is_told_to_whoever_asked_for_that_end_alone(lab):
    tells(lab.who["alice"], ["succeeded"])
    failed(lab)
    run = b.running(lab.who["alice"], lab.models, now=b.later(20), name="good")
    b.finished(run, artifacts=[b.output(run, now=b.later(25))], now=b.later(30))
    assert told() == [("alice", "EMEP: good succeeded")]


def test_jobs_of_ones_projects_are_told_to_whoever_asked_and_others_never(lab):
    tells(lab.who["bob"], ["failed"], "projects")
    tells(lab.who["admin"], ["failed"], "projects")
    failed(lab)
    assert told(300) == []  # the admin may see every project and belongs to none
    project = Membership.objects.get(user_id=lab.who["alice"].user_id).project
    Membership.objects.create(user_id=lab.who["bob"].user_id, project=project, level_cap=3)
    failed(lab, 400, name="second")
    assert told(500) == [("bob", "EMEP: second failed")]


def test_who_left_the_project_since_is_not_told(lab, other):
    hook(lab.who["alice"], other)
    failed(lab)
    notice_gathering.gather(b.later(12))
    notice_gathering.bundle(b.later(12), join=timedelta(0), every=timedelta(0))
    Membership.objects.filter(user_id=lab.who["alice"].user_id).delete()
    notices.run(b.later(13))
    assert other.got == []
    assert set(Delivery.objects.values_list("state", flat=True)) == {"DROPPED"}


def test_what_one_does_oneself_is_no_e_mail(lab):
    tells(lab.who["alice"], ["cancelled"])
    run = b.running(lab.who["alice"], lab.models)
    jobs.cancel(run.job, lab.who["alice"], b.later(1))
    b.finished(run, "CANCELLED", now=b.later(2))
    waiting = b.submitted(lab.who["alice"], b.merge_body(lab.models, name="waits"), now=b.later(3))
    jobs.cancel(waiting, lab.who["alice"], b.later(4))
    third = b.submitted(lab.who["alice"], b.merge_body(lab.models, name="third"), now=b.later(5))
    jobs.cancel(third, lab.who["admin"], b.later(6))
    assert told() == [("alice", "EMEP: third was cancelled")]


def test_a_preempted_job_is_told_when_it_has_left(lab):
    tells(lab.who["alice"], ["preempted"])
    run = b.running(lab.who["alice"], lab.models, name="moved")
    b.finished(run, "LOST", error="the node rebooted", now=b.later(5))
    assert told() == [("alice", "EMEP: moved lost its GPUs and waits again")]
    assert "the node rebooted" in mail.outbox[0].body


@pytest.mark.parametrize(("minutes", "expected"), [(1, 1), (2, 0)])
def test_a_start_is_told_after_a_long_wait_alone(lab, minutes, expected):
    tells(lab.who["alice"], ["started"], long_wait_minutes=minutes)
    job = b.submitted(lab.who["alice"], b.merge_body(lab.models, name="patient"), now=b.later(0))
    b.listening(120)
    b.beat(now=b.later(90))
    b.ticked(b.later(90))
    wanted = b.beat(now=b.later(90))["desired"][0]
    pool.claim("n1", wanted["attempt"], wanted["epoch"], b.later(90))
    report = {"type": "started", "attempt": wanted["attempt"], "epoch": wanted["epoch"], "pid": 1}
    b.beat(now=b.later(91), reports=[report])
    sent = told(300)
    assert len(sent) == expected
    if expected:
        assert sent == [("alice", "EMEP: patient has started")]
        assert "after waiting 1 min" in mail.outbox[0].body
        assert str(job) in mail.outbox[0].body


def test_what_happened_before_one_asked_is_not_told(lab):
    failed(lab)
    assert notice_choices.choose(lab.who["alice"], {"events": ["failed"]}, b.later(50)) == ()
    assert told() == []


def test_a_change_of_choices_loses_nothing_that_just_happened(lab):
    tells(lab.who["alice"], ["failed"])
    failed(lab)
    assert notice_choices.choose(lab.who["alice"], {"events": ["failed", "succeeded"]}, b.later(50)) == ()
    assert told() == [("alice", "EMEP: slerp-a-b failed")]


def test_what_is_not_asked_for_any_more_is_not_told(lab):
    tells(lab.who["alice"], ["failed"])
    failed(lab)
    notices.run(b.later(12))  # noticed, and too young to be sent
    assert Notice.objects.count() == 1
    tells(lab.who["alice"], [])
    assert told() == []


def test_a_burst_is_one_e_mail_and_the_next_one_waits(lab, settings):
    tells(lab.who["alice"], ["failed"])
    for n in range(3):
        failed(lab, 10 + 3 * n, name=f"of-a-burst-{n}")
    assert told(30) == []  # it waits for its companions
    assert told(60) == [("alice", "EMEP: 3 jobs failed")]
    failed(lab, 100, name="later")
    assert len(told(200)) == 1
    assert told(60 + 601) == [("alice", "EMEP: 3 jobs failed"), ("alice", "EMEP: later failed")]


def test_a_sweep_that_fails_is_one_e_mail_of_the_sweep(lab):
    tells(lab.who["alice"], ["failed"])
    sweep = b.a_set(lab.who["alice"], "sweep")
    job = Event.objects.filter(type="submitted").latest("id")
    notes = [Event(at=b.later(5), type="failed", object="job", object_id=job.object_id, project="alpha",
                   message="no such row", data={"from": "RUNNING", "to": "FAILED"}) for _ in range(1000)]  # fmt: skip
    Event.objects.bulk_create(notes)
    assert told() == [("alice", "EMEP: 1,000 jobs of one sweep failed")]
    assert f"/jobs/?sweep={sweep}" in mail.outbox[0].body
    assert Delivery.objects.get().events == 1000


def test_a_webhook_is_sent_signed_events_with_their_ids(lab, other):
    made = hook(lab.who["alice"], other)
    run = failed(lab)
    notices.run(b.later(20))
    (headers, body) = other.got[0]
    at, sent = (part.split("=")[1] for part in headers["X-EMEP-Signature"].split(","))
    mine = hmac.new(made.secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert mine == sent
    assert abs(int(at) - b.later(20).timestamp()) < 60
    content = other.bodies[0]
    assert content["delivery"] == headers["X-EMEP-Delivery"]
    (event,) = content["events"]
    assert (event["type"], event["job"]["id"], event["job"]["state"]) == ("failed", run.job, "FAILED")
    assert event["id"] == str(Event.objects.get(type="failed").pk)
    assert "out of memory" in event["message"]
    assert Delivery.objects.get().log[0]["status"] == 200


def test_a_webhook_is_told_many_at_once(lab, other):
    hook(lab.who["alice"], other, ["failed"])
    run = failed(lab)
    Event.objects.bulk_create(
        [
            Event(at=b.later(15), type="failed", object="job", object_id=run.job, data={"to": "FAILED"})
            for _ in range(249)
        ]
    )
    notices.run(b.later(20))
    assert sorted(len(each["events"]) for each in other.bodies) == [50, 100, 100]
    assert len({e["id"] for each in other.bodies for e in each["events"]}) == 250


def test_looking_again_and_again_tells_nothing_twice(lab, other):
    hook(lab.who["alice"], other)
    failed(lab)
    for at in (20, 21, 25, 400, 500):
        notices.run(b.later(at))
    assert len(other.got) == 1
    assert NoticeCursor.objects.get().floor == Event.objects.latest("id").pk


def test_a_row_that_commits_late_is_told_all_the_same(lab, other):
    hook(lab.who["alice"], other)
    run = failed(lab)
    late = Event.objects.get(type="failed")
    Event.objects.filter(pk=late.pk).delete()  # its number is taken, and nobody sees it yet
    Event.objects.create(at=b.later(12), type="progress", object="job", object_id=run.job)
    notices.run(b.later(20))
    assert other.got == []
    late.save(force_insert=True)
    notices.run(b.later(25))
    assert [e["id"] for each in other.bodies for e in each["events"]] == [str(late.pk)]


def test_what_does_not_get_through_is_tried_again_with_the_same_ids_and_then_given_up(lab, other):
    hook(lab.who["alice"], other)
    failed(lab)
    other.answer = lambda _: (503, b"busy", {})
    at = b.later(20)
    for _ in range(MAX_TRIES):
        notices.run(at)
        row = Delivery.objects.get()
        assert row.due_at is None or row.due_at > at
        at = row.due_at or at
    assert (row.state, row.tries, len(row.log)) == ("FAILED", MAX_TRIES, MAX_TRIES)
    notices.run(at + timedelta(days=1))
    assert len(other.got) == MAX_TRIES
    assert len({str(each) for each in other.bodies}) == 1
    assert {entry["status"] for entry in row.log} == {503}


def test_it_gets_through_later_and_the_count_begins_anew(lab, other):
    made = hook(lab.who["alice"], other)
    failed(lab)
    other.answer = lambda n: (500 if n < 3 else 200, b"", {})
    for at in (20, 60, 200):
        notices.run(b.later(at))
    row = Delivery.objects.get()
    assert (row.state, [entry["status"] for entry in row.log]) == ("SENT", [500, 500, 200])
    assert Webhook.objects.get(pk=made.webhook).failures == 0


def test_a_webhook_that_never_answers_is_switched_off_and_told_why(lab, other):
    made = hook(lab.who["alice"], other)
    Webhook.objects.update(failures=OFF_AFTER - 1)
    other.answer = lambda _: (500, b"", {})
    failed(lab)
    notices.run(b.later(20))
    row = Webhook.objects.get(pk=made.webhook)
    assert row.off_at is not None
    assert f"{OFF_AFTER} tries in a row" in row.off_why
    assert set(Delivery.objects.values_list("state", flat=True)) == {"FAILED"}
    failed(lab, 30)
    notices.run(b.later(40))
    assert len(other.got) == 1
    assert webhooks.change(lab.who["alice"], row.pk, {"active": True}, b.later(50)) is True
    other.answer = lambda _: (200, b"", {})
    failed(lab, 60, name="after")
    notices.run(b.later(80))
    assert [each["events"][0]["job"]["name"] for each in other.bodies[1:]] == ["after"]


def test_an_address_that_is_gone_is_switched_off_at_once(lab, other):
    hook(lab.who["alice"], other)
    other.answer = lambda _: (410, b"", {})
    failed(lab)
    notices.run(b.later(20))
    assert "410" in Webhook.objects.get().off_why


def test_a_sender_that_dies_in_the_middle_leaves_its_message_to_the_next(lab, other):
    hook(lab.who["alice"], other)
    failed(lab)
    notice_gathering.gather(b.later(12))
    notice_gathering.bundle(b.later(12), join=timedelta(0), every=timedelta(0))
    (dead,) = notice_sending.claim(b.later(12), limit=10)
    notices.run(b.later(20))
    assert other.got == []  # it is that sender's until its lease ends
    notices.run(b.later(12) + notice_sending.LEASE)
    assert [each["delivery"] for each in other.bodies] == [str(dead.id)]
    log = Delivery.objects.get().log
    assert [entry["error"] for entry in log] == [notice_sending.LOST, ""]
    # and when it was not dead after all, what it says does not count any more
    late = notice_sending.Tried(ok=False, ms=1, error="too late")
    assert not notice_sending.record(dead, late, b.later(500))
    assert Delivery.objects.get().state == "SENT"


def test_a_message_that_kills_its_senders_is_not_tried_for_ever(lab, other):
    hook(lab.who["alice"], other)
    failed(lab)
    notice_gathering.gather(b.later(12))
    notice_gathering.bundle(b.later(12), join=timedelta(0), every=timedelta(0))
    at = b.later(12)
    for _ in range(MAX_TRIES):
        assert len(notice_sending.claim(at, limit=10)) == 1
        at += notice_sending.LEASE
    assert notice_sending.claim(at, limit=10) == []
    row = Delivery.objects.get()
    assert (row.state, len(row.log)) == ("FAILED", MAX_TRIES)


def test_two_senders_never_have_one_message(lab, other):
    hook(lab.who["alice"], other)
    failed(lab)
    notice_gathering.gather(b.later(12))
    notice_gathering.bundle(b.later(12), join=timedelta(0), every=timedelta(0))
    assert [len(notice_sending.claim(b.later(13), limit=10)) for _ in range(3)] == [1, 0, 0]


def test_a_test_and_a_delivery_that_was_done_with_are_sent_when_asked(lab, other):
    made = hook(lab.who["alice"], other)
    webhooks.test(lab.who["alice"], Webhook.objects.get().pk, b.later(1))
    notices.run(b.later(2))
    assert other.bodies[0]["events"][0]["type"] == "test"
    failed(lab)
    notices.run(b.later(20))
    row = Delivery.objects.get(test=False)
    assert webhooks.redeliver(lab.who["alice"], row.webhook_id, row.pk, b.later(30)) is True
    assert webhooks.redeliver(lab.who["alice"], row.webhook_id, row.pk, b.later(30)).code == "still_waiting"
    notices.run(b.later(31))
    assert other.bodies[1] == other.bodies[2]
    assert len(Delivery.objects.get(test=False).log) == 2
    assert made.webhook == other.bodies[2]["webhook"]


def test_tests_are_five_a_minute(lab, other):
    key = Webhook.objects.get(pk=hook(lab.who["alice"], other).webhook).pk
    for _ in range(5):
        assert not isinstance(webhooks.test(lab.who["alice"], key, b.later(1)), webhooks.NotNow)
    assert webhooks.test(lab.who["alice"], key, b.later(2)).code == "too_many_tests"
    assert not isinstance(webhooks.test(lab.who["alice"], key, b.later(62)), webhooks.NotNow)


def test_a_new_secret_signs_from_then_on_and_no_secret_is_stored(lab, other):
    made = hook(lab.who["alice"], other)
    row = Webhook.objects.get(pk=made.webhook)
    new = webhooks.renew_secret(lab.who["alice"], row.pk)
    assert new is not None
    assert new.secret != made.secret
    assert new.secret.startswith("emephs_")
    webhooks.test(lab.who["alice"], row.pk, b.later(1))
    notices.run(b.later(2))
    headers, body = other.got[0]
    assert headers["X-EMEP-Signature"] == webhook_post.signature(
        new.secret, int(headers["X-EMEP-Signature"][2:].split(",")[0]), body
    )
    assert new.secret not in str(list(Webhook.objects.values()))


def test_a_changed_address_is_not_sent_what_the_old_one_did_not_take(lab, other):
    made = hook(lab.who["alice"], other)
    other.answer = lambda _: (500, b"", {})
    failed(lab)
    notices.run(b.later(20))
    row = Webhook.objects.get(pk=made.webhook)
    webhooks.change(lab.who["alice"], row.pk, {"url": other.url + "&new"}, b.later(25))
    notices.run(b.later(500))
    assert len(other.got) == 1
    assert Delivery.objects.get().log[-1]["error"] == "the webhook was changed before it got through"


def test_an_e_mail_passes_through_a_real_mail_server(lab, settings):
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = "django.core.mail.backends.smtp.EmailBackend", "127.0.0.1"
    tells(lab.who["alice"], ["failed"])
    failed(lab)
    with post_office() as (port, messages):
        settings.EMAIL_PORT = port
        notices.run(b.later(100))
    row = Delivery.objects.get()
    assert (row.state, len(messages)) == ("SENT", 1)
    assert f"Message-ID: <{row.pk}@" in messages[0]
    assert "Subject: EMEP: slerp-a-b failed" in messages[0]
    assert "To: alice@example.org" in messages[0]


def test_an_address_that_is_refused_for_good_is_not_tried_again(lab, settings):
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = "django.core.mail.backends.smtp.EmailBackend", "127.0.0.1"
    tells(lab.who["alice"], ["failed"])
    failed(lab)
    with post_office("550 no such person") as (port, _):
        settings.EMAIL_PORT = port
        notices.run(b.later(100))
    row = Delivery.objects.get()
    assert (row.state, row.log[0]["error"]) == ("FAILED", "the mail server answered 550: no such person")


def test_a_mail_server_that_is_away_is_asked_again(lab, settings):
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = "django.core.mail.backends.smtp.EmailBackend", "127.0.0.1"
    settings.EMAIL_PORT = 1  # nobody listens there
    tells(lab.who["alice"], ["failed"])
    failed(lab)
    notices.run(b.later(100))
    row = Delivery.objects.get()
    assert (row.state, row.log[0]["error"]) == (
        "WAITING", "the mail server could not be asked (ConnectionRefusedError): tell whoever runs this server",
    )  # fmt: skip
    with post_office() as (port, messages):
        settings.EMAIL_PORT = port
        notices.run(b.later(130))
    assert len(messages) == 1


def test_without_a_mail_server_or_an_address_the_choices_say_so(lab, settings):
    assert notice_choices.chosen(lab.who["alice"])["why_none"] == ""
    get_user_model().objects.update(email="")
    assert notice_choices.chosen(lab.who["alice"])["why_none"] == notice_mail.NO_ADDRESS
    settings.EMAIL_IS_SENT = False
    assert notice_choices.chosen(lab.who["alice"])["why_none"] == notice_mail.NOT_SET
    assert notice_choices.test(lab.who["alice"], b.later(1)) == ("no_email", notice_mail.NOT_SET)


def test_a_test_e_mail_is_sent(lab):
    notice_choices.test(lab.who["alice"], b.later(1))
    assert told(2) == [("alice", "EMEP: a test")]


def test_a_person_who_is_not_active_any_more_is_told_nothing(lab, other):
    hook(lab.who["alice"], other)
    tells(lab.who["alice"], ["failed"])
    failed(lab)
    notice_gathering.gather(b.later(12))
    notice_gathering.bundle(b.later(12), join=timedelta(0), every=timedelta(0))
    get_user_model().objects.filter(username="alice").update(is_active=False)
    assert told() == []
    assert other.got == []


def test_old_messages_go_with_what_they_told(lab, other):
    hook(lab.who["alice"], other)
    failed(lab)
    notices.run(b.later(20))
    assert notices.retain(b.later(20) + timedelta(days=30)) == 0
    assert notices.retain(b.later(20) + timedelta(days=30, seconds=60)) == 1
    assert (Delivery.objects.count(), Notice.objects.count()) == (0, 0)


def test_a_person_may_have_ten_webhooks(lab, other):
    for _ in range(10):
        hook(lab.who["alice"], other)
    again = webhooks.add(lab.who["alice"], {"name": "x", "url": other.url, "events": ["failed"]}, b.NOON)
    assert [(e["code"], e["limit"]) for e in again] == [("too_many", 10)]


def test_choices_begin_quiet_and_keep_what_is_not_told(lab):
    assert notice_choices.chosen(lab.who["alice"]) == {
        "address": "alice@example.org", "events": [], "of": "own", "long_wait_minutes": 60, "why_none": "",
    }  # fmt: skip
    tells(lab.who["alice"], ["failed"], "projects")
    assert notice_choices.choose(lab.who["alice"], {"long_wait_minutes": 5}, b.NOON) == ()
    row = NoticeChoice.objects.get()
    assert (row.email_events, row.email_of, row.long_wait_minutes) == (["failed"], "projects", 5)


def test_every_fault_of_choices_is_told_at_once(lab):
    body = {"events": ["faild"], "of": "all", "long_wait_minutes": 0, "x": 1}
    wrong = notice_choices.choose(lab.who["alice"], body, b.NOON)
    assert {(e["field"], e["code"]) for e in wrong} == {
        ("events.0", "unknown_event"),
        ("of", "bad_value"),
        ("long_wait_minutes", "out_of_range"),
        ("x", "unknown_field"),
    }
    assert "did you mean 'failed'" in next(e["message"] for e in wrong if e["field"] == "events.0")


def test_every_fault_of_a_webhook_is_told_at_once(lab):
    body = {"name": "", "url": "ci.example", "events": [], "of": 1, "active": "no"}
    wrong = webhooks.add(lab.who["alice"], body, b.NOON)
    assert {(e["field"], e["code"]) for e in wrong} == {
        ("name", "bad_name"),
        ("url", "bad_url"),
        ("events", "bad_value"),
        ("of", "bad_value"),
        ("active", "not_a_boolean"),
    }
    missing = webhooks.add(lab.who["alice"], {}, b.NOON)
    assert {(e["field"], e["code"]) for e in missing} == {
        ("name", "required"),
        ("url", "required"),
        ("events", "required"),
    }
