"""What agents say and are told; `workers/protocol.py` has the same as types."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.api.shapes.artifacts import AnnouncedFile


class DescribedGpu(serializers.Serializer[Any]):
    """One GPU of the registering node."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    nvlink_group_id = serializers.CharField(allow_null=True)


class RegisterRequest(serializers.Serializer[Any]):
    """The node as it is."""

    boot_id = serializers.CharField()
    seq = serializers.IntegerField(required=False)
    protocol = serializers.IntegerField()
    agent_version = serializers.CharField(required=False)
    address = serializers.CharField(required=False)
    rack_id = serializers.CharField(required=False)
    network_bandwidth_gbps = serializers.FloatField()
    labels = serializers.DictField(child=serializers.CharField(), required=False)
    simulated = serializers.BooleanField(required=False)
    left_out = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="GPUs that it has and does not offer, each in words."
    )
    gpus = DescribedGpu(many=True)
    attempts = serializers.ListField(child=serializers.JSONField(), required=False)


class RegisteredShape(serializers.Serializer[Any]):
    """What to keep, what to kill, and the timings in seconds."""

    adopt = serializers.ListField(child=serializers.CharField())
    kill = serializers.ListField(child=serializers.CharField())
    heartbeat_s = serializers.FloatField()
    retry_s = serializers.FloatField()
    fence_s = serializers.FloatField()
    kill_s = serializers.FloatField()
    lease_s = serializers.FloatField()
    claim_s = serializers.FloatField()
    grace_s = serializers.FloatField()
    outage_grace_s = serializers.FloatField()


class HeartbeatRequest(serializers.Serializer[Any]):
    """Health, what is held, and reports."""

    boot_id = serializers.CharField()
    seq = serializers.IntegerField()
    disk_low = serializers.BooleanField()
    draining = serializers.BooleanField(required=False)
    gpus = serializers.ListField(child=serializers.JSONField(), allow_null=True)
    attempts = serializers.ListField(child=serializers.JSONField())
    reports = serializers.ListField(child=serializers.JSONField())


class HeartbeatShape(serializers.Serializer[Any]):
    """The node's whole desired set, and an answer to each report."""

    desired = serializers.ListField(child=serializers.JSONField())
    canary = serializers.ListField(child=serializers.CharField())
    answers = serializers.ListField(child=serializers.JSONField())


class BellShape(serializers.Serializer[Any]):
    """The number to wait from next, and whether there is something to look at."""

    since = serializers.IntegerField()
    look = serializers.BooleanField()


class EpochRequest(serializers.Serializer[Any]):
    """A message about one attempt."""

    epoch = serializers.IntegerField()


class ReadyRequest(EpochRequest):
    """A node of the attempt is ready; `port` is what rank 0 of several has bound for the others."""

    port = serializers.IntegerField(required=False)


class GoShape(serializers.Serializer[Any]):
    """Whether to start the processes now, and for an attempt on several nodes where its ranks meet."""

    go = serializers.BooleanField()
    address = serializers.CharField(required=False)
    port = serializers.IntegerField(required=False)


class LaunchShape(serializers.Serializer[Any]):
    """The launch document."""

    attempt = serializers.UUIDField()
    epoch = serializers.IntegerField()
    number = serializers.IntegerField()
    job = serializers.UUIDField()
    kind = serializers.CharField()
    params = serializers.JSONField()
    argv = serializers.ListField(child=serializers.CharField(), allow_null=True)
    env = serializers.DictField(child=serializers.CharField())
    gpus = serializers.ListField(child=serializers.CharField())
    node_rank = serializers.IntegerField()
    node_count = serializers.IntegerField()
    nproc = serializers.IntegerField()
    inputs = serializers.ListField(child=serializers.JSONField())
    resume = serializers.JSONField(allow_null=True)
    remaining_s = serializers.FloatField()
    grace_s = serializers.FloatField()
    log_bytes = serializers.IntegerField()


class ReportRequest(EpochRequest):
    """One report: its members depend on the address (`workers/protocol.py`, Report)."""

    n = serializers.IntegerField(required=False)


class AnswerShape(serializers.Serializer[Any]):
    """The report was taken; `next` is the log offset wanted next."""

    n = serializers.IntegerField()
    ok = serializers.BooleanField()
    next = serializers.IntegerField(required=False)


class AttemptUploadRequest(EpochRequest):
    """An output or a checkpoint that will be sent."""

    name = serializers.CharField()
    kind = serializers.CharField(required=False)
    meta = serializers.JSONField(required=False)
    files = AnnouncedFile(many=True)


class BundleRequest(EpochRequest):
    """The files of one artifact that are wanted, at most 500 with 4 MiB."""

    paths = serializers.ListField(child=serializers.CharField())


class ReceivedShape(serializers.Serializer[Any]):
    """How many files have come."""

    received = serializers.IntegerField()


class AttemptCommitRequest(EpochRequest):
    """The sha256 of each file, by path."""

    sha256 = serializers.DictField(child=serializers.CharField(), required=False)


class AttemptArtifact(serializers.Serializer[Any]):
    """The artifact that the bytes became."""

    artifact = serializers.UUIDField()
    digest = serializers.CharField()
