"""Outputs with lineage. Bytes are shared by digest; a row belongs to one project (D35)."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q


class Artifact(models.Model):
    """Content-addressed files: ``digest`` is the sha256 of the canonical manifest, ``files`` is the manifest."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey("Project", on_delete=models.PROTECT, related_name="artifacts")
    digest = models.CharField(max_length=71)
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=31)
    size = models.PositiveBigIntegerField()
    files = models.JSONField()
    meta = models.JSONField(default=dict)
    tensors = models.JSONField(null=True, help_text="{name: [dtype, [shape]]} of a model's safetensors")
    unsafe = models.JSONField(default=dict, help_text="{path: format} of files that can run code when they are loaded")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="artifacts")
    job = models.ForeignKey("Job", null=True, on_delete=models.SET_NULL, related_name="made")
    made_with = models.JSONField(default=dict, help_text="{attempt: its number, agent_version: of its node}")
    created_at = models.DateTimeField()
    published = models.BooleanField(default=False, help_text="an attempt's output is published when it succeeds")
    verified_at = models.DateTimeField(null=True)
    corrupt = models.BooleanField(default=False)
    deleted_at = models.DateTimeField(null=True, help_text="its row and lineage stay, its bytes go with the collection")
    deleted_by = models.CharField(max_length=160, blank=True, default="")
    deleted_why = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        ordering = ["-created_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "digest"], name="one_artifact_row_per_project_and_digest")
        ]
        indexes = [
            models.Index(fields=["project", "name"], name="artifact_by_name"),
            models.Index(fields=["corrupt"], condition=Q(corrupt=True), name="damaged_artifact"),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.digest[:19]}"


class ProjectBlob(models.Model):
    """The project has these bytes: only then may an upload leave them out. Else a digest would open other projects."""

    project = models.ForeignKey("Project", on_delete=models.CASCADE, related_name="+")
    sha256 = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "sha256"], name="one_row_per_project_and_blob")]

    def __str__(self) -> str:
        return f"{self.project_id} has {self.sha256[:12]}"


class UnusedBlob(models.Model):
    """Bytes that no artifact and no job needed when the store was last gone through; ``since`` when first."""

    sha256 = models.CharField(max_length=64, unique=True)
    size = models.PositiveBigIntegerField()
    since = models.DateTimeField()

    class Meta:
        ordering = ["sha256"]

    def __str__(self) -> str:
        return f"{self.sha256[:12]} since {self.since:%Y-%m-%d}"


class BlobCheck(models.Model):
    """What is known of stored bytes beside their artifacts: that they are damaged, or read since the artifact was."""

    sha256 = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField(null=True, help_text="when they were last read to their end")
    sound = models.BooleanField(default=True, help_text="whether they were what they should be then")
    begun_at = models.DateTimeField(null=True, help_text="when somebody last began to read them, if they are large")

    class Meta:
        ordering = ["sha256"]
        indexes = [models.Index(fields=["sound"], condition=Q(sound=False), name="damaged_blob")]

    def __str__(self) -> str:
        return f"{self.sha256[:12]} {'sound' if self.sound else 'damaged'}"


class ArtifactParent(models.Model):
    """``child`` was made from ``parent``; ``role`` is its place in the recipe (model-0, model-1, base_model)."""

    child = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="parents")
    parent = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="children")
    role = models.CharField(max_length=40)

    class Meta:
        ordering = ["child_id", "role"]
        constraints = [models.UniqueConstraint(fields=["child", "parent", "role"], name="one_parent_per_role")]

    def __str__(self) -> str:
        return f"{self.parent_id} > {self.child_id}"


class JobOutput(models.Model):
    """A job's artifact under the name the job gave it, with what its attempt told of it (``meta``, ``made_with``): two
    jobs may share one artifact, which tells of the first of them."""

    job = models.ForeignKey("Job", on_delete=models.CASCADE, related_name="outputs")
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="outputs")
    attempt = models.ForeignKey("Attempt", null=True, on_delete=models.SET_NULL, related_name="+")
    name = models.CharField(max_length=100)
    meta = models.JSONField(default=dict)
    made_with = models.JSONField(default=dict, help_text="{attempt: its number, agent_version: of its first node}")
    given_up_at = models.DateTimeField(null=True, help_text="since then the artifact is not known by this name")

    class Meta:
        ordering = ["job_id", "name"]
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="one_output_of_a_name_per_job")]

    def __str__(self) -> str:
        return f"{self.name} of {self.job_id}"


class Upload(models.Model):
    """Bytes on their way: by a user, or by a node for one attempt and epoch."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey("Project", on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+")
    attempt = models.ForeignKey("Attempt", null=True, on_delete=models.CASCADE, related_name="uploads")
    epoch = models.PositiveBigIntegerField(default=0)
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=31)
    meta = models.JSONField(default=dict)
    files = models.JSONField()
    artifact = models.ForeignKey(Artifact, null=True, on_delete=models.CASCADE, related_name="uploads")
    given_up_at = models.DateTimeField(null=True, help_text="since then its artifact is not known by this name")
    created_at = models.DateTimeField()
    committed_at = models.DateTimeField(null=True, help_text="its own commit, also of bytes that were there before")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False) | Q(attempt__isnull=False), name="an_upload_has_an_owner"
            )
        ]

    def __str__(self) -> str:
        return f"upload {self.name}"
