"""The best model that a search found stands among the evaluated ones, told apart on the samples of its search."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from scheduling.models import Artifact, Job, JobOutput
from scheduling.services import leaderboard as service
from tests import builders as b
from tests.services.test_leaderboard import SIZES, board, dataset, evaluated, model_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> Any:
    return b.people()["alice"]


def score(**metrics: float | None) -> dict[str, Any]:
    return {"metrics": metrics, "counts": {"samples": 8}}


def searched(
    actor: Any, on: Artifact, test: Artifact | None, scores: Any, minutes: int = 0, of: Mapping[str, Any] = {}
) -> Job:
    """A search that has ended so many minutes after noon: it stored ``found``, and what it tells of that."""
    models = [b.mlp(actor, name, seed, sizes=SIZES) for name, seed in (("one", 1), ("two", 2))]
    asked = {"objective": {"dataset": str(on.pk), **of.get("objective", {})}}
    if test is not None:
        asked["test"] = {"dataset": str(test.pk), **of.get("test", {})}
    body = b.evolve_body(models, str(on.pk), params=asked)
    job = Job.objects.get(pk=b.submitted(actor, body, now=b.NOON + timedelta(minutes=minutes)))
    for name, kind, meta in (
        ("found", "model", {"recipe": {"strategy": "slerp"}}),
        ("told", "eval", {"scores": scores}),
    ):
        made = Artifact.objects.create(
            project=job.project, digest=f"sha256:{kind}{job.pk.hex}", name=name, kind=kind, size=1, files=[], meta=meta,
            job=job, created_at=job.submitted_at, published=True,
        )  # fmt: skip
        JobOutput.objects.create(job=job, artifact=made, name=name, meta=meta)
    return job


def test_the_best_of_a_search_is_ranked_by_its_score_on_the_test_among_evaluated_models(alice: Any) -> None:
    search, test = dataset(alice, "search"), Artifact.objects.get(pk=b.dataset(alice, "test", content=b"x"))
    evaluated(alice, "worse", test, 1, accuracy=0.5)
    evaluated(alice, "better", test, 2, accuracy=0.9)
    job = searched(alice, search, test, {"search": score(accuracy=1.0), "test": score(accuracy=0.7)}, 3)
    assert board(alice) == [(1, "better"), (2, "found"), (3, "worse")]
    found = service.leaderboard(alice, {}).entries[1]
    assert (found.found_by, found.fitted, found.job, found.counts) == ("evolve", False, str(job.pk), {"samples": 8})
    assert (found.meta, found.evaluation) == (
        {"recipe": {"strategy": "slerp"}}, str(JobOutput.objects.get(name="told").artifact_id),
    )  # fmt: skip


def test_its_score_on_the_search_set_is_another_contest_and_told_apart(alice: Any) -> None:
    search, test = dataset(alice, "search"), Artifact.objects.get(pk=b.dataset(alice, "test", content=b"x"))
    searched(alice, search, test, {"search": score(accuracy=1.0), "test": score(accuracy=0.7)}, 1)
    evaluated(alice, "plain", search, 2, accuracy=0.8)
    found = service.leaderboard(alice, {"dataset": "search"})
    assert [(e.name, e.found_by, e.fitted) for e in found.entries] == [
        ("found", "evolve", True), ("plain", "evaluate", False),
    ]  # fmt: skip
    assert [(contest.dataset, named) for contest, named in found.others] == [(test.digest, test)]


def test_evaluated_anew_on_the_samples_of_its_search_it_is_told_apart_all_the_same(alice: Any) -> None:
    search = dataset(alice, "search")
    job = searched(alice, search, None, {"search": score(accuracy=1.0), "test": None}, 1)
    model = model_of(evaluated(alice, "plain", search, 2, accuracy=0.75))
    JobOutput.objects.filter(job=job, name="found").update(artifact=model)
    (entry,) = service.leaderboard(alice, {}).entries
    assert (entry.metrics["accuracy"], entry.found_by, entry.fitted, entry.times) == (0.75, "evaluate", True, 2)


@pytest.mark.parametrize("part", ["objective", "test"])
@pytest.mark.parametrize("apart", [{"limit": 4}, {"file": "test.jsonl"}])
def test_each_set_has_its_own_file_and_limit(part: str, apart: dict[str, Any], alice: Any) -> None:
    search, test = dataset(alice, "search"), Artifact.objects.get(pk=b.dataset(alice, "test", content=b"x"))
    scores = {"search": score(accuracy=1.0), "test": score(accuracy=0.7)}
    searched(alice, search, test, scores, 1, {part: apart})
    data = {"objective": "search", "test": "test"}
    for name, of in data.items():
        found = service.leaderboard(alice, {"dataset": of}).contest
        assert found is not None
        assert {"file": found.file, "limit": found.limit} == {
            "file": None,
            "limit": None,
            **(apart if name == part else {}),
        }


def test_a_metric_that_is_no_number_has_no_rank(alice: Any) -> None:
    search = dataset(alice, "search")
    searched(alice, search, None, {"search": score(accuracy=0.5, loss=None), "test": None}, 1)
    evaluated(alice, "plain", search, 2, metrics={"accuracy": 0.1, "loss": 3.0})
    assert board(alice, metric="loss") == [(1, "plain"), (None, "found")]


@pytest.mark.parametrize(
    "scores", [None, 3, {}, {"search": None}, {"search": {"metrics": 1, "counts": {}}}, {"search": []}]
)
def test_a_search_that_tells_no_scores_is_passed_over(scores: Any, alice: Any) -> None:
    """Such as those of earlier versions, and one whose best failed on the test."""
    searched(alice, dataset(alice, "search"), None, scores)
    assert board(alice) == []


def test_a_search_without_a_model_is_passed_over_and_one_whose_report_was_deleted_too(alice: Any) -> None:
    search, scores = dataset(alice, "search"), {"search": score(accuracy=1.0)}
    first, second = (searched(alice, search, None, scores, minutes) for minutes in (1, 2))
    assert len(board(alice)) == 2
    JobOutput.objects.get(job=first, name="found").delete()
    Artifact.objects.filter(outputs__job=second, kind="eval").update(deleted_at=b.NOON)
    assert board(alice) == []


def test_two_searches_whose_reports_are_one_artifact_have_each_their_own_record(alice: Any) -> None:
    """The first was stored before scores were told, or under other names."""
    search = dataset(alice, "search")
    first = searched(alice, search, None, None, 1)
    second = searched(alice, search, None, {"search": score(accuracy=0.6)}, 2)
    JobOutput.objects.filter(job=second, name="told").update(
        artifact=JobOutput.objects.get(job=first, name="told").artifact
    )
    (entry,) = service.leaderboard(alice, {}).entries
    assert (entry.job, entry.metrics) == (str(second.pk), {"accuracy": 0.6})


def test_nothing_of_a_search_of_another_project_is_seen(alice: Any) -> None:
    searched(alice, dataset(alice, "search"), None, {"search": score(accuracy=1.0)})
    found = service.leaderboard(b.people()["bob"], {})
    assert (found.entries, found.others) == ((), ())
