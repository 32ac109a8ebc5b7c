"""What is kept for later: nodes closed by an operator for a time, and GPUs that are being freed for a job."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models

WINDOW_NAME = RegexValidator(r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$", "use printable characters")


class Window(models.Model):
    """A time in which its nodes take no job that would still run then: maintenance, or all but ``project``'s jobs."""

    name = models.CharField(max_length=100, validators=[WINDOW_NAME])
    nodes = models.ManyToManyField("scheduling.Node", related_name="windows")
    start = models.DateTimeField(help_text="jobs that would still run then don't start on the nodes")
    end = models.DateTimeField()
    project = models.ForeignKey(
        "Project", null=True, blank=True, on_delete=models.CASCADE, related_name="windows",
        help_text="an advance reservation: the nodes are this project's in that time; empty = nobody's, maintenance",
    )  # fmt: skip
    note = models.CharField(max_length=400, blank=True, default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", editable=False
    )
    created_at = models.DateTimeField(editable=False)

    class Meta:
        ordering = ["start", "id"]
        constraints = [models.CheckConstraint(condition=models.Q(end__gt=models.F("start")), name="window_ends_later",
                                              violation_error_message="a window must end after its start")]  # fmt: skip

    def __str__(self) -> str:
        return self.name


class Nomination(models.Model):
    """GPUs, free or still held by jobs that were asked to stop, that are kept for a waiting job until the deadline."""

    job = models.OneToOneField("Job", on_delete=models.CASCADE, related_name="nomination")
    gpus = models.JSONField(help_text="UUIDs")
    deadline = models.DateTimeField()
    again = models.BooleanField(default=False, help_text="the one new plan, as a victim did not save in time")

    def __str__(self) -> str:
        return f"{len(self.gpus)} GPU{'' if len(self.gpus) == 1 else 's'} for {self.job_id}"
