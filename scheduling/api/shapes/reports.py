"""Reports: who used what, waits, lost work, what was there, and what was held and idle."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.services.reports.period import EACH


class PieceShape(serializers.Serializer[Any]):
    """A day, a week or a month, or what of it lies in the period."""

    first = serializers.DateField(help_text="Its first day in the zone.")
    last = serializers.DateField(help_text="Its last day.")
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(help_text="The instant at which it is over.")


class PeriodShape(serializers.Serializer[Any]):
    """What a report tells of."""

    first = serializers.DateField()
    last = serializers.DateField()
    each = serializers.ChoiceField(choices=EACH)
    zone = serializers.CharField()
    pieces = PieceShape(many=True)


class GpuHours(serializers.Serializer[Any]):
    """GPU-hours of a time."""

    held_gpu_h = serializers.FloatField(help_text="All that was held.")
    lost_gpu_h = serializers.FloatField(help_text="Of it, what was lost for no fault of the jobs and given back.")
    used_gpu_h = serializers.FloatField(help_text="Of it, the rest.")
    charged_gpu_h = serializers.FloatField(help_text="What was used, times the billing weights of the GPU models.")


class UsageRow(GpuHours):
    """What was used in a piece, by whom and for what, as far as it was asked for by `by`."""

    piece = serializers.IntegerField(required=False, help_text="Its number among the pieces, from 0.")
    project = serializers.CharField(required=False)
    user = serializers.CharField(
        required=False, allow_null=True, help_text="null: people of a project that is not yours."
    )
    kind = serializers.CharField(required=False)
    queue = serializers.CharField(required=False)


class UsageShape(serializers.Serializer[Any]):
    """Who used what."""

    period = PeriodShape()
    total = GpuHours()
    results = UsageRow(many=True)


class WaitsShape(serializers.Serializer[Any]):
    """How long so many jobs waited until they first ran, in seconds."""

    jobs = serializers.IntegerField()
    median_s = serializers.FloatField()
    p95_s = serializers.FloatField(help_text="95 of 100 waited so long at most.")
    longest_s = serializers.FloatField()
    mean_s = serializers.FloatField()


class PriorityWaits(WaitsShape):
    """Of one priority of a queue."""

    queue = serializers.CharField()
    priority = serializers.CharField()


class ProjectWaits(WaitsShape):
    """Of one project."""

    project = serializers.CharField()


class KindWaits(WaitsShape):
    """Of one kind."""

    kind = serializers.CharField()


class WaitReportShape(serializers.Serializer[Any]):
    """How long the jobs waited that first ran in the period."""

    period = PeriodShape()
    all = WaitsShape(allow_null=True, help_text="null: none ran.")
    priorities = PriorityWaits(many=True)
    projects = ProjectWaits(many=True)
    kinds = KindWaits(many=True)


class LossRow(serializers.Serializer[Any]):
    """What a project lost by a cause."""

    project = serializers.CharField()
    cause = serializers.CharField(help_text="preempt, health, drain or lost (its node)")
    gpu_hours = serializers.FloatField()
    attempts = serializers.IntegerField(help_text="That ended so in the period.")
    in_vain = serializers.IntegerField(help_text="Of the attempts: evicted for a job that then did not take the GPUs.")


class LostReportShape(serializers.Serializer[Any]):
    """What was lost for no fault of the jobs, by cause."""

    period = PeriodShape()
    gpu_hours = serializers.FloatField()
    results = LossRow(many=True)


class CapacityNumbers(serializers.Serializer[Any]):
    """GPU-hours that were there, in the time that was looked at."""

    installed_gpu_h = serializers.FloatField()
    out_gpu_h = serializers.FloatField(help_text="Of it, of GPUs out of service or on lost nodes.")
    held_gpu_h = serializers.FloatField(help_text="Of it, what any job held.")
    held_part = serializers.FloatField(allow_null=True, help_text="That, of what was installed, 0 to 1.")
    utilization = serializers.FloatField(allow_null=True, help_text="Of the GPUs of which it is known, in percent.")


class CapacityPiece(CapacityNumbers):
    """Of one piece."""

    piece = serializers.IntegerField()


class BusyRow(serializers.Serializer[Any]):
    """How busy the GPUs were that jobs held."""

    project = serializers.CharField()
    user = serializers.CharField(allow_null=True, help_text="null: people of a project that is not yours.")
    kind = serializers.CharField()
    queue = serializers.CharField()
    known_gpu_h = serializers.FloatField(help_text="Of so much of what they held it is known.")
    utilization = serializers.FloatField(help_text="In percent.")


class CapacityShape(serializers.Serializer[Any]):
    """What was there, how much of it was held, and how busy it was."""

    period = PeriodShape()
    looked_since = serializers.DateTimeField(allow_null=True, help_text="Since when it is known; null: not yet.")
    total = CapacityNumbers()
    results = CapacityPiece(many=True)
    jobs = BusyRow(many=True)


class IdleRow(serializers.Serializer[Any]):
    """What a job held and left idle; of one that is not yours only the project, the kind and the queue are told."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    project = serializers.CharField()
    user = serializers.CharField(allow_null=True)
    kind = serializers.CharField()
    queue = serializers.CharField()
    gpu_hours = serializers.FloatField()
    stretches = serializers.IntegerField()
    longest_s = serializers.FloatField()
    gpus = serializers.ListField(child=serializers.CharField(), help_text="NODE/NUMBER of each.")
    idle_now = serializers.BooleanField()


class IdleShape(serializers.Serializer[Any]):
    """What was held and idle, the most first."""

    period = PeriodShape()
    below_percent = serializers.FloatField(help_text="A held GPU that did less than so much ...")
    for_minutes = serializers.FloatField(help_text="... for so long was idle.")
    gpu_hours = serializers.FloatField()
    results = IdleRow(many=True)
