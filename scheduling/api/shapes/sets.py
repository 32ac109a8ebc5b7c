"""What pipelines and sweeps look like."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.api.shapes.jobs import CancelRequest as CancelRequest
from scheduling.api.shapes.jobs import JobRequest, JobShape


class KeyedJob(JobRequest):
    """A job of a pipeline: the body of a job, and its key. Where an artifact is named, `@key` or `@key/NAME` is the
    output of a job in `after`."""

    key = serializers.CharField(max_length=64, help_text="Letters, digits, dots, dashes and underscores.")
    after = serializers.ListField(
        child=serializers.CharField(), required=False, allow_null=True, max_length=64,
        help_text="Keys of this pipeline, and ids of jobs.",
    )  # fmt: skip


class PipelineRequest(serializers.Serializer[Any]):
    """Jobs that are stored all or none."""

    jobs = KeyedJob(many=True, help_text="At most 100.")


class SweepRequest(serializers.Serializer[Any]):
    """A job for each combination of values, at most 1,000."""

    job = JobRequest(help_text="What all have in common.")
    over = serializers.DictField(
        child=serializers.ListField(child=serializers.JSONField()),
        help_text="Values by the path of the field that they are of, like `params.t`.",
    )
    max_running = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=1000, help_text="So many of its jobs at a time."
    )


class SetShape(serializers.Serializer[Any]):
    """The jobs of a pipeline or a sweep, in their order."""

    id = serializers.UUIDField()
    jobs = JobShape(many=True)
