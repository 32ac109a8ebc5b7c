"""What would happen: the plan of one job, and the replay of a change."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.api.shapes.jobs import ChangeShape, GpuOfJob, ReasonShape, SpanShape


class VictimShape(serializers.Serializer[Any]):
    """A job that would be evicted; one that you may not know of has neither id nor name."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    gpus = serializers.IntegerField()
    lost_gpu_s = serializers.IntegerField(help_text="GPU-seconds of work that it would lose.")
    if_saved = serializers.BooleanField(
        help_text="It leaves only if it saves in the time given: its queue is never stopped without a checkpoint."
    )


class LedgerEffectShape(serializers.Serializer[Any]):
    """One ledger without the job and once it runs, in GPU-hours."""

    target_gpu_h = serializers.FloatField()
    used_before_gpu_h = serializers.FloatField(help_text="Consumed and in flight.")
    used_after_gpu_h = serializers.FloatField()
    score_before = serializers.FloatField(allow_null=True)
    score_after = serializers.FloatField(allow_null=True)


class ShareEffectShape(serializers.Serializer[Any]):
    """What the job does to its three ledgers."""

    queue = LedgerEffectShape()
    project = LedgerEffectShape()
    user = LedgerEffectShape()


class InPlaceOfShape(serializers.Serializer[Any]):
    """The waiting job that would be cancelled for it."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    keeps_place = serializers.BooleanField(help_text="Whether the plan is for that job's own place in the queue.")
    new_place_because = serializers.CharField(allow_null=True, help_text="Why not; null when it keeps the place.")
    begins_anew_because = serializers.CharField(
        allow_null=True, help_text="Why it would not go on where that job, a retry, would; null when nothing is lost."
    )
    held = serializers.BooleanField(
        help_text="That job is held, and so this one would be: the plan is for when it is released."
    )


class MadeBeforeShape(serializers.Serializer[Any]):
    """An artifact that is there already."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField()


class SameShape(serializers.Serializer[Any]):
    """A job that came to the same result, with what came out of it; or one that is to."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.CharField()
    ended_at = serializers.DateTimeField(allow_null=True)
    artifacts = MadeBeforeShape(many=True)


class OriginShape(serializers.Serializer[Any]):
    """A tensor of one of the models."""

    model = serializers.CharField()
    tensor = serializers.CharField()


class MergedTensorShape(serializers.Serializer[Any]):
    """One tensor of the merged model."""

    tensor = serializers.CharField()
    values = serializers.DictField(
        help_text="The strategy's parameters for it by their names in a recipe; a list has one a model."
    )
    note = serializers.CharField(
        help_text="What `on_mismatch` makes of it: `copied`, `the first N rows`, or `left out`, with the models that"
        " have it; empty for all others."
    )

    def get_fields(self) -> dict[str, Any]:
        """``from`` is no name in Python."""
        read = OriginShape(many=True, help_text="What it is made of, in the order of the models, a base last.")
        return {**super().get_fields(), "from": read}


class PlanShape(serializers.Serializer[Any]):
    """What the next pass of the scheduler would do with the job."""

    verdict = serializers.ChoiceField(choices=("now", "later", "never"))
    as_of = serializers.DateTimeField()
    start = SpanShape(allow_null=True)
    gpus = GpuOfJob(many=True, help_text="Those it would get now, or is first expected on.")
    victims = VictimShape(many=True)
    gpu_hours = serializers.FloatField(help_text="Up to its max_duration, times the billing weight.")
    share = ShareEffectShape(allow_null=True)
    reasons = ReasonShape(many=True)
    alternatives = ChangeShape(many=True)
    replaces = InPlaceOfShape(allow_null=True, help_text="Null for a body without it.")
    same = SameShape(
        allow_null=True, help_text="Of a merge: the same strategy, parameters and models. Null where there is none."
    )
    tensors = MergedTensorShape(
        many=True,
        help_text="Of a merge whose tensors differ in their values or their models: each with its own. Else empty.",
    )
    plan_token = serializers.CharField(
        allow_null=True,
        help_text="Submit with it, and the job is refused with 409 if another verdict or other victims have come of "
        "it. Good for 10 minutes, this body and this person; null for a job that would be refused.",
    )


class FaultShape(serializers.Serializer[Any]):
    """A node that fails."""

    node = serializers.CharField()
    after_s = serializers.FloatField(required=False, help_text="Seconds from now, 0 by default.")
    back_after_s = serializers.FloatField(required=False, allow_null=True, help_text="Seconds from now; never if null.")


class MoreNodesShape(serializers.Serializer[Any]):
    """Nodes that are added, each like one there is, or with GPUs that are described."""

    count = serializers.IntegerField()
    like = serializers.CharField(required=False, help_text="The node whose hardware they have; or else the following.")
    gpus = serializers.IntegerField(required=False, help_text="GPUs of each node.")
    memory = serializers.CharField(required=False, help_text="Memory of each GPU, such as 80GB.")
    model = serializers.CharField(required=False, help_text="GPU model; `any` by default.")
    nvlink = serializers.IntegerField(
        required=False, help_text="GPUs in an NVLink group: all of a node by default, 0 for no NVLink."
    )


class ReplayRequest(serializers.Serializer[Any]):
    """What is changed; at least one of these."""

    policy = serializers.JSONField(required=False, help_text="What differs, such as {project_weights: {alpha: 3}}.")
    add_nodes = MoreNodesShape(many=True, required=False)
    remove_nodes = serializers.ListField(child=serializers.CharField(), required=False)
    faults = FaultShape(many=True, required=False)
    job = serializers.JSONField(required=False, help_text="One job more, as POST /jobs/ takes it.")


class WaitShape(serializers.Serializer[Any]):
    """How long the jobs that wait now will have waited, in seconds."""

    jobs = serializers.IntegerField()
    started = serializers.IntegerField()
    mean_wait_s = serializers.FloatField(allow_null=True)
    p95_wait_s = serializers.FloatField(allow_null=True)


class SideShape(WaitShape):
    """One of the two futures."""

    makespan_s = serializers.FloatField(help_text="From now to the last end.")
    preemptions = serializers.IntegerField(help_text="Evictions, those under way included.")
    interrupted = serializers.IntegerField(help_text="Attempts lost with their hardware.")
    again = WaitShape(help_text="Of the jobs that lose their GPUs: how long they wait for others; they are in stopped.")
    classes = serializers.DictField(child=WaitShape(), help_text="By priority.")


class MovedJobShape(serializers.Serializer[Any]):
    """A job that would start at another time; one that you may not know of has neither id nor name."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    priority = serializers.CharField()
    before = serializers.DateTimeField(allow_null=True)
    after = serializers.DateTimeField(allow_null=True)
    later_s = serializers.FloatField(allow_null=True, help_text="Negative: it would start sooner.")


class StoppedJobShape(serializers.Serializer[Any]):
    """A job that loses its GPUs in one of the futures, whether it runs now or only then; one that you may not know of,
    and the one that was added, have neither id nor name."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    priority = serializers.CharField()
    stops_before = serializers.IntegerField(help_text="How often; they add up to preemptions and interrupted.")
    stops_after = serializers.IntegerField()
    waits_again_before_s = serializers.FloatField(allow_null=True, help_text="Null: it never has GPUs again.")
    waits_again_after_s = serializers.FloatField(allow_null=True)
    ends_before = serializers.DateTimeField(allow_null=True, help_text="Null: it never ends its work.")
    ends_after = serializers.DateTimeField(allow_null=True)


class ReplayShape(serializers.Serializer[Any]):
    """Two futures of the present queue, every job running to its max_duration: as things are, and with the change."""

    as_of = serializers.DateTimeField()
    before = SideShape()
    after = SideShape()
    sooner = serializers.IntegerField(help_text="Of the jobs that wait now, those in jobs that start sooner.")
    later = serializers.IntegerField()
    jobs = MovedJobShape(many=True, help_text="At most 200, those that move most.")
    stopped = StoppedJobShape(many=True, help_text="At most 200, those first whose end moves most.")
    extra_job = MovedJobShape(allow_null=True)
    notes = serializers.ListField(child=serializers.CharField(), help_text="What of the change has no effect here.")
