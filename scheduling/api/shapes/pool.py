"""Nodes, GPUs, queues, shares, as the board shows them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.core.gpu_record import Cause
from scheduling.services.pool import REASON_MAX
from scheduling.store.queries.standing import Standing


class HolderShape(serializers.Serializer[Any]):
    """The job that holds a GPU, where one may know of it."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    user = serializers.CharField(allow_null=True)
    state = serializers.CharField()


class GpuShape(serializers.Serializer[Any]):
    """One GPU with its newest sample, of which there is none while its node is LOST or SILENT."""

    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    nvlink_group_id = serializers.CharField(allow_null=True)
    state = serializers.CharField()
    why = serializers.CharField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True, help_text="When it came into its state.")
    cause = serializers.ChoiceField(choices=[c.value for c in Cause if c.value], allow_null=True)
    may_return = serializers.BooleanField(help_text="Whether an operator's `return` changes something.")
    next = serializers.CharField(allow_null=True, help_text="What has to happen before it gets work again.")
    utilization = serializers.FloatField(allow_null=True)
    memory_used_mib = serializers.IntegerField(allow_null=True)
    temperature_c = serializers.FloatField(allow_null=True)
    power_w = serializers.FloatField(allow_null=True)
    error = serializers.CharField(allow_null=True)
    idle = serializers.CharField(
        allow_null=True, help_text="Why it gets no new work although no job holds it; null: it is free, or held."
    )
    busy = serializers.BooleanField()
    job = HolderShape(allow_null=True)
    leaves_by = serializers.DateTimeField(
        allow_null=True, help_text="Of a job that was asked to leave it: the end of its time to save."
    )
    kept_for = HolderShape(
        allow_null=True, help_text="The waiting job that it is kept for, free or still held, where one may know of it."
    )
    kept_until = serializers.DateTimeField(
        allow_null=True, help_text="Until then it is kept for a waiting job; null: for none."
    )
    version = serializers.IntegerField()


class GpuDetailShape(GpuShape):
    """One GPU, with the node it is in."""

    node = serializers.CharField()


class NodeShape(serializers.Serializer[Any]):
    """One node with its GPUs."""

    name = serializers.CharField()
    state = serializers.CharField(help_text="As its lease and operators have it.")
    standing = serializers.ChoiceField(
        choices=[each.value for each in Standing],
        help_text="The first thing in this order that keeps new work away from it. SILENT: not heard of for half a "
        "lease or longer; what it does is not known. RESERVED: closed to other projects.",
    )
    rack_id = serializers.CharField()
    network_bandwidth_gbps = serializers.FloatField()
    labels = serializers.JSONField()
    address = serializers.CharField()
    agent_version = serializers.CharField()
    simulated = serializers.BooleanField()
    left_out = serializers.ListField(
        child=serializers.CharField(), help_text="GPUs it has that are not offered, each in words: MIG, no answer."
    )
    why = serializers.CharField(
        allow_null=True,
        help_text="Every reason why it takes no new work, in words: it is lost, is not heard of (since when), was "
        "cordoned or drained (and by whom), its agent is shutting down, a window closes it, its disk is nearly full.",
    )
    lost_since = serializers.DateTimeField(allow_null=True, help_text="Its last word, of one that is LOST.")
    drain_by = serializers.DateTimeField(allow_null=True, help_text="Then what still runs on it is asked to leave it.")
    registered_at = serializers.DateTimeField(allow_null=True)
    last_heartbeat_at = serializers.DateTimeField(allow_null=True)
    disk_low = serializers.BooleanField()
    version = serializers.IntegerField()
    gpus = GpuShape(many=True)


class NodeEventShape(serializers.Serializer[Any]):
    """Something that happened to a node or one of its GPUs."""

    seq = serializers.IntegerField()
    at = serializers.DateTimeField()
    type = serializers.CharField()
    actor = serializers.CharField()
    object = serializers.CharField()
    object_id = serializers.CharField()
    message = serializers.CharField()
    data = serializers.JSONField()  # type: ignore[assignment]


class NodeDetailShape(NodeShape):
    """One node with its newest events."""

    events = NodeEventShape(many=True)


class SchedulerShape(serializers.Serializer[Any]):
    """The scheduler's last tick."""

    last_tick_at = serializers.DateTimeField(allow_null=True)
    age_s = serializers.FloatField(allow_null=True)
    last_tick_ms = serializers.FloatField(allow_null=True)
    holder = serializers.CharField(allow_null=True)
    epoch = serializers.IntegerField()
    alarms = serializers.JSONField()


class PoolShape(serializers.Serializer[Any]):
    """The pool in one sentence and in full."""

    headline = serializers.CharField()
    scheduler = SchedulerShape()
    nodes = NodeShape(many=True)


class LevelShape(serializers.Serializer[Any]):
    """One level of a queue."""

    name = serializers.CharField()
    value = serializers.IntegerField()
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()
    oldest_wait_s = serializers.FloatField(allow_null=True)


class QueueShape(serializers.Serializer[Any]):
    """One queue and what is in it."""

    name = serializers.CharField()
    weight = serializers.FloatField()
    default_level = serializers.CharField()
    default_max_duration = serializers.IntegerField()
    max_duration_cap = serializers.IntegerField()
    never_without_checkpoint = serializers.BooleanField(
        help_text="Its jobs never make way unsaved: who has not saved within the grace runs on."
    )
    levels = LevelShape(many=True)
    waiting = serializers.IntegerField()
    running = serializers.IntegerField()


class ShareRow(serializers.Serializer[Any]):
    """One entity of a ledger."""

    name = serializers.CharField()
    weight = serializers.FloatField()
    active = serializers.BooleanField()
    target_gpu_h = serializers.FloatField()
    consumed_gpu_h = serializers.FloatField()
    in_flight_gpu_h = serializers.FloatField()
    deficit = serializers.FloatField(allow_null=True)


class UserShareRow(ShareRow):
    """One user within a project."""

    project = serializers.CharField()


class LostShape(serializers.Serializer[Any]):
    """What a project lost for no fault of its jobs, by cause: it is given back."""

    project = serializers.CharField()
    cause = serializers.CharField(help_text="preempt, health, drain or lost (its node)")
    gpu_hours = serializers.FloatField()
    attempts = serializers.IntegerField()
    in_vain = serializers.IntegerField(help_text="Of the attempts: evicted for a job that then did not take the GPUs.")


class ShareShape(serializers.Serializer[Any]):
    """The three ledgers, and what was lost and given back in the last 30 days."""

    half_life_s = serializers.FloatField()
    ledgers = serializers.ListField(child=serializers.CharField(), help_text="Those compared, the first of them first.")
    queues = ShareRow(many=True)
    projects = ShareRow(many=True)
    users = UserShareRow(many=True)
    lost = LostShape(many=True)


class OperatedGpuShape(serializers.Serializer[Any]):
    """The GPU's state after the verb."""

    uuid = serializers.CharField()
    state = serializers.CharField()


class OperatedShape(serializers.Serializer[Any]):
    """The node's state after the verb."""

    name = serializers.CharField()
    state = serializers.CharField()
    why = serializers.CharField(allow_null=True, help_text="As the pool tells it of the node.")
    drain_by = serializers.DateTimeField(allow_null=True, help_text="Then what still runs on it is asked to leave it.")


class SilentShape(serializers.Serializer[Any]):
    """The nodes that were given up."""

    nodes = serializers.ListField(child=serializers.CharField())


class CordonRequest(serializers.Serializer[Any]):
    """Why the node is closed."""

    reason = serializers.CharField(
        required=False, allow_null=True, max_length=REASON_MAX, help_text="Seen by all. The newest one counts."
    )


class DrainRequest(CordonRequest):
    """How long what runs may stay, and why the node is closed."""

    deadline = serializers.CharField(
        required=False, allow_null=True,
        help_text="From now, like 30m, 4h or a number of seconds, 30d at most: then what still runs is asked to save, "
        "moves and resumes. Without it what runs goes on to its end. The newest word counts.",
    )  # fmt: skip


class WindowRequest(serializers.Serializer[Any]):
    """Nodes to be closed for a time."""

    name = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    start = serializers.DateTimeField(help_text="No job starts on the nodes that would still run then.")
    end = serializers.DateTimeField()
    project = serializers.CharField(
        required=False, allow_null=True, help_text="The nodes stay open to its jobs: an advance reservation."
    )
    note = serializers.CharField(required=False, allow_null=True)


class WindowShape(serializers.Serializer[Any]):
    """A time in which nodes are closed. Of another project's it is told when and where, not whose."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    nodes = serializers.ListField(child=serializers.CharField())
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    reserved = serializers.BooleanField(help_text="Open to the jobs of one project; else closed to all: maintenance.")
    project = serializers.CharField(allow_null=True)
    note = serializers.CharField()
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
