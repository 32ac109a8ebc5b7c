"""An identical merge offers what there is, by plan and page, whatever its models are called."""

from __future__ import annotations

import pytest

from scheduling.models import Artifact, Job
from scheduling.services import artifact_deletion as deletion
from scheduling.services import jobs, whatif
from tests import builders as b
from tests.api.calls import Caller
from tests.web.pages import browser, form, text

pytestmark = pytest.mark.django_db


class Made:
    """Alice's merge of a and b, which succeeded, and what came out of it."""

    def __init__(self) -> None:
        self.lab = b.lab()
        self.alice = self.lab.who["alice"]
        run = b.running(self.alice, self.lab.models, now=b.NOON)
        self.artifact = b.output(run, "merged", b.tensors(9))
        b.finished(run, artifacts=[self.artifact], now=b.later(60))
        self.job = run.job

    def same(self, models=None, **kw):
        """What the plan of such a merge offers."""
        found = whatif.plan(b.merge_body(models or self.lab.models, **kw), self.alice, b.later(100))
        assert isinstance(found, whatif.Planned), found.errors
        return found.same


@pytest.fixture
def made():
    return Made()


def test_the_same_merge_is_offered_what_came_out_of_the_first(made):
    assert made.same() == {
        "job": made.job, "name": "slerp-a-b", "state": "SUCCEEDED", "ended_at": b.later(60),
        "artifacts": [{"id": made.artifact, "name": "slerp-a-b", "kind": "model"}],
    }  # fmt: skip


def test_names_ids_and_digests_of_the_models_and_other_gpus_come_to_the_same(made):
    digests = [Artifact.objects.get(pk=each).digest for each in made.lab.models]
    for models in (["a", "b"], digests, ["a", made.lab.models[1]]):
        assert made.same(models, gpu_count=1, nvlink_required=False, name="another")["job"] == made.job


@pytest.mark.parametrize(
    "changed", [{"params": {"t": 0.25}}, {"params": {"out_dtype": "float32"}}, {"params": {"strategy": "linear"}}]
)
def test_another_parameter_comes_to_another_result(made, changed):
    body = b.merge_body(made.lab.models, **changed)
    if body["params"]["strategy"] == "linear":
        del body["params"]["t"]
    found = whatif.plan(body, made.alice, b.later(100))
    assert isinstance(found, whatif.Planned), found.errors
    assert found.same is None


def test_models_in_another_order_come_to_another_result(made):
    assert made.same(list(reversed(made.lab.models))) is None


def test_a_recipe_is_the_same_by_whatever_names_it_calls_its_models():
    lab = b.lab()
    alice = lab.who["alice"]

    def body(first: str) -> dict:
        recipe = {"merge_method": "linear", "models": [{"model": first, "parameters": {"weight": 1}},
                                                       {"model": "b", "parameters": {"weight": 2}}]}  # fmt: skip
        made = b.merge_body([], gpu_count=1, nvlink_required=False)
        return {**made, "params": {"recipe": recipe}}

    job = b.submitted(alice, body("a"))
    assert whatif.plan(body(lab.models[0]), alice, b.later(1)).same["job"] == job


def test_one_that_is_to_come_to_it_is_offered_until_it_has(made):
    b.merge_body(made.lab.models)
    waits = b.submitted(made.alice, b.merge_body(made.lab.models, params={"t": 0.75}), now=b.later(70))
    found = made.same(params={"t": 0.75})
    assert (found["job"], found["state"], found["artifacts"]) == (waits, "QUEUED", [])
    jobs.cancel(waits, made.alice, b.later(80))
    assert made.same(params={"t": 0.75}) is None


def test_what_was_deleted_or_is_damaged_is_not_offered(made):
    deletion.delete(made.artifact, made.alice, b.later(90))
    assert made.same() is None
    deletion.restore(made.artifact, made.alice, b.later(91))
    assert made.same()["job"] == made.job
    Artifact.objects.filter(pk=made.artifact).update(corrupt=True)
    assert made.same() is None


def test_another_project_is_not_told(made):
    for name, seed_ in (("a", 1), ("b", 2)):
        b.model(made.lab.who["bob"], name, seed_, project="beta")
    body = b.merge_body(["a", "b"], project="beta")
    found = whatif.plan(body, made.lab.who["bob"], b.later(100))
    assert isinstance(found, whatif.Planned), found.errors
    assert found.same is None
    assert whatif.plan(body, made.lab.who["admin"], b.later(100)).same["job"] == made.job


def test_a_program_may_come_to_anything_and_is_offered_nothing(made):
    body = b.command_body(gpu_count=1)
    b.submitted(made.alice, body, now=b.later(70))
    assert whatif.plan(body, made.alice, b.later(100)).same is None
    assert set(Job.objects.filter(kind="command").values_list("work_key", flat=True)) == {""}


def test_rest_the_form_and_the_page_of_a_waiting_job_offer_it(made):
    alice = Caller(session="alice", csrf=False)
    told = alice.post("jobs/plan/", b.merge_body(made.lab.models)).json()["same"]
    assert (told["job"], told["artifacts"][0]["id"]) == (made.job, made.artifact)
    panel = text(browser().post("/jobs/new/plan/", form(made.lab.models), headers={"HX-Request": "true"}))
    assert "The same was made before:" in panel
    assert f"/artifacts/{made.artifact}/" in panel
    again = b.submitted(made.alice, b.merge_body(made.lab.models), now=b.later(100))
    page = text(browser().get(f"/jobs/{again}/"))
    assert "The same was made before:" in page
    assert "If that is all you want, cancel this one." in page
    assert "The same was made before:" not in text(browser().get(f"/jobs/{made.job}/"))
