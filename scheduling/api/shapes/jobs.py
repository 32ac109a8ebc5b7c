"""Jobs: the request, the job, its runs, events and log."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.api.shapes.answers import FieldProblem
from scheduling.api.shapes.files import OutputShape
from scheduling.api.shapes.params import KIND, PARAMS
from scheduling.core.affinity import MAX_TERMS, MAX_TEXT, MAX_VALUES, MAX_WEIGHT
from scheduling.core.resources import PLACES
from scheduling.core.rules import BUILT_IN, OPERATORS


@extend_schema_field(KIND)
class KindField(serializers.CharField):
    """The name of a kind of job."""


@extend_schema_field(PARAMS)
class ParamsField(serializers.JSONField):
    """The parameters of a job, by its kind."""


class GroupRuleShape(serializers.Serializer[Any]):
    """A rule about the running jobs of a group."""

    group = serializers.CharField()
    level = serializers.ChoiceField(choices=PLACES)


@extend_schema_field({"oneOf": [{"type": "string", "maxLength": MAX_TEXT}, {"type": "number"}]})
class RuleValue(serializers.CharField):
    """What a label is compared with."""


class RuleShape(serializers.Serializer[Any]):
    """A rule about the labels of a GPU and its node."""

    key = serializers.CharField(
        max_length=MAX_TEXT,
        help_text=f"{', '.join(BUILT_IN)}, or a label that an agent tells of its node or GPUs.",
    )
    op = serializers.ChoiceField(choices=OPERATORS, help_text="Gt and Lt compare numbers.")
    values = serializers.ListField(
        child=RuleValue(), required=False, max_length=MAX_VALUES,
        help_text="One or more for In and NotIn, one number for Gt and Lt, none for Exists and DoesNotExist.",
    )  # fmt: skip


class WishShape(RuleShape):
    """A rule that should hold, if it can."""

    weight = serializers.IntegerField(
        required=False, min_value=1, max_value=MAX_WEIGHT, help_text="1 if left out; the heaviest is looked at first."
    )


class AffinityShape(serializers.Serializer[Any]):
    """Rules of placement: about hardware. Those between jobs are `with` and `anti_affinity`."""

    required = RuleShape(  # type: ignore[assignment]
        many=True, required=False, help_text=f"All of them must hold; at most {MAX_TERMS}."
    )
    preferred = WishShape(many=True, required=False, help_text=f"As many as can hold; at most {MAX_TERMS}.")


class WithGroup(serializers.Serializer[Any]):
    """Has the field ``with``, which is a word of Python."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """The declared fields, and ``with``."""
        rule = GroupRuleShape(required=False, allow_null=True, help_text="Only where jobs of the group run.")
        return {**super().get_fields(), "with": rule}


class JobRequest(WithGroup):
    """What is asked for. Unknown fields are an error that names the nearest known one. null says the same as leaving a
    field out; an empty text is an error."""

    kind = KindField()
    name = serializers.CharField(required=False)
    project = serializers.CharField(required=False, help_text="May be left out by a member of exactly one project.")
    queue = serializers.CharField(required=False, help_text="By default the kind's own queue.")
    priority = serializers.CharField(required=False)
    purpose = serializers.CharField(required=False, allow_null=True)
    gpu_count = serializers.IntegerField(required=False)
    node_count = serializers.IntegerField(required=False)
    gpus_per_node = serializers.IntegerField(required=False)
    gpu_memory_min = serializers.CharField(
        required=False, help_text="Per GPU, installed: 80GB, 40GiB; a number alone is GB."
    )
    nvlink_required = serializers.BooleanField(required=False)
    nvlink_exclusive = serializers.BooleanField(required=False)
    required_level = serializers.CharField(required=False, allow_null=True, help_text="nvlink_group or rack.")
    max_wait_for_level = serializers.CharField(
        required=False, allow_null=True, help_text="How long to hold out for the best rung, like 1h30m."
    )
    allow_span = serializers.BooleanField(required=False, help_text="The GPUs may lie on any nodes.")
    affinity = AffinityShape(required=False, allow_null=True)
    anti_affinity = GroupRuleShape(required=False, allow_null=True, help_text="Not where jobs of the group run.")
    group = serializers.CharField(required=False, allow_null=True, help_text="The group of jobs it belongs to.")
    after = serializers.ListField(
        child=serializers.UUIDField(), required=False, allow_null=True, max_length=64,
        help_text="Jobs of one's projects that must have succeeded first; when one of them ends otherwise it is "
        "cancelled. An input may be `@JOB` or `@JOB/NAME`: the output of one of them.",
    )  # fmt: skip
    after_any = serializers.BooleanField(required=False, help_text="Any end of the jobs in `after` will do.")
    not_before = serializers.DateTimeField(required=False, allow_null=True)
    start_by = serializers.DateTimeField(required=False, allow_null=True, help_text="Cancelled if not started by then.")
    max_duration = serializers.CharField(required=False, help_text="4h, 90m, 1h30m, PT4H, seconds.")
    retries = serializers.IntegerField(required=False)
    preemptible = serializers.BooleanField(required=False)
    params = ParamsField(required=False)
    replaces = serializers.UUIDField(
        required=False, allow_null=True,
        help_text="A waiting job that never had GPUs and that one may cancel: it is cancelled and this one stands in "
        "its place in the queue, if it has the same owner, project, queue and priority and asks for no more GPUs and "
        "no longer a time; else at a new place. In the place of a held job it is held too. It is refused, and nothing "
        "is cancelled, when that job has started.",
    )  # fmt: skip
    plan_token = serializers.CharField(
        required=False, help_text="Of a plan of this body: 409 plan_changed if something else would happen by now."
    )


class GpuOfJob(serializers.Serializer[Any]):
    """A GPU of an attempt."""

    node = serializers.CharField()
    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    nvlink_group_id = serializers.CharField(allow_null=True)
    rack_id = serializers.CharField()


class ProgressShape(serializers.Serializer[Any]):
    """How far the running attempt is."""

    step = serializers.IntegerField()
    total = serializers.IntegerField()
    unit = serializers.CharField()
    rate = serializers.FloatField(allow_null=True, help_text="null also while a node of it is silent.")
    eta_s = serializers.FloatField(allow_null=True)


class TransferShape(serializers.Serializer[Any]):
    """What a node moves for the attempt just now, and how far it is."""

    node = serializers.CharField()
    what = serializers.CharField()
    files = serializers.IntegerField()
    of_files = serializers.IntegerField()
    bytes = serializers.IntegerField()
    of_bytes = serializers.IntegerField()
    message = serializers.CharField()


class StartingShape(serializers.Serializer[Any]):
    """The nodes of a granted job that does not run yet, by what each has said."""

    unclaimed = serializers.ListField(child=serializers.CharField())
    preparing = serializers.ListField(child=serializers.CharField())
    ready = serializers.ListField(child=serializers.CharField())
    started = serializers.ListField(child=serializers.CharField())


class ReasonShape(serializers.Serializer[Any]):
    """Why a job does not run now, or is not known to run."""

    code = serializers.CharField()
    message = serializers.CharField()
    numbers = serializers.JSONField()


class SpanShape(serializers.Serializer[Any]):
    """When something is expected, as seen at `as_of`: between `low` and `high`."""

    at = serializers.DateTimeField(
        help_text="If nothing else comes and all runs to its time limit; of a long queue, with the work ahead spread "
        "evenly over the pool. Where nothing is ahead it is the low end; where it leaves by start_by: if it stayed."
    )
    low = serializers.DateTimeField(help_text="If nothing ahead of it took its place.")
    high = serializers.DateTimeField(help_text="If what is ahead of it packs badly and runs to its limits.")
    as_of = serializers.DateTimeField()


class ChangeShape(serializers.Serializer[Any]):
    """A change of the request, tried: with it the job would start at `starts_at`."""

    change = serializers.CharField()
    starts_at = serializers.DateTimeField(
        help_text="At the soonest; with a later start_by, if nothing else comes and all runs to its time limit."
    )
    fields = serializers.JSONField(help_text="The fields of the request to be set.")  # type: ignore[assignment]


class ScoresShape(serializers.Serializer[Any]):
    """The scores of the three ledgers."""

    queue = serializers.FloatField(allow_null=True)
    project = serializers.FloatField(allow_null=True)
    user = serializers.FloatField(allow_null=True)


class LostWorkShape(serializers.Serializer[Any]):
    """What an attempt did in vain for no fault of its job's; it is given back in fair share."""

    attempt = serializers.IntegerField(help_text="Its number.")
    cause = serializers.CharField(help_text="preempt, health, drain or lost (its node)")
    at = serializers.DateTimeField()
    work_s = serializers.FloatField(help_text="Seconds that have to be done again, since its newest checkpoint.")
    resume_s = serializers.FloatField(help_text="Seconds that went into resuming.")
    gpu_hours = serializers.FloatField(help_text="Both, on all its GPUs.")
    in_vain = serializers.BooleanField(help_text="It made room for a job that then did not take the GPUs.")
    ran = serializers.BooleanField(help_text="False: it never ran on all its nodes, so that it lost time, and no work.")


class CheckpointShape(serializers.Serializer[Any]):
    """A checkpoint to begin with."""

    artifact = serializers.UUIDField()
    step = serializers.IntegerField(help_text="0 where the job never said.")
    saved_at = serializers.DateTimeField()


class JobShape(WithGroup):
    """A job and where it stands."""

    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Rises with each change.")
    url = serializers.CharField(help_text="Its page.")
    name = serializers.CharField()
    kind = serializers.CharField()
    state = serializers.CharField()
    project = serializers.CharField(allow_null=True)
    user = serializers.CharField(allow_null=True)
    queue = serializers.CharField(allow_null=True)
    priority = serializers.CharField(allow_null=True)
    gpu_count = serializers.IntegerField()
    node_count = serializers.IntegerField(
        allow_null=True,
        help_text="The nodes that it spans; null with allow_span: see the nodes of its attempts.",
    )
    gpus_per_node = serializers.IntegerField(
        allow_null=True, help_text="On each node; null with allow_span, and where the last node has fewer (remainder)."
    )
    gpu_memory_min = serializers.JSONField(allow_null=True)
    gpu_memory_min_mib = serializers.IntegerField()
    nvlink_required = serializers.BooleanField()
    nvlink_exclusive = serializers.BooleanField()
    max_duration = serializers.IntegerField(help_text="Seconds.")
    remainder = serializers.IntegerField(help_text="GPUs on the last node where it has fewer than the others, else 0.")
    affinity = AffinityShape(allow_null=True, help_text="As it was asked for.")
    anti_affinity = GroupRuleShape(allow_null=True)
    group = serializers.CharField(allow_null=True)
    after = serializers.ListField(child=serializers.UUIDField(), help_text="As they were named; those that took their "
                                  "place since are on its timeline.")  # fmt: skip
    after_any = serializers.BooleanField()
    not_before = serializers.DateTimeField(allow_null=True)
    start_by = serializers.DateTimeField(allow_null=True)
    required_level = serializers.CharField(allow_null=True)
    max_wait_for_level = serializers.IntegerField(allow_null=True, help_text="Seconds.")
    allow_span = serializers.BooleanField()
    retries = serializers.IntegerField()
    preemptible = serializers.BooleanField()
    purpose = serializers.CharField(allow_null=True)
    params = serializers.JSONField()
    submitted_at = serializers.DateTimeField(
        help_text="What its place and its age count from: that of the job that it replaces, where it keeps the place."
    )
    started_at = serializers.DateTimeField(allow_null=True, help_text="Of its first attempt.")
    attempt_started_at = serializers.DateTimeField(allow_null=True, help_text="Of its newest attempt.")
    run_s = serializers.FloatField(
        help_text="Seconds that its attempts have run in all, without the waits between and the time that restoring "
        "took. All of them count to max_duration, also of work that was lost."
    )
    left_s = serializers.FloatField(allow_null=True, help_text="max_duration less run_s; null for a job that is over.")
    waits_since = serializers.DateTimeField(
        allow_null=True, help_text="Its submission, or the end of its newest attempt; null unless it waits."
    )
    ended_at = serializers.DateTimeField(allow_null=True)
    score = serializers.FloatField(allow_null=True)
    deficit = serializers.FloatField(allow_null=True)
    scores = ScoresShape()
    preempted = serializers.BooleanField(help_text="It was stopped before its end, to make way or to move, and waits.")
    preempt_count = serializers.IntegerField(help_text="How often it made way for another job; moves don't count.")
    retry_of = serializers.UUIDField(allow_null=True, help_text="The ended job that it does again.")
    pipeline = serializers.UUIDField(allow_null=True, help_text="The pipeline that it is of.")
    sweep = serializers.UUIDField(allow_null=True, help_text="The sweep that it is of.")
    key = serializers.CharField(allow_null=True, help_text="What it is called there.")
    replaces = serializers.UUIDField(
        allow_null=True, help_text="The job whose place it took; null also for one of another project."
    )
    replaced_by = serializers.UUIDField(
        allow_null=True, help_text="The job that took its place; null also for one of another project."
    )
    attempt = serializers.IntegerField()
    progress = ProgressShape(allow_null=True)
    starting = StartingShape(allow_null=True, help_text="Null unless it is granted and does not run yet.")
    transfer = TransferShape(allow_null=True)
    reasons = ReasonShape(
        many=True,
        help_text="Why it waits, or why and how it stops. AFTER: other jobs are to end first; until then "
        "nothing is foretold. UNHEARD: a node of a live job is silent, since when, and "
        "what follows when (`until_ms`; none while many are). EVICTS_NOBODY: for a while, since it would be a loop.",
    )
    as_of = serializers.DateTimeField(
        allow_null=True, help_text="The instant that reasons, estimated_start and alternatives are of; null in lists."
    )
    estimated_start = SpanShape(
        allow_null=True,
        help_text="Of one waiting job; null in lists. No promise: a job of higher priority, or of the same priority "
        "whose owner has used less of the share, goes before it whenever it is submitted, and faults come.",
    )
    alternatives = ChangeShape(many=True, help_text="Of one waiting job; none in lists.")
    gpus = GpuOfJob(many=True)
    artifacts = OutputShape(many=True)
    outcome = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_null=True)
    gpu_hours = serializers.FloatField(
        help_text="GPU time that it has held; what `lost_work` tells of it is given back and does not count as used."
    )
    lost_work = LostWorkShape(many=True, help_text="By attempt; empty when nothing was lost.")
    resumes_from = CheckpointShape(
        allow_null=True, help_text="What its next attempt, or a retry, begins with; null for the very beginning."
    )
    errors = FieldProblem(many=True)  # type: ignore[assignment]


class EventShape(serializers.Serializer[Any]):
    """One line of a job's timeline."""

    seq = serializers.IntegerField()
    at = serializers.DateTimeField()
    type = serializers.CharField()
    actor = serializers.CharField()
    message = serializers.CharField()
    attempt = serializers.UUIDField(allow_null=True)
    epoch = serializers.IntegerField()
    node = serializers.CharField(allow_null=True)
    data = serializers.JSONField()  # type: ignore[assignment]


class PartShape(serializers.Serializer[Any]):
    """A node's part of a run; rank 0 leads. `ready_at` only where there are several."""

    node = serializers.CharField()
    rank = serializers.IntegerField()
    claimed_at = serializers.DateTimeField(allow_null=True)
    ready_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.CharField(allow_null=True)
    manner = serializers.CharField(
        allow_null=True, help_text="How, where the node said more: `yielded` is an end with 85 that nobody asked for."
    )


class AttemptShape(serializers.Serializer[Any]):
    """One run of a job."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    epoch = serializers.IntegerField()
    granted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(allow_null=True)
    log_bytes = serializers.IntegerField()
    resumed_from = serializers.UUIDField(allow_null=True)
    lost = LostWorkShape(allow_null=True)
    gpus = GpuOfJob(many=True)
    nodes = PartShape(many=True)


class LogShape(serializers.Serializer[Any]):
    """A piece of an attempt's log; go on from `next`."""

    attempt = serializers.IntegerField(allow_null=True)
    offset = serializers.IntegerField()
    next = serializers.IntegerField()
    text = serializers.CharField()
    eof = serializers.BooleanField(help_text="True when nothing more will come.")


class CancelRequest(serializers.Serializer[Any]):
    """How to cancel."""

    force = serializers.BooleanField(required=False, help_text="At once, without a grace for a checkpoint.")
