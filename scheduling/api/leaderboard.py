"""Which model is best, of those that were evaluated on the same samples?"""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.door import Door, parameters
from scheduling.api.paging import refuse_filters
from scheduling.api.shapes.answers import documented, query
from scheduling.api.shapes.leaderboard import LeaderboardShape
from scheduling.services import leaderboard as service
from scheduling.services.leaderboard import Entry
from scheduling.services.scores import Contest


class Leaderboard(Door):
    """Models ranked by a metric."""

    scopes = {"GET": "artifacts:read"}

    @documented(
        "leaderboard", "Models that were evaluated on the same samples, the best first", tag="artifacts",
        answer=LeaderboardShape,
        parameters=(
            query("dataset", "Id, digest or name of the data set; without it that of the newest evaluation."),
            query("file", "Which file of it, or `all` for evaluations that named none."),
            query("limit", "So many samples, or `all`."),
            query("metric", "By which metric; without it the first of the task."),
            query("project", "Only evaluations of this project."),
        ),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The leaderboard; with no entries where nothing was evaluated so."""
        given = parameters(request, service.FILTERS)
        refuse_filters(service.wrong(self.actor, given))
        found = service.leaderboard(self.actor, given)
        return Response(
            {
                "contest": None if found.contest is None else _contest(found.contest, found.dataset),
                "metric": found.metric,
                "better": "higher" if found.higher_is_better else "lower",
                "metrics": found.metrics,
                "results": [_entry(entry, found.metric) for entry in found.entries],
                "others": [_contest(contest, dataset) for contest, dataset in found.others],
            }
        )


def _entry(entry: Entry, metric: str) -> dict[str, Any]:
    return {
        "rank": entry.rank,
        "model": _named(entry.digest, entry.artifact, entry.name),
        "value": entry.metrics[metric],
        "metrics": entry.metrics,
        "counts": entry.counts,
        "recipe": entry.meta.get("recipe"),
        "evaluation": entry.evaluation,
        "job": entry.job,
        "evaluated_at": entry.at,
        "evaluations": entry.times,
        "found_by": entry.found_by,
        "fitted": entry.fitted,
    }


def _contest(contest: Contest, dataset: Any) -> dict[str, Any]:
    return {"dataset": _named(contest.dataset, dataset), "file": contest.file, "limit": contest.limit}


def _named(digest: str, artifact: Any, name: str = "") -> dict[str, Any]:
    return {
        "digest": digest,
        "id": None if artifact is None else str(artifact.pk),
        "name": None if artifact is None else name or artifact.name,
        "project": None if artifact is None else artifact.project.name,
        "deleted": artifact is not None and artifact.deleted_at is not None,
    }
