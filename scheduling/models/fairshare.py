"""Who is owed what: queues, levels, projects, weights, and what they have consumed."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from simple_history.models import HistoricalRecords

from scheduling.core.policy import DEFAULT_POLICY

SLUG = RegexValidator(
    r"^[a-z0-9][a-z0-9._-]{0,62}$", "use 1 to 63 lower-case letters, digits, dots, dashes, underscores"
)
PREFERENCES = ("whole_groups", "smallest_memory", "best_fit")
NVLINK_MODES = ("shared", "exclusive")
IN_FLIGHT_MODES = ("full", "cycle", "off")
LEDGER_LISTS = ("queue project user", "queue project", "queue user", "project user", "queue", "project", "user")
NOT_NEGATIVE = MinValueValidator(0.0, "a weight may not be negative")


class Queue(models.Model):
    """A queue of the specification: its fair-share weight and its limits."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    weight = models.FloatField(default=1.0, validators=[NOT_NEGATIVE], help_text="0 sorts last inside its level")
    order = models.PositiveSmallIntegerField(default=0, help_text="position on the board")
    default_level = models.CharField(max_length=31, default="Normal")
    default_max_duration_s = models.PositiveIntegerField(default=4 * 3600, help_text="seconds")
    max_duration_cap_s = models.PositiveIntegerField(default=7 * 86400, help_text="seconds")
    grace_s = models.FloatField(default=120.0, help_text="seconds a victim has to save a checkpoint")
    never_without_checkpoint = models.BooleanField(
        default=False, help_text="its jobs never make way unsaved: who has not saved within the grace runs on"
    )
    history = HistoricalRecords()

    class Meta:
        ordering = ["order", "name"]
        constraints = [models.CheckConstraint(condition=models.Q(weight__gte=0), name="queue_weight_not_negative")]

    def __str__(self) -> str:
        return self.name


class Level(models.Model):
    """A priority within a queue; a higher value goes first."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="levels")
    name = models.CharField(max_length=31)
    value = models.PositiveSmallIntegerField(validators=[MinValueValidator(1)])
    history = HistoricalRecords()

    class Meta:
        ordering = ["queue", "-value"]
        constraints = [
            models.UniqueConstraint(fields=["queue", "name"], name="one_level_of_a_name_per_queue"),
            models.CheckConstraint(condition=models.Q(value__gte=1), name="level_at_least_one"),
        ]

    def __str__(self) -> str:
        return f"{self.queue}/{self.name}"


class PreemptionRule(models.Model):
    """Jobs of ``preemptor`` may take the GPUs of jobs of ``victim`` (D7: an explicit table)."""

    preemptor = models.ForeignKey(Level, on_delete=models.CASCADE, related_name="may_preempt")
    victim = models.ForeignKey(Level, on_delete=models.CASCADE, related_name="preempted_by")
    history = HistoricalRecords()

    class Meta:
        ordering = ["preemptor_id", "victim_id"]
        constraints = [
            models.UniqueConstraint(fields=["preemptor", "victim"], name="one_preemption_rule_per_pair"),
            models.CheckConstraint(
                condition=~models.Q(preemptor=models.F("victim")), name="a_level_never_preempts_itself"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.preemptor} > {self.victim}"


class Project(models.Model):
    """What weights, jobs and artifacts belong to."""

    name = models.CharField(max_length=63, unique=True, validators=[SLUG])
    weight = models.FloatField(default=1.0, validators=[NOT_NEGATIVE], help_text="0 sorts last inside its level")
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership", related_name="projects")
    artifact_quota_gb = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="GB (10^9 bytes) of artifacts; with more, nothing new is taken; empty: no limit",
    )
    history = HistoricalRecords()

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=models.Q(weight__gte=0), name="project_weight_not_negative")]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A user in a project: the share inside it and the highest level that may be asked for."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    weight = models.FloatField(default=1.0, validators=[NOT_NEGATIVE])
    level_cap = models.PositiveSmallIntegerField(
        default=3, help_text="3 = High; Critical and Realtime need a permission"
    )
    history = HistoricalRecords()

    class Meta:
        ordering = ["project", "user"]
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="one_membership_per_user_and_project"),
            models.CheckConstraint(condition=models.Q(weight__gte=0), name="member_weight_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"


class FairShareSettings(models.Model):
    """The one row of numbers that hold for the whole pool."""

    half_life_s = models.PositiveIntegerField(default=7 * 86400, help_text="seconds; 0 = consumption never decays")
    history = HistoricalRecords()

    class Meta:
        verbose_name_plural = "fair share settings"

    def __str__(self) -> str:
        return f"half-life {self.half_life_s / 86400:g} d"


class PlanningSettings(models.Model):
    """The one row of how the scheduler places, reserves and evicts."""

    prefer = models.CharField(
        max_length=16, choices=[(p, p.replace("_", " ")) for p in PREFERENCES], default=DEFAULT_POLICY.prefer,
        help_text="which of several places that fit is taken",
    )  # fmt: skip
    nvlink_mode = models.CharField(
        max_length=9, choices=[(m, m) for m in NVLINK_MODES], default=DEFAULT_POLICY.nvlink_mode,
        help_text="exclusive: every job that needs NVLink has its whole group",
    )  # fmt: skip
    in_flight = models.CharField(
        max_length=5, choices=[(m, m) for m in IN_FLIGHT_MODES], default=DEFAULT_POLICY.in_flight,
        help_text="what counts as consumption to come: full = what runs and was just placed, cycle = only the latter",
    )  # fmt: skip
    ledgers = models.CharField(
        max_length=20, choices=[(names, names.replace(" ", ", then ")) for names in LEDGER_LISTS],
        default=" ".join(DEFAULT_POLICY.ledgers), help_text="which ledgers are compared",
    )  # fmt: skip
    reservations_per_level = models.PositiveSmallIntegerField(
        default=DEFAULT_POLICY.backfill.reservations_per_level, validators=[MaxValueValidator(64)],
        help_text="how many blocked jobs of each priority that need several GPUs have GPUs promised",
    )  # fmt: skip
    aged_after_s = models.PositiveIntegerField(
        default=round(DEFAULT_POLICY.backfill.aged_after_s), validators=[MinValueValidator(60)],
        help_text="seconds; who waits longer has GPUs promised, whatever its rank, and kept from the jobs behind it",
    )  # fmt: skip
    aged_reservations = models.PositiveSmallIntegerField(
        default=DEFAULT_POLICY.backfill.aged_reservations, validators=[MaxValueValidator(64)],
        help_text="at most so many of those, the oldest first",
    )  # fmt: skip
    rack_patience_s = models.PositiveIntegerField(
        default=round(DEFAULT_POLICY.backfill.rack_patience_s),
        help_text="seconds; how much later a promise in one rack may start than one over several",
    )  # fmt: skip
    protect_s = models.PositiveIntegerField(
        default=round(DEFAULT_POLICY.evict.protect_s), help_text="seconds; who runs shorter is evicted last"
    )
    protect_times = models.PositiveSmallIntegerField(
        default=DEFAULT_POLICY.evict.protect_times, validators=[MinValueValidator(1)],
        help_text="who was evicted so often in 24 hours is evicted last",
    )  # fmt: skip
    nomination_slack_s = models.PositiveIntegerField(
        default=round(DEFAULT_POLICY.evict.nomination_slack_s),
        help_text="seconds after the grace for which freed GPUs are kept for who they were freed for",
    )  # fmt: skip
    history = HistoricalRecords()

    class Meta:
        verbose_name_plural = "planning settings"

    def __str__(self) -> str:
        return f"{self.reservations_per_level} reserved a priority, {self.prefer.replace('_', ' ')} first"


class BillingWeight(models.Model):
    """What one hour of a GPU model counts in fair share (1.0 unless named here)."""

    gpu_model = models.CharField(max_length=120, unique=True)
    weight = models.FloatField(default=1.0, validators=[NOT_NEGATIVE])
    history = HistoricalRecords()

    def __str__(self) -> str:
        return f"{self.gpu_model} x {self.weight:g}"


class Balance(models.Model):
    """What one entity has consumed by ended allocations, decayed to ``settled_at``; derivable from the intervals."""

    ledger = models.CharField(max_length=8, choices=[("queue", "queue"), ("project", "project"), ("user", "user")])
    key = models.CharField(max_length=160, help_text="queue, project, or project/user")
    gpu_ms = models.FloatField(default=0.0)
    settled_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ledger", "key"], name="one_balance_per_entity")]

    def __str__(self) -> str:
        return f"{self.ledger} {self.key}: {self.gpu_ms:.0f} GPU-ms"


class UsageDay(models.Model):
    """GPU time by day, project, user and queue: rolled up from the allocation intervals by a Celery chore."""

    day = models.DateField()
    project = models.CharField(max_length=63)
    user = models.CharField(max_length=150)
    queue = models.CharField(max_length=63)
    gpu_ms = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-day", "project", "user"]
        constraints = [models.UniqueConstraint(fields=["day", "project", "user", "queue"], name="one_usage_row_a_day")]

    def __str__(self) -> str:
        return f"{self.day} {self.project} {self.user} {self.queue}: {self.gpu_ms} GPU-ms"
