"""A reboot may give a node's GPUs other numbers: what a job ran on keeps the numbers of the time of its grant."""

from __future__ import annotations

import pytest

from scheduling.models import Allocation, Job
from scheduling.services import pool
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.services.test_eviction import messages
from tests.web.pages import browser, text

pytestmark = pytest.mark.django_db


def rebooted() -> b.Running:
    """A job that ran on 2 GPUs of a node that has been restarted since with its GPUs in the opposite order."""
    _, run = b.busy_lab()
    b.finished(run, "FAILED", exit_code=1, now=b.later(10))
    told = b.description("n1", boot="boot-2")
    for place, gpu in enumerate(reversed(told["gpus"])):
        gpu["index"] = place
    pool.register("n1", told, b.later(20))
    return run


def attempt(run: b.Running) -> dict:
    return queries.attempts(queries.full(Job.objects.filter(pk=run.job)).get())[0]


def test_the_attempt_has_the_numbers_of_its_timeline():
    run = rebooted()
    names = ", ".join(f"n1/{gpu['index']}" for gpu in attempt(run)["gpus"])
    assert messages(run.job, "granted")[0].endswith(f"gets {names}")


def test_the_numbers_follow_the_uuids_of_then():
    run = rebooted()
    assert [(gpu["index"], gpu["uuid"]) for gpu in attempt(run)["gpus"]] == [(0, "GPU-n1-0"), (1, "GPU-n1-1")]


def test_the_page_lists_them():
    run = rebooted()
    assert "GPU 0, GPU 1" in text(browser().get(f"/jobs/{run.job}/"))


def test_of_a_grant_from_before_they_were_kept_the_present_numbers_are_told():
    run = rebooted()
    Allocation.objects.update(gpu_index=None)
    assert [gpu["index"] for gpu in attempt(run)["gpus"]] == [2, 3]
