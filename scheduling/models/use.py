"""What was there of GPUs and how busy they were, as it was looked at once a minute; no state depends on it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class PoolHour(models.Model):
    """An hour of the pool, in GPU-ms, as far as it was looked at: from ``since`` up to ``until``."""

    hour = models.DateTimeField(unique=True)
    since = models.DateTimeField()
    until = models.DateTimeField()
    installed_ms = models.BigIntegerField(default=0, help_text="of GPUs that were not retired")
    out_ms = models.BigIntegerField(default=0, help_text="of it, of those out of service or on lost nodes")
    known_ms = models.BigIntegerField(default=0, help_text="of it, of those whose utilization was known")
    busy_ms = models.BigIntegerField(default=0, help_text="that, times the utilization")

    class Meta:
        ordering = ["hour"]
        constraints = [
            models.CheckConstraint(condition=Q(until__gte=models.F("since")), name="pool_hour_ends_after_its_begin"),
        ]

    def __str__(self) -> str:
        return f"the pool at {self.hour:%Y-%m-%d %H}"


class AttemptHour(models.Model):
    """How busy the GPUs of an attempt were in an hour, in GPU-ms, as far as it is known."""

    attempt = models.ForeignKey("Attempt", on_delete=models.CASCADE, related_name="hours")
    hour = models.DateTimeField()
    known_ms = models.BigIntegerField(default=0)
    busy_ms = models.BigIntegerField(default=0, help_text="the time that is known, times the utilization")

    class Meta:
        ordering = ["hour", "attempt_id"]
        constraints = [models.UniqueConstraint(fields=["attempt", "hour"], name="one_row_an_hour_of_an_attempt")]
        indexes = [models.Index(fields=["hour"], name="attempt_hour_by_time")]

    def __str__(self) -> str:
        return f"{self.attempt_id} at {self.hour:%Y-%m-%d %H}"


class IdleStretch(models.Model):
    """A time in which a GPU was held and did next to nothing, from the first look that found it so to the last one."""

    allocation = models.ForeignKey("Allocation", on_delete=models.CASCADE, related_name="idle")
    since = models.DateTimeField()
    until = models.DateTimeField()
    open = models.BooleanField(default=True, help_text="the newest look found it so")

    class Meta:
        ordering = ["-until", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["allocation"], condition=Q(open=True), name="one_open_idle_stretch_per_allocation"
            ),
            models.CheckConstraint(condition=Q(until__gte=models.F("since")), name="idle_stretch_ends_after_its_begin"),
        ]
        indexes = [models.Index(fields=["until"], name="idle_stretch_by_end")]

    def __str__(self) -> str:
        return f"{self.allocation_id} idle since {self.since:%Y-%m-%d %H:%M}"
