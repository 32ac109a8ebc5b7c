"""Deleting, restoring and the quota over REST: answers, scopes and refusals."""

from __future__ import annotations

import pytest

from scheduling.models import Project
from scheduling.services import artifact_files
from tests import builders as b
from tests.api.calls import error, problem, sha, world

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("each_store")]


@pytest.fixture
def w():
    return world()


def test_an_artifact_is_deleted_listed_as_such_and_restored(w):
    alice, model = w.alice, w.models[0]
    gone = alice.delete(f"artifacts/{model}/")
    assert (gone.status_code, gone.json()["deleted"]["by"], gone.json()["deleted"]["why"]) == (
        200, "user alice", "alice asked for it",
    )  # fmt: skip
    there, deleted = (alice.get(f"artifacts/{query}").json()["results"] for query in ("", "?deleted=true"))
    assert ([a["name"] for a in there], [a["name"] for a in deleted]) == (["b"], ["a"])
    assert alice.get(f"artifacts/{model}/").json()["deleted"] == gone.json()["deleted"]
    back = alice.post(f"artifacts/{model}/restore/")
    assert (back.status_code, back.json()["deleted"]) == (200, None)
    assert len(alice.get("artifacts/?deleted=false").json()["results"]) == 2


def test_its_files_answer_410_while_it_is_deleted(w):
    alice, model = w.alice, w.models[0]
    alice.delete(f"artifacts/{model}/")
    assert problem(alice.get(f"artifacts/{model}/files/config.json"), 410)["code"] == "deleted_artifact"


def test_while_a_job_needs_it_it_is_409_with_the_jobs(w):
    job = w.alice.post("jobs/", w.body()).json()["id"]
    told = problem(w.alice.delete(f"artifacts/{w.models[0]}/"), 409)
    assert (told["code"], told["jobs"]) == ("in_use", [job])


def test_a_token_needs_the_scope_and_another_project_knows_of_nothing(w):
    model = w.models[0]
    reader = w.caller("alice", "artifacts:read")
    for answer in (reader.delete(f"artifacts/{model}/"), reader.post(f"artifacts/{model}/restore/")):
        assert answer.status_code == 403
    for answer in (w.caller("bob").delete(f"artifacts/{model}/"), w.caller("bob").post(f"artifacts/{model}/restore/")):
        assert answer.status_code == 404
    assert w.alice.delete("artifacts/nonsense/").status_code == 404


def test_what_is_gone_for_good_is_410(w):
    alice, model = w.alice, w.models[0]
    files = alice.delete(f"artifacts/{model}/").json()["files"]
    for each in files:
        artifact_files.remove_blob(each["sha256"])
    assert problem(alice.post(f"artifacts/{model}/restore/"), 410)["code"] == "bytes_gone"


def test_a_wrong_filter_is_told(w):
    told = problem(w.alice.get("artifacts/?deleted=maybe"), 400)
    assert "give one of true, false" in str(told)


def test_a_project_at_its_quota_takes_no_upload_and_no_job_and_says_how_much_there_is(w):
    Project.objects.filter(name="alpha").update(artifact_quota_gb=1)
    body = {"name": "m", "kind": "model", "project": "alpha"}
    large = {**body, "files": [{"path": "m.bin", "size": 10**9}]}
    told = problem(w.alice.post("artifacts/", large), 413)
    assert (told["code"], told["limit"]) == ("over_quota", 10**9)
    assert "project alpha may store 1 GB of artifacts; it has 0.00 GB and 1000000000 bytes would come" in told["detail"]
    small = {**body, "files": [{"path": "m.bin", "size": 3, "sha256": sha(b"abc")}]}
    assert w.alice.post("artifacts/", small).status_code == 201
    assert w.alice.post("jobs/", w.body()).status_code == 201
    Project.objects.filter(name="alpha").update(artifact_quota_gb=0)
    error(w.alice.post("jobs/", w.body()), 422, "project", "over_quota")
    assert problem(w.alice.post("artifacts/", small), 413)["code"] == "over_quota"


def test_what_a_running_job_makes_is_taken_over_the_quota_too(w):
    run = b.running(w.who["alice"], w.models)
    Project.objects.filter(name="alpha").update(artifact_quota_gb=0)
    made = b.output(run)
    assert b.finished(run, artifacts=[made], now=b.later(60))["ok"]


def test_uploads_under_way_count_and_deleted_artifacts_do_not(w):
    Project.objects.filter(name="alpha").update(artifact_quota_gb=1)
    body = {"name": "m", "kind": "model", "project": "alpha", "files": [{"path": "m.bin", "size": 6 * 10**8}]}
    assert [w.alice.post("artifacts/", body).status_code for _ in range(2)] == [201, 413]


def test_one_of_several_names_is_told_found_and_removed(w):
    assert b.model(w.who["alice"], "again", 1) == w.models[0]
    alice, where = w.alice, f"artifacts/{w.models[0]}/"
    (found,) = alice.get("artifacts/?q=again").json()["results"]
    assert (found["name"], found["also"]) == ("a", [{"name": "again", "job": None, "user": "alice"}])
    told = problem(alice.delete(where), 409)
    assert (told["code"], told["outputs"]) == ("also_output_of", found["also"])
    assert error(alice.delete(f"{where}?all=yes"), 400, "all", "bad_parameter")["limit"] == ["true", "false"]
    error(alice.delete(f"{where}?all=true&name=again"), 400, "name", "bad_parameter")
    error(alice.delete(f"{where}?name=other"), 404, "name", "no_such_name")
    assert (alice.delete(f"{where}?name=a").json()["name"], alice.get(where).json()["also"]) == ("again", [])
    b.model(w.who["alice"], "third", 1)
    assert alice.delete(f"{where}?all=true").json()["deleted"]["by"] == "user alice"
