"""A node that is not heard of is told so everywhere, with nothing of what it said last as if it were so now."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduling.models import Availability, Job, Node, NodeLive
from scheduling.services import pool
from scheduling.store.clock import past_in_words
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.api.calls import Caller
from tests.services.test_gangs import two
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db
SAMPLE = {"utilization": 71.0, "memory_used_mib": 500, "temperature_c": 63.0, "power_w": 311.0}


@pytest.fixture
def busy():
    """A job on two of the GPUs of n1, which has told how warm they are; n2 is free."""
    made, run = b.busy_lab()
    b.node("n2")
    b.beat("n1", gpus=[{"uuid": uuid, **SAMPLE} for uuid in run.gpus])
    return made, run


def rest(path: str = "pool/"):
    return Caller(session="alice").get(path).json()


def standing(name: str = "n1") -> tuple[str, str | None]:
    one = rest(f"pool/nodes/{name}/")
    return one["standing"], one["why"]


def since(name: str = "n1") -> str:
    return past_in_words(NodeLive.objects.get(node__name=name).last_heartbeat_at)


# ---------------------------------------------------------------- the node


@pytest.mark.parametrize(("seconds", "silent"), [(10.0, False), (31.0, True), (600.0, True)])
def test_a_node_stands_as_silent_from_half_a_lease_on(busy, seconds, silent):
    b.quiet(seconds, "n1")
    assert standing() == (("SILENT", f"it has not been heard of since {since()}") if silent else ("READY", None))
    assert standing("n2") == ("READY", None)


def test_the_lease_is_scaled_as_the_settings_say(busy, settings):
    settings.TIME_SCALE = 2.0
    b.quiet(35, "n1")
    assert standing()[0] == "READY"
    b.quiet(61, "n1")
    assert standing()[0] == "SILENT"


def test_silence_that_no_web_process_could_have_heard_is_none(busy):
    present = b.quiet(600, "n1")
    Availability.objects.update(since=present - timedelta(seconds=20))
    assert standing()[0] == "READY"


def test_of_a_lost_node_it_is_told_that_it_is_lost(busy):
    b.quiet(600, "n1")
    Node.objects.filter(name="n1").update(state="LOST")
    assert standing()[0] == "LOST"


def test_it_comes_before_what_an_operator_said_which_is_told_besides(busy):
    pool.operate("n1", "drain", busy[0].who["admin"], b.NOON)
    b.quiet(40, "n1")
    assert standing() == ("SILENT", f"it has not been heard of since {since()}; drain by admin")


def test_rest_has_no_number_of_its_gpus_and_says_why_they_get_no_work(busy):
    live = rest("pool/nodes/n1/")["gpus"]
    assert live[0].items() >= SAMPLE.items()
    b.quiet(40, "n1")
    gpus = rest("pool/nodes/n1/")["gpus"]
    assert [[g[name] for name in SAMPLE] for g in gpus] == [[None] * 4] * 4
    assert [g["idle"] for g in gpus] == [None, None, "its node is silent", "its node is silent"]
    one = rest("pool/gpus/GPU-n1-0/")
    assert [one[name] for name in SAMPLE] == [None] * 4


def test_its_page_says_that_it_takes_no_work_and_of_its_gpus_that_nothing_is_known(busy):
    b.quiet(40, "n1")
    html = text(browser().get("/nodes/n1/"))
    assert "<h1>n1 takes no new work, since it is silent: what its 4 GPUs do is not known.</h1>" in html
    assert '<p class="lead">It has not been heard of since <time' in html
    assert "healthy, " not in html
    assert html.count('data-state="UNREACHABLE"') == 4 * 3  # the tile, its mark, and the line of its health


def test_the_board_shows_no_number_of_it_and_no_gpu_as_free(busy):
    assert "63 °C · 311 W" in text(browser().get("/"))
    b.quiet(40, "n1", "n2")
    html = text(browser().get("/"))
    assert [html.count(said) for said in ("63 °C", "311 W", "71 %", 'class="free"', 'data-state="READY"')] == [0] * 5
    assert html.count('data-state="SILENT"') == 2 * 2
    assert html.count("its node is silent") == 2 + 4


@pytest.mark.parametrize(("count", "named"), [(1, "n1"), (2, "n1 and n2"), (5, "n1, n2, n3 and 2 more")])
def test_the_headline_counts_silent_nodes_and_names_a_few(busy, count, named):
    for i in range(3, 7):
        b.node(f"n{i}")
    b.quiet(40, *(f"n{i}" for i in range(1, count + 1)))
    said = f"{count} node{'s' if count > 1 else ''} not in service ({named})"
    assert said in rest()["headline"]
    assert said in text(browser().get("/"))


# ---------------------------------------------------------------- the job


def reasons(job: str) -> list[tuple[str, str]]:
    return [(r["code"], r["message"]) for r in rest(f"jobs/{job}/")["reasons"]]


def at(seconds: float, job: str) -> dict:
    """The job's reason at so many seconds after noon."""
    (reason,) = queries.as_dict(queries.full(Job.objects.filter(pk=job)).get(), now=b.later(seconds))["reasons"]
    return reason


def test_a_running_job_says_which_node_is_silent_since_when_and_what_follows(busy):
    b.listening(40)
    assert at(40, busy[1].job) == {
        "code": "UNHEARD",
        "message": "n1 has not been heard of since 2 Mar 2026, 12:00 UTC. What the job does there is not known. Unless "
        "it is heard of by 2 Mar 2026, 12:01 UTC, the job is taken back and starts again from its beginning, since it "
        "has no checkpoint.",
        "numbers": {"nodes": ["n1"], "guarded": False, "until_ms": 1772452860000},
    }


def test_while_all_its_nodes_are_heard_of_it_says_nothing(busy):
    b.quiet(40, "n2")
    assert reasons(busy[1].job) == []


def test_where_it_has_a_checkpoint_it_says_which(busy):
    made, run = busy
    kept = b.artifact(made.who["alice"], "kept", {"model.safetensors": b"1"}, kind="checkpoint")
    Job.objects.filter(pk=run.job).update(resume=kept, resume_step=7)
    b.listening(40)
    assert at(40, run.job)["message"].endswith("starts again from its newest checkpoint, step 7.")


@pytest.mark.parametrize(
    ("columns", "end"),
    [
        ({"infra_failures": 5}, "the job fails: it was lost to the infrastructure as often before as it may be."),
        ({"infra_failures": 4}, "starts again from its beginning, since it has no checkpoint."),
    ],
)
def test_a_job_whose_budget_is_used_up_says_that_it_fails(busy, columns, end):
    Job.objects.filter(pk=busy[1].job).update(**columns)
    b.listening(40)
    assert at(40, busy[1].job)["message"].endswith(end)


def test_a_job_that_is_being_cancelled_says_so_first(busy):
    _, run = busy
    Caller(session="alice").post(f"jobs/{run.job}/cancel/")
    b.quiet(40, "n1")
    (_, stopping), (code, message) = reasons(run.job)
    assert stopping.startswith("Being cancelled")
    assert (code, message.endswith("the job counts as cancelled.")) == ("UNHEARD", True)


def test_of_several_nodes_each_is_named():
    gang = two()
    b.listening(40)
    reason = at(40, gang.job)
    assert reason["numbers"]["nodes"] == ["n1", "n2"]
    assert reason["message"].startswith("2 of its 2 nodes have not been heard of: n1 since 2 Mar 2026, 12:0")
    assert "Unless they are heard of by" in reason["message"]


def test_its_page_says_it_and_does_not_say_how_long_yet(busy):
    _, run = busy
    head = {"attempt": run.attempt, "epoch": run.epoch}
    b.beat("n1", reports=[{"type": "progress", **head, "step": 3, "total": 9, "unit": "tensors", "rate": 0.01}])
    b.quiet(5)
    assert "left</span>" in text(browser().get(f"/jobs/{run.job}/"))
    b.quiet(40, "n1")
    html = text(browser().get(f"/jobs/{run.job}/"))
    assert 'role="status">n1 has not been heard of since <time datetime=' in html
    assert ", as far as is known." in html
    assert " left</span>" not in html
    assert "tensors/s" not in html
    assert [rest(f"jobs/{run.job}/")["progress"][name] for name in ("step", "rate", "eta_s")] == [3, None, None]


def test_the_list_says_it_in_the_place_of_progress(busy):
    _, run = busy
    head = {"attempt": run.attempt, "epoch": run.epoch}
    b.beat("n1", reports=[{"type": "progress", **head, "step": 3, "total": 9, "unit": "tensors", "rate": 0.01}])
    b.quiet(40, "n1")
    html = text(browser().get("/jobs/"))
    assert ("n1 has not been heard of since" in html, "<progress" in html) == (True, False)
    assert rest("jobs/")["results"][0]["reasons"][0]["code"] == "UNHEARD"
