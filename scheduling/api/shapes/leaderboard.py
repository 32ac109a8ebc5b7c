"""A leaderboard: models that were evaluated on the same samples, the best first."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.services.scores import EVALUATE, EVOLVE
from workers.evaluate_params import METRICS


class NamedArtifact(serializers.Serializer[Any]):
    """An artifact by its digest; without id and name where it is of another project, or there no more."""

    digest = serializers.CharField()
    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    project = serializers.CharField(allow_null=True)
    deleted = serializers.BooleanField()


class ContestShape(serializers.Serializer[Any]):
    """Samples that models are compared on."""

    dataset = NamedArtifact()
    file = serializers.CharField(allow_null=True, help_text="Which file of the data set, where that was said.")
    limit = serializers.IntegerField(allow_null=True, help_text="The first so many samples; null: all.")


class EntryShape(serializers.Serializer[Any]):
    """One model, by its newest evaluation, be it that of a search which found it."""

    rank = serializers.IntegerField(
        allow_null=True, help_text="Equal for equal values; null for one that is no number."
    )
    model = NamedArtifact()
    value = serializers.FloatField(allow_null=True)
    metrics = serializers.DictField(child=serializers.FloatField(allow_null=True))
    counts = serializers.DictField(child=serializers.IntegerField())
    recipe = serializers.JSONField(allow_null=True, help_text="What the model was made by, where it was a job.")
    evaluation = serializers.UUIDField(
        help_text="The artifact that holds the results of every sample, or the ledger of the search."
    )
    job = serializers.UUIDField()
    evaluated_at = serializers.DateTimeField()
    evaluations = serializers.IntegerField(help_text="How often it was evaluated on these samples.")
    found_by = serializers.ChoiceField(choices=[EVALUATE, EVOLVE], help_text="The kind of the job that evaluated it.")
    fitted = serializers.BooleanField(
        help_text="True where a search chose it by these very samples: its score on others says more."
    )


class LeaderboardShape(serializers.Serializer[Any]):
    """The models of one contest, the best first."""

    contest = ContestShape(allow_null=True)
    metric = serializers.CharField(
        allow_blank=True, help_text=f"{', '.join(METRICS)}, or one of a task of lm-eval (TASK/acc)."
    )
    better = serializers.ChoiceField(choices=["higher", "lower"])
    metrics = serializers.ListField(child=serializers.CharField())
    results = EntryShape(many=True)
    others = ContestShape(many=True, help_text="Other samples that models were evaluated on, the newest first.")
