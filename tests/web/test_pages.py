"""Every page opens for whom it is meant, and for nobody else."""

from __future__ import annotations

import hashlib

import pytest
from django.test import Client

from scheduling.services import artifacts as stored
from scheduling.services import jobs
from scheduling.web import artifacts
from tests import builders as b
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
PAGES = ["/", "/jobs/", "/jobs/new/", "/share/", "/artifacts/", "/account/", "/account/password/"]


def world():
    lab = b.lab()
    return lab.who["alice"], lab.models


@pytest.mark.parametrize("page", PAGES)
def test_a_member_can_open(page):
    world()
    assert browser().get(page).status_code == 200


@pytest.mark.parametrize("page", [*PAGES, "/nodes/n1/", "/jobs/export.csv"])
def test_whoever_is_not_signed_in_is_sent_to_sign_in(page):
    b.people()
    response = Client().get(page)
    assert (response.status_code, response["Location"]) == (302, f"/login/?next={page}")


@pytest.mark.parametrize("page", PAGES[:-1])
def test_a_page_opens_while_there_is_nothing_at_all(page):
    b.people()
    assert browser().get(page).status_code == 200


def test_an_empty_board_says_how_to_add_a_node():
    b.people()
    html = text(browser().get("/"))
    assert "No node has registered yet" in html
    assert "manage.py addnode" in html


def test_an_empty_list_of_jobs_offers_the_form():
    b.people()
    assert "Submit the first one" in text(browser().get("/jobs/"))


def test_the_board_names_a_running_job_to_its_project():
    alice, models = world()
    b.running(alice, models)
    assert "slerp-a-b" in text(browser().get("/"))


def test_the_board_does_not_name_a_job_to_another_project():
    alice, models = world()
    b.running(alice, models)
    html = text(browser("bob").get("/"))
    assert "slerp-a-b" not in html
    assert "another project" in html


def test_a_jobs_page_has_its_state_attempt_gpus_and_timeline():
    alice, models = world()
    run = b.running(alice, models)
    html = text(browser().get(f"/jobs/{run.job}/"))
    assert all(words in html for words in ("running", "Attempt 1", "NVLink n1-nv", "attempt 1 gets n1/0, n1/1"))


def test_a_waiting_jobs_page_says_why_with_numbers():
    alice, models = world()
    b.running(alice, models, gpu_count=4)
    job = b.submitted(alice, b.merge_body(models))
    b.ticked()
    html = text(browser().get(f"/jobs/{job}/"))
    assert "Why it waits" in html
    assert "0 suitable free" in html


def test_a_finished_jobs_page_links_its_files_with_their_sha256():
    alice, models = world()
    run = b.running(alice, models)
    made = b.output(run)
    b.finished(run, artifacts=[made], now=b.later(30))
    html = text(browser().get(f"/jobs/{run.job}/"))
    assert f'href="/api/v1/artifacts/{made}/files/model.safetensors"' in html
    assert "sha256" in html


def test_an_artifacts_page_names_its_parents():
    alice, models = world()
    run = b.running(alice, models)
    made = b.output(run)
    b.finished(run, artifacts=[made])
    html = text(browser().get(f"/artifacts/{made}/"))
    assert f'href="/artifacts/{models[0]}/"' in html
    assert f'href="/artifacts/{models[1]}/"' in html


@pytest.mark.parametrize("tail", ["", "log/", "log.txt"])
def test_another_projects_job_is_not_found(tail):
    alice, models = world()
    run = b.running(alice, models)
    assert browser("bob").get(f"/jobs/{run.job}/{tail}").status_code == 404


@pytest.mark.parametrize("verb", ["cancel", "force", "hold", "release"])
def test_another_projects_job_can_not_be_touched(verb):
    alice, models = world()
    job = b.submitted(alice, b.merge_body(models))
    assert browser("bob").post(f"/jobs/{job}/{verb}/").status_code == 404


def test_another_projects_artifact_is_not_found():
    _, models = world()
    assert browser("bob").get(f"/artifacts/{models[0]}/").status_code == 404


@pytest.mark.parametrize("path", ["/jobs/nonsense/", "/nodes/n9/", "/nowhere/"])
def test_what_is_not_there_says_so_in_words(path):
    world()
    response = browser().get(path)
    assert response.status_code == 404
    assert "nothing at this address" in text(response)


@pytest.mark.parametrize("path", ["/jobs/cancel/", "/account/tokens/", "/nodes/n1/drain/", "/logout/"])
def test_a_change_can_not_be_made_by_a_link(path):
    world()
    assert browser().get(path).status_code == 405


def test_a_researcher_can_not_drain_a_node():
    world()
    response = browser().post("/nodes/n1/drain/")
    assert response.status_code == 403
    assert (
        "need the permission operate_pool, which operators have, and you (alice) don&#x27;t have it. Ask an admin"
        in (text(response).replace("'", "&#x27;"))
    )


def test_an_admin_can_cordon_and_return_a_node():
    world()
    client = browser("admin")
    assert "takes no new work" in text(client.post("/nodes/n1/cordon/", follow=True))
    assert "takes work" in text(client.post("/nodes/n1/return/", follow=True))


def test_asking_a_node_for_what_makes_no_sense_says_so():
    world()
    b.listening(59)
    b.ticked(b.later(60))
    html = text(browser("admin").post("/nodes/n1/drain/", follow=True))
    assert "A node that is lost can&#x27;t be asked to drain" in html


def test_the_log_is_read_from_an_offset_and_downloaded_whole():
    alice, models = world()
    run = b.running(alice, models)
    report = {"type": "logs", "attempt": run.attempt, "epoch": run.epoch, "offset": 0, "text": "one\ntwo\n"}
    b.beat(reports=[report])
    client = browser()
    assert client.get(f"/jobs/{run.job}/log/?attempt=1&offset=4").json()["text"] == "two\n"
    assert text(client.get(f"/jobs/{run.job}/log.txt?attempt=1")) == "one\ntwo\n"


def test_a_job_is_held_released_and_cancelled_by_its_buttons():
    alice, models = world()
    job = b.submitted(alice, b.merge_body(models))
    client = browser()
    states = []
    for verb in ("hold", "release", "cancel"):
        client.post(f"/jobs/{job}/{verb}/")
        states.append(jobs.queries.one(alice, job).state)
    assert states == ["HELD", "QUEUED", "CANCELLED"]


def test_a_verb_that_makes_no_sense_says_why():
    alice, models = world()
    job = b.submitted(alice, b.merge_body(models))
    client = browser()
    client.post(f"/jobs/{job}/cancel/")
    html = text(client.post(f"/jobs/{job}/hold/", follow=True))
    assert "This job is cancelled, so it can&#x27;t be held" in html


def test_cancelling_says_what_is_lost_before_it_is_done():
    alice, models = world()
    run = b.running(alice, models)
    html = text(browser().get(f"/jobs/{run.job}/"))
    assert "there is no checkpoint" in html
    assert "This can't be undone" in html


def test_a_refused_jobs_page_says_what_was_asked_and_offers_to_mend_it():
    alice, models = world()
    job = jobs.submit(b.merge_body(models, gpu_count=99, max_duration="90m"), alice, b.NOON).job_id
    html = text(browser().get(f"/jobs/{job}/"))
    assert f'href="/jobs/new/?from={job}">Mend and submit again' in html
    for row in ("<dt>GPUs</dt><dd>99</dd>", "<dt>Time limit</dt><dd>90m</dd>", "<dt>Models</dt><dd>a, b</dd>"):
        assert row in html


@pytest.mark.parametrize(("error", "told"), [("", False), (" \n", False), ("the disk was full", True)])
def test_a_cancelled_job_went_wrong_only_where_there_is_an_error(error, told):
    alice, models = world()
    run = b.running(alice, models)
    jobs.cancel(run.job, alice, b.later(5))
    b.finished(run, "CANCELLED", exit_code=143, error=error, now=b.later(6))
    html = text(browser().get(f"/jobs/{run.job}/"))
    assert "Cancelled after" in html
    assert ("What went wrong" in html) is told


def test_the_gpus_of_a_lost_node_are_unreachable_and_have_no_numbers():
    world()
    b.beat(gpus=[{"uuid": f"GPU-n1-{i}", "utilization": 12.0, "temperature_c": 41.0} for i in range(4)])
    assert "12 %" in text(browser().get("/"))
    b.listening(59)
    b.ticked(b.later(60))
    html = text(browser().get("/"))
    assert html.count(">unreachable<") == html.count("its node is lost") == 4
    assert not any(words in html for words in ("12 %", "41 °C", ">healthy<", ">free<"))


def test_a_gpu_of_a_cordoned_node_is_not_called_free():
    world()
    browser("admin").post("/nodes/n1/cordon/")
    html = text(browser().get("/"))
    assert html.count("its node is cordoned") == 4
    assert ">free<" not in html


@pytest.mark.parametrize(
    ("rack", "heading"), [("r1", "Rack r1"), ("rack-1", "rack-1"), ("Rack 7", "Rack 7"), ("", "No rack")]
)
def test_a_rack_is_called_rack_once(rack, heading):
    b.people()
    b.node("n1", rack=rack)
    assert f"<h2>{heading}</h2>" in text(browser().get("/"))


def test_what_is_on_record_of_an_artifact_reads_as_rows():
    meta = {"recipe": {"strategy": "slerp", "t": 0.5, "inner": {"x": None}}, "parents": ["a", "b"], "clean": True}
    assert [(row["word"], row["value"]) for row in artifacts.about(meta)] == [
        ("recipe, strategy", "slerp"), ("recipe, t", 0.5), ("recipe, inner", '{"x": null}'),
        ("parents", '["a", "b"]'), ("clean", "true"),
    ]  # fmt: skip


def test_an_artifacts_page_shows_no_python():
    alice, models = world()
    run = b.running(alice, models)
    owner = stored.Owner(node=run.node, attempt=run.attempt, epoch=run.epoch)
    opened = stored.begin(
        owner, {"name": "merged", "kind": "model", "meta": {"recipe": {"strategy": "slerp", "models": None}},
                "files": [{"path": "config.json", "size": 0, "sha256": hashlib.sha256(b"").hexdigest()}]}, b.NOON,
    )  # fmt: skip
    made = stored.commit(owner, opened["upload"], {}, b.NOON)["artifact"]
    b.finished(run, artifacts=[made])
    html = text(browser().get(f"/artifacts/{made}/"))
    assert "<dt>recipe, strategy</dt><dd>slerp</dd>" in html
    assert "{&#x27;" not in html
    assert "None" not in html


@pytest.mark.parametrize(
    ("kind", "called", "next_step"),
    [
        ("model", "A model of", "evaluate it"),
        ("dataset", "A data set of", "Evaluate a model with it"),
        ("eval", "An evaluation of", None),
        ("output", "An output of", None),
    ],
)
def test_an_artifacts_page_says_what_it_is_and_what_may_be_made_of_it(kind, called, next_step):
    who = b.people()
    made = b.artifact(who["alice"], "thing", {"x.jsonl": b"1"}, kind=kind)
    html = text(browser().get(f"/artifacts/{made}/"))
    assert f'<p class="lead">{called}' in html
    assert ("/jobs/new/evaluate/" in html, next_step is None or next_step in html) == (next_step is not None, True)
