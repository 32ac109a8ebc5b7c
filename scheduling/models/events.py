"""What happened, in the same transaction as the change it records: audit, timeline and outbox in one."""

from __future__ import annotations

from django.db import models


class Event(models.Model):
    """One fact. ``id`` orders them; ``version`` is the object's version after the change."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    type = models.CharField(max_length=40)
    actor = models.CharField(max_length=160, default="", blank=True)
    object = models.CharField(max_length=12)
    object_id = models.CharField(max_length=80)
    version = models.PositiveBigIntegerField(default=0)
    project = models.CharField(max_length=63, blank=True, default="", help_text="who may see it; blank = everyone")
    attempt = models.UUIDField(null=True)
    epoch = models.PositiveBigIntegerField(default=0)
    node = models.CharField(max_length=63, blank=True, default="")
    message = models.TextField(blank=True, default="")
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["object", "object_id", "id"], name="event_by_object"),
            models.Index(fields=["at"], name="event_by_time"),
        ]

    def __str__(self) -> str:
        return f"#{self.id} {self.type}"


class SchedulerState(models.Model):
    """The one row of the scheduler: who leads, until when, and how the last tick went."""

    holder = models.CharField(max_length=120, blank=True, default="")
    epoch = models.PositiveBigIntegerField(default=0)
    expires_at = models.DateTimeField(null=True)
    last_tick_at = models.DateTimeField(null=True)
    last_tick_ms = models.FloatField(default=0.0)
    ticks = models.PositiveBigIntegerField(default=0)
    holds = models.JSONField(default=dict, help_text="why jobs wait: one entry a shape, never one a job")
    alarms = models.JSONField(default=list)
    silence_guard = models.JSONField(
        default=dict,
        help_text="the nodes that fell silent together, each with when it was last heard from, and until when",
    )
    silence_confirmed_at = models.DateTimeField(
        null=True, help_text="an operator said then that the many nodes that had fallen silent are gone"
    )

    store_name = models.CharField(max_length=40, blank=True, default="", help_text="of the artifact directory")

    def __str__(self) -> str:
        return f"{self.holder or 'nobody'} leads (epoch {self.epoch})"


class Availability(models.Model):
    """The one row that says since when web processes have been accepting heartbeats without a gap (D21)."""

    since = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"accepting since {self.since}"
