"""Replays of recent history under a change, and the versions of the policy that may come of them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

QUEUED, RUNNING, DONE, FAILED, CANCELLED = "QUEUED", "RUNNING", "DONE", "FAILED", "CANCELLED"
STATES = (QUEUED, RUNNING, DONE, FAILED, CANCELLED)


class WhatIfRun(models.Model):
    """One replay that somebody asked for: the change, how far it is, and what came out."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="what_ifs")
    created_at = models.DateTimeField()
    days = models.PositiveSmallIntegerField(help_text="so many days up to created_at are played again")
    change = models.JSONField(default=dict, help_text="what differs, as REST takes it")
    state = models.CharField(max_length=9, choices=[(s, s) for s in STATES], default=QUEUED)
    cancel_asked = models.BooleanField(default=False)
    done = models.PositiveIntegerField(default=0, help_text="jobs that were played")
    total = models.PositiveIntegerField(default=0, help_text="jobs that are to be played, in both tellings")
    rate = models.FloatField(null=True, help_text="jobs a second")
    started_at = models.DateTimeField(null=True)
    heard_at = models.DateTimeField(null=True, help_text="when it told last how far it is")
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")
    result = models.JSONField(null=True)

    class Meta:
        ordering = ["-created_at", "id"]
        indexes = [models.Index(fields=["user", "-created_at"], name="what_if_by_user")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=(QUEUED, RUNNING), ended_at__isnull=True)
                | models.Q(state__in=(DONE, FAILED, CANCELLED), ended_at__isnull=False),
                name="what_if_ended_at_iff_over",
            )
        ]

    def __str__(self) -> str:
        return f"what if over {self.days} d ({self.state})"


class PolicyVersion(models.Model):
    """The whole policy as it was from ``at`` on, with who changed it and why."""

    at = models.DateTimeField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    why = models.CharField(max_length=200, blank=True, default="")
    what_if = models.ForeignKey(WhatIfRun, null=True, on_delete=models.SET_NULL, related_name="versions")
    reverts = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="reverted_by")
    policy = models.JSONField()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"policy {self.pk} of {self.at:%Y-%m-%d %H:%M}"
