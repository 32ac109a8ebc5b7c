"""The leaderboard's page and its REST: which is best, two side by side, as CSV."""

from __future__ import annotations

import html as entities
from typing import Any

import pytest

from scheduling.models import Artifact
from tests import builders as b
from tests.services.test_leaderboard import dataset, evaluated, model_of
from tests.services.test_leaderboard_of_searches import score, searched
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db

PAGE = "/artifacts/leaderboard/"


@pytest.fixture
def results() -> list[Artifact]:
    """Three models of alice on one data set, the middle one by a merge."""
    alice = b.people()["alice"]
    data = dataset(alice)
    found = [evaluated(alice, name, data, i, metrics={"accuracy": a, "loss": 1 - a})
             for i, (name, a) in enumerate((("plain", 0.5), ("blend", 0.75), ("odd", 0.25)))]  # fmt: skip
    recipe = {"strategy": "slerp", "t": 0.4, "models": ["x", "y"], "seed": 0}
    Artifact.objects.filter(pk=model_of(found[1]).pk).update(meta={"recipe": recipe})
    return found


def page(address: str = PAGE, person: str = "alice") -> str:
    return entities.unescape(text(browser(person).get(address)))


def test_the_best_is_said_first_and_all_are_ranked(results: list[Artifact]) -> None:
    html = page()
    assert "blend is the best of 3 models on tests by accuracy: 0.75." in html
    assert html.index(">blend<") < html.index(">plain<") < html.index(">odd<")
    assert '<td data-label="Made by">slerp, t = 0.4</td>' in html


def test_another_metric_is_asked_for_in_the_address(results: list[Artifact]) -> None:
    assert "blend is the best of 3 models on tests by loss: 0.25." in page(f"{PAGE}?metric=loss")


def test_two_are_shown_side_by_side(results: list[Artifact]) -> None:
    html = page(f"{PAGE}?compare={results[0].pk}&compare={results[1].pk}")
    beside = html[html.index("Side by side") :]
    assert ">blend<" in beside
    assert "0.4" in beside
    assert "<b>yes</b>" in beside
    assert "Tick two models" in page(f"{PAGE}?compare={results[0].pk}")
    assert "Tick two models" not in page()


def test_a_wrong_filter_is_a_word_and_no_fault(results: list[Artifact]) -> None:
    answer = browser().get(f"{PAGE}?metric=speed")
    assert answer.status_code == 400
    assert "there is no metric" in entities.unescape(text(answer)).lower()
    assert browser().get("/artifacts/leaderboard.csv?metric=speed").status_code == 400


def test_as_csv_it_has_every_model(results: list[Artifact]) -> None:
    answer = browser().get("/artifacts/leaderboard.csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert [line.split(",")[:2] for line in lines] == [["rank", "model"], ["1", "blend"], ["2", "plain"], ["3", "odd"]]


def test_who_may_not_know_of_it_sees_nothing_of_it(results: list[Artifact]) -> None:
    html = page(person="bob")
    assert "No model has been evaluated yet." in html
    assert "blend" not in html


def test_rest_says_the_same(results: list[Artifact]) -> None:
    answer: Any = browser().get("/api/v1/leaderboard/?dataset=tests").json()
    assert [(e["rank"], e["model"]["name"], e["value"]) for e in answer["results"]] == [
        (1, "blend", 0.75), (2, "plain", 0.5), (3, "odd", 0.25),
    ]  # fmt: skip
    assert (answer["metric"], answer["better"], answer["metrics"]) == ("accuracy", "higher", ["accuracy", "loss"])
    assert answer["contest"]["dataset"]["name"] == "tests"
    assert answer["results"][0]["recipe"]["t"] == 0.4
    wrong = browser().get("/api/v1/leaderboard/?metric=speed&limit=x")
    assert (wrong.status_code, [e["field"] for e in wrong.json()["errors"]]) == (400, ["limit", "metric"])


def test_metrics_of_tasks_have_their_own_names() -> None:
    alice = b.people()["alice"]
    data = dataset(alice)
    for n, name in enumerate(("one", "two")):
        evaluated(alice, name, data, n, metrics={"rivers/acc": 0.25 + n / 2, "rivers/acc_norm": 0.5})
    html = page()
    assert "two is the best of 2 models on tests by rivers/acc: 0.75." in html
    assert '<option value="rivers/acc_norm" >rivers/acc_norm</option>' in html
    both = [str(row.pk) for row in Artifact.objects.filter(kind="eval")]
    beside = page(f"{PAGE}?compare={both[0]}&compare={both[1]}")
    assert "rivers/acc_norm</th>" in beside
    answer: Any = browser().get("/api/v1/leaderboard/", {"metric": "rivers/acc"}).json()
    assert (answer["metric"], answer["better"]) == ("rivers/acc", "higher")


def test_the_best_of_a_search_is_told_with_its_search_and_apart_on_the_samples_of_that() -> None:
    alice = b.people()["alice"]
    search, test = dataset(alice, "search"), Artifact.objects.get(pk=b.dataset(alice, "test", content=b"x"))
    scores = {"search": score(accuracy=1.0), "test": score(accuracy=0.7)}
    job = searched(alice, search, test, scores, 1)
    evaluated(alice, "plain", test, 2, accuracy=0.5)
    html = page()
    assert "found is the best of 2 models on test by accuracy: 0.7.</bdi>" in html
    assert f'by <a href="/jobs/{job.pk}/">its search</a>' in html
    assert ">searched on these<" not in html
    html = page(f"{PAGE}?dataset=search")
    assert (
        "found is the only model that was evaluated on search by accuracy: 1. It was searched on these very samples: "
        "compare it on others."
    ) in html
    assert ">searched on these<" in html
    told: Any = browser().get("/api/v1/leaderboard/?dataset=test").json()["results"]
    assert [(e["model"]["name"], e["found_by"], e["fitted"]) for e in told] == [
        ("found", "evolve", False), ("plain", "evaluate", False),
    ]  # fmt: skip
    (told,) = browser().get("/api/v1/leaderboard/?dataset=search").json()["results"]
    assert (told["found_by"], told["fitted"], told["job"]) == ("evolve", True, str(job.pk))
    lines = b"".join(browser().get("/artifacts/leaderboard.csv?dataset=search").streaming_content).decode().splitlines()
    assert [line.split(",")[-2:] for line in lines] == [["found_by", "fitted"], ["evolve", "True"]]
