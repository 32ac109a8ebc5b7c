"""What the board and a node's page say of GPUs that are out of service, and what an operator can do there."""

from __future__ import annotations

import pytest

from scheduling.models import Gpu
from scheduling.services import health, pool
from tests import builders as b
from tests.services.sick_gpus import ERROR, HOT, HUNG, fails, report
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


@pytest.fixture
def who():
    people = b.people()
    b.node("n1")
    return people


def page(path="/nodes/n1/", name="alice"):
    return text(browser(name).get(path))


def test_the_board_says_why_a_gpu_gets_no_work_and_what_comes_next(who):
    fails({0: HOT})
    html = page("/")
    assert "3 checks in a row failed: 105 °C is at or above" in html
    assert "waits for a clean check before its test" in html


def test_the_board_says_nothing_of_the_kind_of_a_good_gpu(who):
    report(at=10)
    assert page("/").count('<p class="trouble" data-hook="why" title="" hidden>') == 4


def test_the_board_says_why_also_of_a_gpu_that_a_job_holds(who):
    run = b.running(who["alice"], [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)])
    fails({0: HUNG})
    html = page("/")
    assert f"/jobs/{run.job}/" in html
    assert "the driver gave no answer within 1 s" in html
    assert "its job is leaving it" in html


def test_the_history_names_each_state_and_its_reason(who):
    fails({0: HOT})
    html = page()
    assert html.count(">quarantined<") == 3  # the tile, the list, the history
    assert "empty, and out of service until it is tested: 3 checks in a row failed" in html


def test_the_history_of_one_gpu_leaves_the_others_out(who):
    fails({0: HOT, 1: ERROR})
    html = page("/nodes/n1/?gpu=GPU-n1-1")
    history = html[html.index('id="history"') :]
    assert "What happened to GPU 1" in history
    assert "Unknown Error" in history
    assert "105 °C" not in history


def test_an_unknown_gpu_in_the_address_has_no_history(who):
    assert "Nothing is on record." in page("/nodes/n1/?gpu=<b>x")


def test_an_operator_returns_a_gpu_by_way_of_its_test(who):
    report({0: {"xids": [79]}}, at=10)
    html = text(browser("admin").post("/nodes/n1/gpus/GPU-n1-0/return/", follow=True))
    assert "an operator asks for its return (admin)" in html
    assert report(at=20)["canary"] == ["GPU-n1-0"]


def test_a_retired_gpu_is_still_listed_and_can_be_returned(who):
    html = text(browser("admin").post("/nodes/n1/gpus/GPU-n1-0/retire/", follow=True))
    assert ">retired<" in html
    assert "/nodes/n1/gpus/GPU-n1-0/return/" in html
    assert "GPU-n1-0" not in page("/")


def test_a_gpu_that_the_next_check_decides_on_is_not_offered_for_return(who):
    report({0: ERROR}, at=10)
    assert "/nodes/n1/gpus/GPU-n1-0/return/" not in page(name="admin")


def test_retiring_a_gpu_under_a_job_is_refused_with_what_to_do(who):
    b.running(who["alice"], [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)])
    html = text(browser("admin").post("/nodes/n1/gpus/GPU-n1-0/retire/", follow=True))
    assert "A job holds this GPU: wait for its end, or cancel it" in html
    assert Gpu.objects.get(uuid="GPU-n1-0").state == "HEALTHY"


@pytest.mark.parametrize("verb", ["return", "retire"])
def test_a_researcher_sees_no_verb_and_may_do_none(who, verb):
    report({0: {"xids": [79]}}, at=10)
    assert f"/nodes/n1/gpus/GPU-n1-0/{verb}/" not in page()
    assert browser().post(f"/nodes/n1/gpus/GPU-n1-0/{verb}/").status_code == 403
    assert Gpu.objects.get(uuid="GPU-n1-0").state == "QUARANTINED"


@pytest.mark.parametrize("path", ["/nodes/n1/gpus/GPU-x/retire/", "/nodes/n1/gpus/GPU-n1-0/melt/"])
def test_a_gpu_or_a_verb_that_is_not_there_is_404(who, path):
    assert browser("admin").post(path).status_code == 404


def test_a_gpu_is_not_operated_by_following_a_link(who):
    assert browser("admin").get("/nodes/n1/gpus/GPU-n1-0/retire/").status_code == 405


def test_the_jobs_page_says_that_its_gpu_was_failing(who):
    run = b.running(who["alice"], [b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)])
    fails({0: HOT})
    html = page(f"/jobs/{run.job}/")
    assert "GPU n1/0 is failing (3 checks in a row failed: 105 °C" in html
    assert "higher priority" not in html


def test_an_operators_word_for_a_retired_gpu_is_on_the_page(who):
    health.operate("GPU-n1-2", "retire", who["admin"], b.later(1))
    assert "taken out of the pool (admin)" in page()


@pytest.mark.parametrize("path", ["/", "/nodes/n1/"])
def test_a_gpu_that_is_left_out_is_told_on_the_board_and_on_its_nodes_page(who, path):
    words = "gpu 4 GPU-n1-4 is left out: MIG mode is on"
    pool.register("n1", {**b.description("n1"), "left_out": [words]}, b.NOON)
    assert '<span class="tag warn">left out</span> GPU 4 GPU-n1-4: MIG mode is on</p>' in page(path)


def test_the_page_of_a_lost_node_says_since_when_it_is_not_heard_of(who):
    b.listening(60)
    b.ticked(b.later(61))
    html = page()
    assert "n1 is lost: what its 4 GPUs do is not known." in html
    assert 'its work was taken back; its last word came <time datetime="2026-03-02T12:00:00+00:00"' in html
