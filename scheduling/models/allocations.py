"""Runs of jobs: attempts, the GPUs they hold, and what they said."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

OUTCOMES = ["SUCCEEDED", "FAILED", "OOM", "TIMED_OUT", "CANCELLED", "PREEMPTED", "LOST"]


class Attempt(models.Model):
    """One run of a job. ``epoch`` fences it: a message with another number changes nothing."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    job = models.ForeignKey("Job", on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    epoch = models.PositiveBigIntegerField()
    granted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    remaining_s = models.PositiveIntegerField(help_text="of max_duration, at the grant")
    resume = models.ForeignKey("Artifact", null=True, on_delete=models.SET_NULL, related_name="+")
    resume_step = models.PositiveBigIntegerField(default=0)
    action = models.CharField(max_length=4, default="run", choices=[(a, a) for a in ("run", "stop", "kill")])
    why = models.CharField(max_length=12, blank=True, default="")
    stop_by = models.DateTimeField(null=True, help_text="the end of the grace")
    asked_at = models.DateTimeField(null=True, help_text="when it was asked to stop, for the first time")
    evicted_for = models.ForeignKey(
        "Job", null=True, on_delete=models.SET_NULL, related_name="+", help_text="the job that is to get its GPUs"
    )
    resumed_at = models.DateTimeField(null=True, help_text="when it got on from the checkpoint it began with")
    outcome = models.CharField(max_length=12, blank=True, default="", choices=[(o, o) for o in OUTCOMES])
    exit_code = models.IntegerField(null=True)
    error = models.TextField(blank=True, default="")
    log_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        ordering = ["job_id", "number"]
        indexes = [
            models.Index(fields=["ended_at"], name="attempt_by_end"),
            models.Index(fields=["ended_at"], condition=Q(why="preempt"), name="attempt_evicted"),
            models.Index(fields=["resumed_at"], condition=Q(resumed_at__isnull=False), name="attempt_resumed"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["job"], condition=Q(ended_at__isnull=True), name="one_live_attempt_per_job"
            ),
            models.UniqueConstraint(fields=["job", "number"], name="attempt_numbers_are_unique"),
            models.UniqueConstraint(fields=["job", "epoch"], name="epochs_are_unique"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}"


class AttemptNode(models.Model):
    """One node's part of an attempt; rank 0 leads. The attempt ends when all its parts have.

    ``ready_at`` and ``port`` are only of attempts on several nodes: nothing of one starts before all are ready, and
    its ranks meet at the port that rank 0 has bound.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="nodes")
    node = models.ForeignKey("Node", on_delete=models.PROTECT, related_name="parts")
    rank = models.PositiveSmallIntegerField(default=0)
    claimed_at = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    port = models.PositiveIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=12, blank=True, default="", choices=[(o, o) for o in OUTCOMES])
    end = models.JSONField(default=dict, help_text="how it ended")
    transfer = models.JSONField(null=True, help_text="what the node moves for it just now, and how far it is")

    class Meta:
        ordering = ["attempt_id", "rank"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "node"], name="one_part_per_node"),
            models.UniqueConstraint(fields=["attempt", "rank"], name="one_part_per_rank"),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, outcome="") | (Q(ended_at__isnull=False) & ~Q(outcome="")),
                name="a_part_that_ended_says_how",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.attempt_id} rank {self.rank}"


class Allocation(models.Model):
    """One GPU held by one attempt, from ``granted_at`` to ``released_at``: what is charged."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="allocations")
    gpu = models.ForeignKey("Gpu", on_delete=models.PROTECT, related_name="allocations")
    granted_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)
    billing = models.FloatField(default=1.0)
    gpu_index = models.PositiveIntegerField(
        null=True, help_text="the GPU's number on its node at the grant, as a reboot may reorder them"
    )

    class Meta:
        ordering = ["attempt_id", "gpu_id"]
        indexes = [models.Index(fields=["released_at"], name="allocation_by_release")]
        constraints = [
            models.UniqueConstraint(
                fields=["gpu"], condition=Q(released_at__isnull=True), name="one_open_allocation_per_gpu"
            ),
            models.UniqueConstraint(fields=["attempt", "gpu"], name="a_gpu_once_per_attempt"),
            models.CheckConstraint(
                condition=Q(released_at__isnull=True) | Q(released_at__gte=models.F("granted_at")),
                name="released_after_granted",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.gpu_id} by {self.attempt_id}"

    @property
    def index(self) -> int:
        """The number that the GPU had when it was granted; of a grant that was not kept with it, the one it has now."""
        return self.gpu.index if self.gpu_index is None else self.gpu_index


class LostWork(models.Model):
    """GPU time that an attempt held in vain for no fault of its job's, by cause; it is given back in fair share (D6).

    The last stretch, since its newest checkpoint, has to be done again; the first one went into resuming.
    """

    CAUSES = ("preempt", "health", "drain", "lost")
    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="lost_work")
    cause = models.CharField(max_length=12, choices=[(cause, cause) for cause in CAUSES])
    in_vain = models.BooleanField(default=False, help_text="evicted for a job that then did not take its GPUs")
    at = models.DateTimeField()
    redo_since = models.DateTimeField(null=True, help_text="from then to its end it worked in vain")
    resume_until = models.DateTimeField(null=True, help_text="from its grant until then it was resuming")
    gpu_ms = models.PositiveBigIntegerField(default=0, help_text="both stretches together, times its GPUs")

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["at"], name="lost_work_by_time")]

    def __str__(self) -> str:
        return f"{self.gpu_ms} GPU-ms of {self.attempt_id} by {self.cause}"


class LogChunk(models.Model):
    """A piece of an attempt's log. ``offset`` and ``size`` count UTF-8 bytes."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="log")
    rank = models.PositiveSmallIntegerField(default=0)
    offset = models.PositiveBigIntegerField()
    size = models.PositiveIntegerField()
    text = models.TextField()

    class Meta:
        ordering = ["attempt_id", "rank", "offset"]
        constraints = [models.UniqueConstraint(fields=["attempt", "rank", "offset"], name="one_log_chunk_per_offset")]

    def __str__(self) -> str:
        return f"{self.attempt_id} @{self.offset}"


class MetricPoint(models.Model):
    """One value of one series of an attempt."""

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="metrics")
    name = models.CharField(max_length=80)
    step = models.PositiveBigIntegerField()
    value = models.FloatField()

    class Meta:
        ordering = ["attempt_id", "name", "step"]
        constraints = [models.UniqueConstraint(fields=["attempt", "name", "step"], name="one_metric_value_per_step")]

    def __str__(self) -> str:
        return f"{self.name}@{self.step}={self.value}"
