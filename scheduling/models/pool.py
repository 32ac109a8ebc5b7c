"""The pool: nodes with an agent each, and their GPUs."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models

from scheduling.core.lifecycle import GpuState, NodeState

NODE_NAME = RegexValidator(r"^[a-z0-9][a-z0-9-]{0,62}$", "use 1 to 63 lower-case letters, digits and dashes")


class Node(models.Model):
    """A machine with an agent. What the agent reports about itself is set at registration."""

    name = models.CharField(max_length=63, unique=True, validators=[NODE_NAME])
    token_sha256 = models.CharField(max_length=64, blank=True, default="", editable=False)
    state = models.CharField(
        max_length=12, choices=[(s.value, s.value) for s in NodeState], default=NodeState.LOST.value
    )
    boot_id = models.CharField(max_length=64, blank=True, default="")
    rack_id = models.CharField(max_length=63, blank=True, default="")
    network_bandwidth_gbps = models.FloatField(default=0.0)
    labels = models.JSONField(default=dict, blank=True)
    address = models.CharField(max_length=200, blank=True, default="")
    agent_version = models.CharField(max_length=40, blank=True, default="")
    simulated = models.BooleanField(default=False)
    left_out = models.JSONField(
        default=list,
        blank=True,
        help_text="GPUs that its agent sees and does not offer, each in words: which one and why",
    )
    registered_at = models.DateTimeField(null=True)
    closed = models.CharField(
        max_length=12, choices=[(s, s) for s in ("CORDONED", "DRAINING")], blank=True, default="",
        help_text="as an operator or its health has said; it holds while the node is lost, too",
    )  # fmt: skip
    closed_by = models.CharField(max_length=160, blank=True, default="")
    why = models.CharField(max_length=200, blank=True, default="", help_text="the reason why it is closed")
    drain_by = models.DateTimeField(
        null=True, blank=True, help_text="then what still runs on it is asked to save and to leave"
    )
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["name"]
        permissions = [("operate_pool", "May cordon, drain and return nodes")]

    def __str__(self) -> str:
        return self.name


class NodeLive(models.Model):
    """The one narrow row that a heartbeat writes."""

    node = models.OneToOneField(Node, on_delete=models.CASCADE, primary_key=True, related_name="live")
    last_heartbeat_at = models.DateTimeField(null=True, help_text="the server's receipt clock")
    seq = models.PositiveBigIntegerField(default=0)
    disk_low = models.BooleanField(default=False)
    leaving = models.BooleanField(default=False, help_text="its agent is shutting down; registering again clears it")
    sampled_at = models.DateTimeField(null=True)
    samples = models.JSONField(default=dict, help_text="the newest sample of each GPU, by UUID")
    health = models.JSONField(default=dict, help_text="what is remembered of each GPU's health, by UUID")

    def __str__(self) -> str:
        return f"{self.node_id} at {self.last_heartbeat_at}"


class Gpu(models.Model):
    """One device, known by its UUID."""

    uuid = models.CharField(max_length=80, unique=True)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=120)
    memory_mib = models.PositiveIntegerField()
    nvlink_group_id = models.CharField(max_length=120, null=True, blank=True)  # null = no NVLink
    labels = models.JSONField(default=dict, blank=True)
    state = models.CharField(
        max_length=12, choices=[(s.value, s.value) for s in GpuState], default=GpuState.HEALTHY.value
    )
    failed_checks = models.PositiveSmallIntegerField(default=0)
    why = models.CharField(max_length=200, blank=True, default="", help_text="the reason for the state")
    state_since = models.DateTimeField(null=True)
    version = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["node_id", "index"]
        constraints = [models.CheckConstraint(condition=models.Q(memory_mib__gte=1), name="gpu_has_memory")]

    def __str__(self) -> str:
        return f"{self.node_id}/{self.index}"
