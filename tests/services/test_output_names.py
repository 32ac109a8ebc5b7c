"""What a job's results are called: as its program named them, else as the job."""

from __future__ import annotations

import pytest

from scheduling.models import Artifact, JobOutput
from scheduling.services import pool
from tests import builders as b

pytestmark = pytest.mark.django_db


def outputs(*names: str, kind: str = "model", body=None) -> list[tuple[str, str]]:
    """(name as the job's output, name of the artifact) of what a job called "train" published under these names."""
    lab = b.lab()
    asked = body(lab) if body else b.command_body(name="train")
    job = b.submitted(lab.who["alice"], asked)
    b.ticked()
    (wanted,) = b.beat()["desired"]
    launch = pool.claim("n1", wanted["attempt"], wanted["epoch"], b.NOON)
    run = b.Running(job, wanted["attempt"], wanted["epoch"], "n1", launch["gpus"])
    made = [b.output(run, name, b.tensors(n), kind=kind) for n, name in enumerate(names)]
    assert b.finished(run, artifacts=made)["ok"]
    return [
        (JobOutput.objects.get(job=job, artifact_id=each).name, Artifact.objects.get(pk=each).name) for each in made
    ]


@pytest.mark.parametrize("kind", ["model", "output"])
def test_the_only_artifact_of_a_program_is_called_what_the_program_called_it(kind):
    assert outputs("net", kind=kind) == [("net", "net")]


def test_so_is_each_of_several():
    assert outputs("net", "curve") == [("net", "net"), ("curve", "curve")]


def test_what_a_program_left_and_did_not_name_is_called_what_the_job_is_called():
    assert outputs("output", kind="output") == [("train", "train")]


def test_the_result_of_a_built_in_kind_is_called_what_the_job_is_called():
    assert outputs("merged", body=lambda lab: b.merge_body(lab.models, name="train")) == [("train", "train")]


def test_so_are_the_results_of_an_evaluation():
    def body(lab):
        model = b.mlp(lab.who["alice"], "net", sizes=(4, 3))
        return b.evaluate_body(model, b.dataset(lab.who["alice"], "tests"), name="train")

    assert outputs("evaluation", kind="eval", body=body) == [("train", "train")]


def test_so_is_what_a_model_made_of_rows():
    def body(lab):
        model = b.mlp(lab.who["alice"], "net", sizes=(4, 3))
        return b.infer_body(model, b.dataset(lab.who["alice"], "tests"), name="train")

    assert outputs("inference", kind="output", body=body) == [("train", "train")]
