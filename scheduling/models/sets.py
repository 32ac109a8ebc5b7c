"""Jobs that were submitted together."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q


class JobSet(models.Model):
    """The jobs of one pipeline, or of one sweep; they are its ``members``."""

    KINDS = (("pipeline", "pipeline"), ("sweep", "sweep"))

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=8, choices=KINDS)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    max_running = models.PositiveIntegerField(null=True, help_text="so many of its jobs at a time; null: all that can")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=("pipeline", "sweep")), name="job_set_kind_known"),
            models.CheckConstraint(
                condition=Q(max_running__isnull=True) | Q(kind="sweep", max_running__gte=1),
                name="job_set_limit_of_a_sweep",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"
