"""An artifact's page: deleting it asks once, a deleted one says so and offers what can still be done."""

from __future__ import annotations

import pickle

import pytest

from scheduling.models import Artifact, Upload
from scheduling.services import artifact_files
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab():
    return b.lab()


def test_its_maker_deletes_it_by_the_page_and_restores_it(lab):
    alice, page = browser(), f"/artifacts/{lab.models[0]}/"
    before = text(alice.get(page))
    assert "Yes, delete it" in before
    assert "Its bytes are kept for 24 hours more, in which it can be restored" in before
    after = text(alice.post(f"{page}delete/", follow=True))
    assert "Deleted, as alice asked for it. It can't be downloaded" in after
    assert ("Restore it" in after, "Yes, delete it" in after, "download>" in after) == (True, False, False)
    assert ">a</bdi>" not in text(alice.get("/artifacts/"))
    assert ">a</bdi>" in text(alice.get("/artifacts/?deleted=true"))
    restored = text(alice.post(f"{page}restore/", follow=True))
    assert ("Restore it" in restored, "Yes, delete it" in restored) == (False, True)


def test_who_did_not_make_it_is_offered_nothing_and_refused(lab):
    Artifact.objects.filter(pk=lab.models[0]).update(user=None)
    Upload.objects.all().delete()  # as it is when a user is deleted
    alice, page = browser(), f"/artifacts/{lab.models[0]}/"
    assert "Yes, delete it" not in text(alice.get(page))
    after = text(alice.post(f"{page}delete/", follow=True))
    assert "only nobody or an admin may delete it; nothing was changed." in after
    assert browser("bob").post(f"{page}delete/").status_code == 404
    assert alice.get(f"{page}delete/").status_code == 405


def test_one_that_a_job_needs_stays_and_the_page_says_which(lab):
    b.submitted(lab.who["alice"], b.merge_body(lab.models, name="tonight"))
    after = text(browser().post(f"/artifacts/{lab.models[0]}/delete/", follow=True))
    assert "1 job that has not ended needs" in after
    assert "(tonight)" in after
    assert Artifact.objects.get(pk=lab.models[0]).deleted_at is None


def test_one_whose_bytes_are_gone_says_so_and_offers_no_return(lab):
    alice, page = browser(), f"/artifacts/{lab.models[0]}/"
    alice.post(f"{page}delete/")
    for entry in Artifact.objects.get(pk=lab.models[0]).files:
        artifact_files.remove_blob(entry["sha256"])
    shown = text(alice.get(page))
    assert ("Its bytes are gone." in shown, "Restore it" in shown) == (True, False)
    after = text(alice.post(f"{page}restore/", follow=True))
    assert "The bytes of &#x27;a&#x27; were removed: upload it again; nothing was changed." in after


def test_a_job_shows_that_what_came_out_was_deleted(lab):
    alice = browser()
    run = b.running(lab.who["alice"], lab.models)
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))
    assert "model.safetensors" in text(alice.get(f"/jobs/{run.job}/"))
    alice.post(f"/artifacts/{made}/delete/")
    shown = text(alice.get(f"/jobs/{run.job}/"))
    assert ('tag warn">deleted' in shown, f"/api/v1/artifacts/{made}/files/" in shown) == (True, False)


def test_files_that_can_run_code_when_they_are_loaded_are_labelled_on_every_page_that_lists_them(lab):
    alice = browser()
    run = b.running(lab.who["alice"], lab.models)
    made = b.output(run, kind="output", content=pickle.dumps({}))
    b.finished(run, artifacts=[made], now=b.later(60))
    page, label = text(alice.get(f"/artifacts/{made}/")), "unsafe: pickle"
    assert page.count(label) == 1
    assert "in a format that can run code when it is loaded (pickle)" in page
    assert text(alice.get(f"/jobs/{run.job}/")).count(label) == 1
    assert text(alice.get("/artifacts/")).count("unsafe format") == 1
    safe = text(alice.get(f"/artifacts/{lab.models[0]}/"))
    assert ("unsafe" in safe, "can run code" in safe) == (False, False)


def test_damaged_ones_are_found_by_a_filter_and_their_page_says_what_mends_them(lab):
    alice, model = browser(), lab.models[0]
    Artifact.objects.filter(pk=model).update(corrupt=True)
    damaged, sound = (text(alice.get(f"/artifacts/?corrupt={flag}")) for flag in ("true", "false"))
    assert (">a</bdi>" in damaged, ">b</bdi>" in damaged) == (True, False)
    assert (">a</bdi>" in sound, ">b</bdi>" in sound) == (False, True)
    page = text(alice.get(f"/artifacts/{model}/"))
    assert "Upload the same bytes once more: that mends it." in page
    run = b.running(lab.who["alice"], [lab.models[1], b.model(lab.who["alice"], "third", 9)])
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(60))
    Artifact.objects.filter(pk=made).update(corrupt=True)
    assert f'Run <a href="/jobs/{run.job}/">its job</a> again, or upload' in text(alice.get(f"/artifacts/{made}/"))


def test_equal_results_are_told_by_all_their_names_and_one_name_can_go(lab):
    alice = browser()
    for number, name in enumerate(("m-nuslerp", "m-slerp")):
        run = b.running(lab.who["alice"], lab.models, name=name, now=b.later(100 * number))
        made = b.output(run, meta={"recipe": {"strategy": name[2:]}, "derivation_key": "sha256:1"}, now=b.later(1))
        b.finished(run, artifacts=[made], now=b.later(100 * number + 60))
    listed, page = text(alice.get("/artifacts/?q=m-slerp")), text(alice.get(f"/artifacts/{made}/"))
    assert (">m-nuslerp</bdi>" in listed, "also <bdi>m-slerp</bdi>" in listed) == (True, True)
    assert ("strategy nuslerp" in page, "strategy slerp" in page, "derivation key" in page) == (True, True, True)
    assert "The same bytes are also &#x27;m-slerp&#x27; of alice, and go there too." in page
    assert "Also <bdi>m-slerp</bdi>, the same bytes by merge" in text(alice.get(f"/artifacts/{made}/lineage/"))
    assert ", also m-slerp (alpha" in text(alice.get("/jobs/new/"))
    stale = text(alice.post(f"/artifacts/{made}/delete/", {"others": "0"}, follow=True))
    assert "has the same bytes as &#x27;m-slerp&#x27; of alice" in stale
    alice.post(f"/artifacts/{made}/unname/", {"name": "m-nuslerp"})
    alone = text(alice.get(f"/artifacts/{made}/"))
    assert ("<h1><bdi>m-slerp</bdi>" in alone, "m-nuslerp" in alone, 'id="names"' in alone) == (True, False, False)
    again = b.model(lab.who["alice"], "twice", 1)
    alice.post(f"/artifacts/{again}/delete/", {"others": "1"})
    assert Artifact.objects.get(pk=again).deleted_at is not None
