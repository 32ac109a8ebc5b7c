"""What a job waits for: other jobs."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q


class Predecessor(models.Model):
    """``job`` starts only after another has ended: ``before``, which is the job that was ``named``, or the one that has
    taken its place since."""

    job = models.ForeignKey("Job", on_delete=models.CASCADE, related_name="predecessors")
    before = models.ForeignKey("Job", on_delete=models.CASCADE, related_name="successors")
    named = models.UUIDField(help_text="the id in the request, by which references to its outputs know it")
    place = models.PositiveSmallIntegerField(help_text="in the list of the request, from 0")

    class Meta:
        ordering = ["job", "place"]
        constraints = [
            models.UniqueConstraint(fields=["job", "named"], name="predecessor_named_once"),
            models.UniqueConstraint(fields=["job", "before"], name="predecessor_once"),
            models.CheckConstraint(condition=~Q(job=F("before")), name="predecessor_is_another"),
            models.CheckConstraint(condition=Q(place__lt=64), name="predecessors_at_most_64"),
        ]

    def __str__(self) -> str:
        return f"{self.job_id} after {self.before_id}"
