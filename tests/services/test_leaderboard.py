"""Models that were evaluated on the same samples are ranked; what isn't comparable, or one's own, is kept apart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.models import Artifact, Job, JobOutput, Project
from scheduling.services import leaderboard as service
from tests import builders as b

pytestmark = pytest.mark.django_db

SIZES = (64, 8, 10)


@pytest.fixture
def who() -> Any:
    return b.people()


def dataset(actor: Any, name: str = "tests") -> Artifact:
    return Artifact.objects.get(pk=b.dataset(actor, name))


def evaluated(
    actor: Any, model: str, data: Artifact, minutes: int = 0, project: str = "alpha", **more: Any
) -> Artifact:
    """The result of a job that evaluated the model (by its name, made where there is none), so many minutes after
    noon."""
    found = Artifact.objects.filter(name=model, project__name=project).first()
    of = found or Artifact.objects.get(pk=b.mlp(actor, model, sum(model.encode()), sizes=SIZES, project=project))
    body = b.evaluate_body(str(of.pk), str(data.pk), project=project)
    job = Job.objects.get(pk=b.submitted(actor, body, now=b.NOON + timedelta(minutes=minutes)))
    metrics = more.pop("metrics", {"accuracy": more.pop("accuracy", 0.5)})
    Job.objects.filter(pk=job.pk).update(params={**job.params, **more})
    made = Artifact.objects.create(
        project=Project.objects.get(name=project), digest=f"sha256:{job.pk.hex * 2}", name="e", kind="eval", size=1,
        files=[], meta={"metrics": metrics, "counts": {"samples": 8}}, job=job, created_at=job.submitted_at,
        published=True,
    )  # fmt: skip
    JobOutput.objects.create(job=job, artifact=made, name="evaluation")
    return made


def model_of(evaluation: Artifact) -> Artifact:
    (found,) = (each["artifact"] for each in evaluation.job.spec["inputs"] if each["as"] == "model")
    return Artifact.objects.get(pk=found)


def board(actor: Any, **given: str) -> list[tuple[int | None, str]]:
    assert service.wrong(actor, given) == ()
    found = service.leaderboard(actor, given)
    return [(entry.rank, entry.artifact.name if entry.artifact else entry.digest) for entry in found.entries]


def test_the_highest_accuracy_and_the_lowest_loss_come_first(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    for name, accuracy, loss in (("a", 0.5, 0.1), ("b", 0.9, 0.3), ("c", 0.7, 0.2)):
        evaluated(alice, name, data, metrics={"accuracy": accuracy, "loss": loss})
    assert board(alice) == [(1, "b"), (2, "c"), (3, "a")]
    assert board(alice, metric="loss") == [(1, "a"), (2, "c"), (3, "b")]


def test_equal_values_have_one_rank_and_the_next_is_after_all_of_them(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    for minutes, (name, accuracy) in enumerate((("late", 0.7), ("a", 0.9), ("b", 0.9))):
        evaluated(alice, name, data, minutes, accuracy=accuracy)
    assert board(alice) == [(1, "a"), (1, "b"), (3, "late")]


def test_a_value_that_is_no_number_comes_last_without_a_rank(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    evaluated(alice, "odd", data, metrics={"accuracy": 0.4, "loss": None})
    evaluated(alice, "worse", data, metrics={"accuracy": 0.1, "loss": 7.0})
    assert board(alice, metric="loss") == [(1, "worse"), (None, "odd")]


def test_of_several_evaluations_of_a_model_the_newest_counts(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    evaluated(alice, "a", data, 1, accuracy=0.2)
    evaluated(alice, "a", data, 2, accuracy=0.8)
    evaluated(alice, "b", data, 3, accuracy=0.5)
    assert board(alice) == [(1, "a"), (2, "b")]
    assert [entry.times for entry in service.leaderboard(alice, {}).entries] == [2, 1]


@pytest.mark.parametrize("apart", [{"limit": 4}, {"file": "other.jsonl"}])
def test_other_samples_are_another_contest(who: Any, apart: dict[str, Any]) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    evaluated(alice, "a", data, 1)
    evaluated(alice, "b", data, 2, **apart)
    assert board(alice) == [(1, "b")]
    (name, value) = next(iter(apart.items()))
    assert board(alice, **{name: "all"}) == [(1, "a")]
    assert board(alice, **{name: str(value)}) == [(1, "b")]
    assert len(service.leaderboard(alice, {}).others) == 1


def test_the_contest_that_was_evaluated_last_is_shown_first(who: Any) -> None:
    alice = who["alice"]
    one, other = dataset(alice, "one"), Artifact.objects.get(pk=b.dataset(alice, "other", content=b"x"))
    evaluated(alice, "a", other, 1)
    evaluated(alice, "b", one, 2)
    assert service.leaderboard(alice, {}).dataset == one
    for reference in ("other", str(other.pk), other.digest):
        assert service.leaderboard(alice, {"dataset": reference}).dataset == other


def test_what_was_deleted_is_left_out_and_a_deleted_model_stays(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    gone, kept = evaluated(alice, "a", data), evaluated(alice, "b", data)
    Artifact.objects.filter(pk=gone.pk).update(deleted_at=b.NOON)
    Artifact.objects.filter(pk=model_of(kept).pk).update(deleted_at=b.NOON)
    (entry,) = service.leaderboard(alice, {}).entries
    assert (entry.artifact.name, entry.artifact.deleted_at is not None) == ("b", True)


def test_nothing_of_another_project_is_seen(who: Any) -> None:
    data = dataset(who["alice"])
    evaluated(who["alice"], "a", data)
    assert board(who["bob"]) == []
    assert service.leaderboard(who["bob"], {}).others == ()
    (wrong,) = service.wrong(who["bob"], {"dataset": str(data.pk)})
    assert (wrong["field"], wrong["code"]) == ("dataset", "unknown_dataset")


def test_what_was_uploaded_as_an_evaluation_counts_nothing(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    made = evaluated(alice, "a", data, accuracy=0.3)
    meta = {**made.meta, "metrics": {"accuracy": 1.0}}
    Artifact.objects.create(project=made.project, digest=f"sha256:{'0' * 64}", name="forged", kind="eval", size=1,
                            files=[], meta=meta, created_at=b.NOON, published=True)  # fmt: skip
    assert [entry.metrics["accuracy"] for entry in service.leaderboard(alice, {}).entries] == [0.3]


@pytest.mark.parametrize("meta", [{}, {"metrics": 3, "counts": {}}, {"metrics": {}}, {"metrics": {}, "counts": []}])
def test_a_record_of_another_form_is_passed_over(who: Any, meta: dict[str, Any]) -> None:
    alice = who["alice"]
    made = evaluated(alice, "a", dataset(alice))
    Artifact.objects.filter(pk=made.pk).update(meta=meta)
    assert board(alice) == []


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"metric": "acuracy"}, "metric", "did you mean 'accuracy'?"),
        ({"limit": "ten"}, "limit", "the number of samples or all"),
        ({"dataset": "tetss"}, "dataset", "did you mean 'tests'?"),
        ({"dataset": "net"}, "dataset", "no data set 'net'"),
        ({"project": "alhpa"}, "project", "did you mean 'alpha'?"),
    ],
)
def test_a_wrong_filter_is_told_with_what_there_is(who: Any, given: dict[str, str], field: str, words: str) -> None:
    alice = who["alice"]
    dataset(alice)
    b.mlp(alice, "net", sizes=SIZES)
    (error,) = service.wrong(alice, given)
    assert (error["field"], words in error["message"]) == (field, True), error["message"]


def test_two_models_whose_evaluations_share_one_artifact_are_both_there(who: Any) -> None:
    """Equal rows are equal bytes, stored once, with the record of the first."""
    alice, data = who["alice"], dataset(who["alice"])
    first, second = evaluated(alice, "a", data, 1), evaluated(alice, "b", data, 2)
    JobOutput.objects.filter(artifact=second).update(artifact=first)
    second.delete()
    assert board(alice) == [(1, "a"), (1, "b")]


def test_a_model_is_shown_under_the_name_and_with_the_recipe_by_which_it_was_evaluated(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    first = model_of(evaluated(alice, "a", data, 1))
    made_by = Job.objects.get(
        pk=b.submitted(alice, b.merge_body([str(first.pk), b.mlp(alice, "other", 9, sizes=SIZES)]))
    )
    JobOutput.objects.create(job=made_by, artifact=first, name="twin", meta={"recipe": {"strategy": "slerp", "t": 0.5}})
    again = evaluated(alice, "b", data, 2)
    body = b.evaluate_body("twin", str(data.pk))
    job = Job.objects.get(pk=b.submitted(alice, body, now=b.NOON + timedelta(minutes=3)))
    JobOutput.objects.filter(artifact=again).update(job=job)
    (entry,) = service.leaderboard(alice, {}).entries
    assert (entry.artifact.name, entry.name, entry.times) == ("a", "twin", 2)
    assert entry.meta == {"recipe": {"strategy": "slerp", "t": 0.5}}


def test_metrics_of_tasks_rank_the_way_that_each_is_better(who: Any) -> None:
    alice, data = who["alice"], dataset(who["alice"])
    evaluated(alice, "a", data, 1, metrics={"rivers/acc": 0.5, "speech/word_perplexity": 9.0})
    evaluated(alice, "b", data, 2, metrics={"rivers/acc": 0.75, "speech/word_perplexity": 12.0})
    evaluated(alice, "c", data, 3, metrics={"rivers/acc": None, "other": 3.0})
    found = service.leaderboard(alice, {})
    assert (found.metric, found.metrics, found.higher_is_better) == (
        "rivers/acc", ("rivers/acc", "speech/word_perplexity"), True,
    )  # fmt: skip
    assert board(alice) == [(1, "b"), (2, "a"), (None, "c")]
    assert board(alice, metric="speech/word_perplexity") == [(1, "a"), (2, "b")]
    assert not service.leaderboard(alice, {"metric": "speech/word_perplexity"}).higher_is_better
    (error,) = service.wrong(alice, {"metric": "rivers/nothing"})
    assert "or one of a task of lm-eval, such as TASK/acc" in error["message"]
