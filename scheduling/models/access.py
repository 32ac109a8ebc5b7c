"""Credentials: API tokens with scopes, and idempotency keys."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from knox.models import AbstractAuthToken

SCOPES = (
    "jobs:read",
    "jobs:submit",
    "jobs:submit:critical",
    "artifacts:read",
    "artifacts:write",
    "webhooks:write",
    "pool:read",
    "pool:operate",
    "admin",
)


class ApiToken(AbstractAuthToken):
    """A user's token: hashed at rest, scoped, expiring, shown once."""

    name = models.CharField(max_length=80, default="token")
    scopes = models.JSONField(default=list)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created"]

    def __str__(self) -> str:
        return f"{self.name} of {self.user_id}"


class IdempotencyKey(models.Model):
    """The job that a key made; the row and the job are written in one transaction."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    body_sha256 = models.CharField(max_length=64)
    job = models.ForeignKey("Job", on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_job_per_idempotency_key")]

    def __str__(self) -> str:
        return self.key
