"""Replays of recent history under a change."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.api.shapes.plan import MoreNodesShape


class WhatIfRequest(serializers.Serializer[Any]):
    """The days, and what differs: at least one of the others."""

    days = serializers.IntegerField(required=False, help_text="So many days up to now, 7 by default, at most 31.")
    policy = serializers.JSONField(required=False, help_text="What differs, such as {project_weights: {alpha: 3}}.")
    add_nodes = MoreNodesShape(many=True, required=False)
    remove_nodes = serializers.ListField(child=serializers.CharField(), required=False)


class WhatIfProgress(serializers.Serializer[Any]):
    """How far it is: jobs that were played, of both tellings together."""

    done = serializers.IntegerField()
    total = serializers.IntegerField()
    rate = serializers.FloatField(allow_null=True, help_text="Jobs a second.")
    eta_s = serializers.FloatField(allow_null=True)


class WhatIfShape(serializers.Serializer[Any]):
    """A replay that was asked for."""

    id = serializers.UUIDField()
    by = serializers.CharField()
    created_at = serializers.DateTimeField()
    days = serializers.IntegerField()
    change = serializers.JSONField(help_text="What differs, as it was sent.")
    state = serializers.ChoiceField(choices=["QUEUED", "RUNNING", "DONE", "FAILED", "CANCELLED"])
    error = serializers.CharField(allow_null=True)
    progress = WhatIfProgress()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField()


class DaysGroupShape(serializers.Serializer[Any]):
    """The figures of some jobs in these days. Who has not started counts as having waited to their end."""

    jobs = serializers.IntegerField(help_text="That had not started before these days.")
    started = serializers.IntegerField()
    mean_wait_s = serializers.FloatField(allow_null=True)
    p95_wait_s = serializers.FloatField(allow_null=True)
    preemptions = serializers.IntegerField()
    gpu_hours = serializers.FloatField(help_text="Held in these days.")


class DaysShareShape(DaysGroupShape):
    """Of a project, or a person in one."""

    share = serializers.FloatField(allow_null=True, help_text="Of all GPU-hours that were held, 0 to 1.")


class DaysSeriesShape(serializers.Serializer[Any]):
    """Means over equal parts of the days."""

    part_s = serializers.FloatField(help_text="The length of a part.")
    projects = serializers.DictField(
        child=serializers.ListField(child=serializers.FloatField()), help_text="GPUs held."
    )
    waiting = serializers.ListField(child=serializers.FloatField(), help_text="Jobs that waited for their first start.")


class DaysShape(DaysGroupShape):
    """One telling of the days."""

    rejected = serializers.IntegerField(help_text="Jobs that these nodes could never hold; counted here alone.")
    gpus = serializers.IntegerField()
    utilization = serializers.FloatField(allow_null=True, help_text="Share of the GPUs that was held, 0 to 1.")
    priorities = serializers.DictField(child=DaysGroupShape())
    queues = serializers.DictField(child=DaysGroupShape())
    projects = serializers.DictField(child=DaysShareShape())
    users = serializers.DictField(child=DaysShareShape(), help_text="By project/user, of the projects you may know of.")
    series = DaysSeriesShape()


class DaysJobShape(serializers.Serializer[Any]):
    """A job that fares otherwise; of one that you may not know of, its priority and its size alone are told."""

    job = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    project = serializers.CharField(allow_null=True)
    priority = serializers.CharField()
    gpus = serializers.IntegerField()
    wait_before_s = serializers.FloatField(allow_null=True, help_text="Null: the nodes could never hold it.")
    wait_after_s = serializers.FloatField(allow_null=True)
    later_s = serializers.FloatField(allow_null=True, help_text="Negative: it would have started sooner.")
    started_before = serializers.BooleanField()
    started_after = serializers.BooleanField()
    preemptions_before = serializers.IntegerField()
    preemptions_after = serializers.IntegerField()


class DaysMovedShape(serializers.Serializer[Any]):
    """Who fares otherwise."""

    sooner = serializers.IntegerField()
    later = serializers.IntegerField()
    jobs = DaysJobShape(many=True, help_text="At most 200, those that move most.")


class WhatIfResultShape(serializers.Serializer[Any]):
    """What really was, and the same days played as things are (before) and with the change (after)."""

    until = serializers.DateTimeField()
    recorded = DaysShape()
    before = DaysShape()
    after = DaysShape()
    moved = DaysMovedShape()
    notes = serializers.ListField(child=serializers.CharField(), help_text="What is not known, and what has no effect.")

    def get_fields(self) -> dict[str, Any]:
        """``from`` is no name in Python."""
        return {"from": serializers.DateTimeField(), **super().get_fields()}


class WhatIfWholeShape(WhatIfShape):
    """A replay with its result."""

    result = WhatIfResultShape(allow_null=True)
