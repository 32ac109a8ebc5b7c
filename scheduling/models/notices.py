"""Who is told of what happens to jobs, and how it was sent: choices, webhooks, notices, deliveries."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduling.core.notices import LONG_WAIT_MINUTES, OF, OWN

WHOSE = [(each, each) for each in OF]


class NoticeChoice(models.Model):
    """What a person is told by e-mail, and which waits are long to them. Without a row: nothing by e-mail."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="notice_choice"
    )
    email_events = models.JSONField(default=list)
    email_of = models.CharField(max_length=8, choices=WHOSE, default=OWN)
    long_wait_minutes = models.PositiveIntegerField(default=LONG_WAIT_MINUTES)
    since = models.DateTimeField(help_text="what happened before is not told")

    def __str__(self) -> str:
        return f"{self.user_id}: {', '.join(self.email_events) or 'nothing'} by e-mail"


class Webhook(models.Model):
    """An address that is told by POST. Its secret is computed from the server's key, its id and ``secret_number``."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=80)
    url = models.CharField(max_length=2048)
    events = models.JSONField(default=list)
    of = models.CharField(max_length=8, choices=WHOSE, default=OWN)
    secret_number = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    since = models.DateTimeField(help_text="what happened before is not told")
    failures = models.PositiveIntegerField(default=0, help_text="tries in a row that did not get through")
    off_at = models.DateTimeField(null=True, help_text="since then nothing is sent to it")
    off_why = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One message: an e-mail (``webhook`` is null) or a POST, with every try to send it."""

    WAITING, SENT, FAILED, DROPPED = "WAITING", "SENT", "FAILED", "DROPPED"
    STATES = tuple((state, state.lower()) for state in (WAITING, SENT, FAILED, DROPPED))

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    webhook = models.ForeignKey(Webhook, null=True, on_delete=models.CASCADE, related_name="deliveries")
    test = models.BooleanField(default=False)
    events = models.PositiveIntegerField(default=0, help_text="how many notices it tells")
    state = models.CharField(max_length=8, choices=STATES, default=WAITING)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    claimed_until = models.DateTimeField(null=True, help_text="until then somebody is sending it")
    tries = models.PositiveSmallIntegerField(default=0, help_text="since it was last asked for; counted as each begins")
    log = models.JSONField(default=list, help_text="one entry a try: at, status, ms, answer, error")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state="WAITING"), name="delivery_due"),
            models.Index(fields=["webhook", "-created_at"], name="delivery_by_webhook"),
            models.Index(fields=["user", "-created_at"], condition=Q(webhook__isnull=True), name="delivery_by_person"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="WAITING", due_at__isnull=False, ended_at__isnull=True)
                | (~Q(state="WAITING") & Q(ended_at__isnull=False)),
                name="delivery_due_iff_waiting",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} ({self.state})"


class Notice(models.Model):
    """One line of a job's timeline for one recipient; at most one, however often the timeline is read."""

    event = models.BigIntegerField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    webhook = models.ForeignKey(Webhook, null=True, on_delete=models.CASCADE, related_name="+")
    delivery = models.ForeignKey(Delivery, null=True, on_delete=models.CASCADE, related_name="notices")
    job = models.ForeignKey("Job", on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=12)
    at = models.DateTimeField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["event"]
        constraints = [
            models.UniqueConstraint(
                fields=["event", "webhook"], condition=Q(webhook__isnull=False), name="one_notice_a_webhook_and_event"
            ),
            models.UniqueConstraint(
                fields=["event", "user"], condition=Q(webhook__isnull=True), name="one_notice_a_person_and_event"
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.event} {self.kind}"


class NoticeCursor(models.Model):
    """The one row that says up to which event everything is told."""

    floor = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"told up to #{self.floor}"
