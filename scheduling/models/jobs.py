"""A job: what was asked for, and where it stands."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduling.core import lifecycle
from scheduling.core.lifecycle import JobState

STATES = [(s.value, s.value.replace("_", " ").lower()) for s in JobState]
LIVE = sorted(s.value for s in lifecycle.LIVE)
ENDED = sorted(s.value for s in lifecycle.TERMINAL)
REJECTED = JobState.REJECTED.value


class Job(models.Model):
    """One request. ``state`` is written by ``store.commit`` only, guarded by the state machine."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.PositiveBigIntegerField(default=1)
    state = models.CharField(max_length=12, choices=STATES)

    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=31)
    params = models.JSONField(default=dict)
    shape = models.CharField(max_length=16, blank=True, default="", help_text="equal for jobs that fit alike")
    spec = models.JSONField(default=dict, help_text="the accepted request, as it was asked")
    raw = models.TextField(blank=True, default="", help_text="the body of a refused request, up to 64 KB")
    errors = models.JSONField(default=list, help_text="why a refused request was refused")

    project = models.ForeignKey("Project", null=True, on_delete=models.PROTECT, related_name="jobs")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="jobs")
    queue = models.ForeignKey("Queue", null=True, on_delete=models.PROTECT, related_name="jobs")
    level = models.ForeignKey("Level", null=True, on_delete=models.PROTECT, related_name="jobs")

    gpu_count = models.PositiveIntegerField(default=1)
    node_count = models.PositiveIntegerField(default=1)
    gpus_per_node = models.PositiveIntegerField(default=1)
    gpu_memory_min_mib = models.PositiveIntegerField(default=0)
    nvlink_required = models.BooleanField(default=False)
    nvlink_exclusive = models.BooleanField(default=False)
    remainder = models.PositiveIntegerField(
        default=0, help_text="GPUs on one node more, of a count that did not divide"
    )
    affinity = models.JSONField(default=list)
    topology = models.JSONField(
        default=dict,
        blank=True,
        help_text="allow_span, required_level, max_wait_for_level_s, near, apart, as far as asked",
    )
    group = models.CharField(max_length=100, blank=True, default="", help_text="the group of jobs it belongs to")
    not_before = models.DateTimeField(null=True, help_text="not before, as its owner asked")
    start_by = models.DateTimeField(null=True, help_text="not after: cancelled when it has not started by then")
    max_duration_s = models.PositiveIntegerField(default=0)
    retries = models.PositiveSmallIntegerField(default=0)
    preemptible = models.BooleanField(default=True)
    purpose = models.CharField(max_length=31, blank=True, default="")

    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    eligible_at = models.DateTimeField(null=True, help_text="not before, after an infrastructure failure")

    attempt_number = models.PositiveIntegerField(default=0)
    epoch = models.PositiveBigIntegerField(default=0, help_text="fencing number; rises with every grant and loss")
    preempted = models.BooleanField(default=False)
    preempt_count = models.PositiveIntegerField(default=0)
    infra_failures = models.PositiveSmallIntegerField(default=0)
    app_failures = models.PositiveSmallIntegerField(default=0)
    yields = models.PositiveSmallIntegerField(default=0, help_text="yields in a row without progress")
    ran_ms = models.PositiveBigIntegerField(default=0, help_text="running time of ended attempts")
    no_evict_until = models.DateTimeField(
        null=True, help_text="until then it evicts nobody: it evicted the same jobs on the same GPUs again and again"
    )
    avoid = models.JSONField(
        default=dict, help_text="{nodes: [...], gpus: [...]} where it failed for no fault of its own"
    )
    resume = models.ForeignKey("Artifact", null=True, on_delete=models.SET_NULL, related_name="+")
    resume_step = models.PositiveBigIntegerField(default=0)
    resume_saved_at = models.DateTimeField(null=True, help_text="when it, or the job it does again, saved that")
    retry_of = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="retried_as",
        help_text="the ended job that this one does again, from where it was saved",
    )  # fmt: skip
    work_key = models.CharField(
        max_length=64,
        blank=True,
        default="",
        help_text="equal for jobs that come to the same result; empty: unknown",
    )
    member_of = models.ForeignKey(
        "JobSet",
        null=True,
        on_delete=models.PROTECT,
        related_name="members",
        help_text="the pipeline or sweep it is of",
    )
    key = models.CharField(max_length=64, blank=True, default="", help_text="what it is called there")
    place_in_set = models.PositiveSmallIntegerField(default=0, help_text="in what order they were asked for, from 0")
    kept_back = models.BooleanField(
        default=False, help_text="so many of its sweep as may run at a time are ahead of it; it is in no queue"
    )
    awaits = models.PositiveSmallIntegerField(
        default=0, help_text="of so many of its predecessors the end is waited for; until then it is in no queue"
    )
    after_any = models.BooleanField(default=False, help_text="whatever the end of its predecessors")
    depth = models.PositiveIntegerField(
        default=0, help_text="greater than that of every predecessor: rows are locked in this order"
    )
    replaces = models.OneToOneField(
        "self", null=True, on_delete=models.SET_NULL, related_name="replaced_by",
        help_text="the waiting job that this one took the place of",
    )  # fmt: skip

    progress_step = models.PositiveBigIntegerField(default=0)
    progress_total = models.PositiveBigIntegerField(default=0)
    progress_unit = models.CharField(max_length=31, blank=True, default="")
    progress_rate = models.FloatField(null=True, help_text="units a second")

    outcome = models.CharField(max_length=12, blank=True, default="")
    exit_code = models.IntegerField(null=True)
    error = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["-submitted_at", "id"]
        permissions = [
            ("submit_critical", "May ask for Critical and Realtime"),
            ("submit_unpreemptible", "May ask for a job that is never preempted"),
        ]
        indexes = [
            models.Index(fields=["state", "submitted_at", "id"], name="job_by_state"),
            models.Index(fields=["project", "-submitted_at"], name="job_by_project"),
            models.Index(fields=["-submitted_at", "-id"], name="job_newest_first"),
            models.Index(fields=["work_key"], condition=~Q(work_key=""), name="job_by_work"),
            models.Index(
                fields=["no_evict_until"], condition=Q(no_evict_until__isnull=False), name="job_evicts_nobody"
            ),
            models.Index(fields=["start_by"], condition=Q(awaits__gt=0), name="job_awaiting_by_start"),
            models.Index(fields=["member_of"], condition=Q(kept_back=True), name="job_kept_back_by_set"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state=REJECTED) | (Q(gpu_count__gte=1) & Q(gpu_count__lte=100_000)),
                name="job_gpu_count_in_range",
            ),
            models.CheckConstraint(
                condition=Q(state=REJECTED)
                | Q(gpu_count=models.F("node_count") * models.F("gpus_per_node") + models.F("remainder")),
                name="job_gpu_count_is_the_product",
            ),
            models.CheckConstraint(
                condition=Q(start_by__isnull=True)
                | Q(not_before__isnull=True)
                | Q(start_by__gt=models.F("not_before")),
                name="job_start_by_after_not_before",
            ),
            models.CheckConstraint(
                condition=Q(state=REJECTED) | Q(max_duration_s__gte=1), name="job_max_duration_positive"
            ),
            models.CheckConstraint(
                condition=Q(state__in=ENDED, ended_at__isnull=False) | (~Q(state__in=ENDED) & Q(ended_at__isnull=True)),
                name="job_ended_at_iff_terminal",
            ),
            models.CheckConstraint(
                condition=Q(state=REJECTED)
                | Q(project__isnull=False, user__isnull=False, queue__isnull=False, level__isnull=False),
                name="job_accepted_has_owner",
            ),
            models.UniqueConstraint(
                fields=["member_of", "key"], condition=Q(retry_of__isnull=True), name="job_key_once_in_its_set"
            ),
            models.CheckConstraint(
                condition=Q(member_of__isnull=True, key="") | (Q(member_of__isnull=False) & ~Q(key="")),
                name="job_key_iff_in_a_set",
            ),
            models.CheckConstraint(
                condition=Q(kept_back=False) | (Q(member_of__isnull=False) & ~Q(state__in=LIVE)),
                name="job_kept_back_is_not_live",
            ),
            models.CheckConstraint(condition=Q(awaits=0) | ~Q(state__in=LIVE), name="job_that_awaits_is_not_live"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.state})"

    @property
    def is_terminal(self) -> bool:
        """True when nothing more will happen to this job."""
        return self.state in ENDED
