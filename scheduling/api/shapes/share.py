"""Fair share: the statement of an account, shares over time, and how they go on."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.api.shapes.reports import PeriodShape


class StatementPeriod(serializers.Serializer[Any]):
    """What a statement tells of."""

    first = serializers.DateField()
    last = serializers.DateField()
    zone = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(help_text="The instant of the closing balance: the end of the last day, or now.")


class StatementLine(serializers.Serializer[Any]):
    """What jobs did to the account. `charged` - `given_back` - `faded` = `counts`."""

    held_gpu_h = serializers.FloatField(help_text="GPU-hours held in the period.")
    charged_gpu_h = serializers.FloatField(help_text="That, times the weights of the GPU models.")
    given_back_gpu_h = serializers.FloatField(help_text="Lost work given back in the period, as it counted then.")
    faded_gpu_h = serializers.FloatField(help_text="What of it has faded by the end of the period.")
    counts_gpu_h = serializers.FloatField(help_text="What of it still counts at the end of the period.")


class StatementJob(StatementLine):
    """Of one job."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    user = serializers.CharField()
    kind = serializers.CharField()
    queue = serializers.CharField()
    state = serializers.CharField()


class StatementOthers(StatementLine):
    """Of all jobs that are not told one by one."""

    jobs = serializers.IntegerField()


class StatementCheck(serializers.Serializer[Any]):
    """The balance as of now, found twice."""

    as_of = serializers.DateTimeField()
    counted_gpu_h = serializers.FloatField(help_text="From the allocations alone.")
    stored_gpu_h = serializers.FloatField(help_text="As the scheduler has it, with what runs.")


class PeerShape(serializers.Serializer[Any]):
    """Whoever is just ahead."""

    name = serializers.CharField()
    target_gpu_h = serializers.FloatField()
    used_gpu_h = serializers.FloatField()


class StandingShape(serializers.Serializer[Any]):
    """Where the project, or the person in it, stands now."""

    target_gpu_h = serializers.FloatField()
    consumed_gpu_h = serializers.FloatField(help_text="The balance.")
    in_flight_gpu_h = serializers.FloatField(help_text="What running jobs may still use.")
    deficit = serializers.FloatField()
    place = serializers.IntegerField(help_text="1: nobody is ahead.")
    of = serializers.IntegerField()
    ahead = PeerShape(allow_null=True)


class StatementShape(serializers.Serializer[Any]):
    """An account over a time: `opening` + `charged` - `given_back` - `faded` = `closing`."""

    period = StatementPeriod()
    project = serializers.CharField()
    user = serializers.CharField(allow_null=True, help_text="null: the project's.")
    half_life_s = serializers.FloatField(help_text="0: nothing fades.")
    opening_gpu_h = serializers.FloatField()
    charged_gpu_h = serializers.FloatField()
    given_back_gpu_h = serializers.FloatField()
    faded_gpu_h = serializers.FloatField(help_text="Of the opening balance and of what came since.")
    faded_of_opening_gpu_h = serializers.FloatField(help_text="Of the opening balance alone.")
    closing_gpu_h = serializers.FloatField()
    jobs = StatementJob(many=True, help_text="The most charged first, 1000 at most; none of a project not yours.")
    others = StatementOthers()
    account = StatementCheck()
    standing = StandingShape(allow_null=True, help_text="null: no work waits or runs, or the weight is 0.")


class SharePiece(serializers.Serializer[Any]):
    """What a project had in a piece."""

    piece = serializers.IntegerField(help_text="Its number among the pieces, from 0.")
    held_gpu_h = serializers.FloatField()
    held_part = serializers.FloatField(allow_null=True, help_text="Of what all held, 0 to 1; null: nothing was held.")
    account_gpu_h = serializers.FloatField(
        allow_null=True, help_text="On its account as the piece ended, or now; null: the piece has yet to begin."
    )


class SharePoint(serializers.Serializer[Any]):
    """What is foreseen of an instant."""

    at = serializers.DateTimeField()
    account_gpu_h = serializers.FloatField()
    used_of_target = serializers.FloatField(
        help_text="The account, and what running jobs may use, of the target: by this jobs of one priority are ordered."
    )


class ProjectOverTime(serializers.Serializer[Any]):
    """A project over time."""

    project = serializers.CharField()
    due_part = serializers.FloatField(
        help_text="Due to it by the weights of now, among the projects that held GPUs in this time, 0 to 1."
    )
    target_gpu_h = serializers.FloatField(allow_null=True, help_text="Now; null: it has no work.")
    account_at_first_gpu_h = serializers.FloatField(allow_null=True, help_text="As the first piece began.")
    pieces = SharePiece(many=True)


class OverTimeShape(serializers.Serializer[Any]):
    """Shares over time, the most held first."""

    period = PeriodShape()
    results = ProjectOverTime(many=True)


class ForeseenShape(serializers.Serializer[Any]):
    """How a project, or a person in it, goes on."""

    name = serializers.CharField()
    project = serializers.CharField(allow_null=True, help_text="Of a person; null: it is a project itself.")
    target_gpu_h = serializers.FloatField()
    ahead = serializers.CharField(allow_null=True, help_text="Who is just ahead; null: nobody.")
    falls_behind_at = serializers.DateTimeField(
        allow_null=True, help_text="When that one has used more of its target; null: not within `within_days`."
    )
    points = SharePoint(many=True)


class ForecastShape(serializers.Serializer[Any]):
    """How shares go on, whoever is first in the order of the queue first. No promise."""

    as_of = serializers.DateTimeField()
    assumed = serializers.CharField(help_text="What has to be so for it to come so.")
    within_days = serializers.IntegerField()
    results = ForeseenShape(many=True)
