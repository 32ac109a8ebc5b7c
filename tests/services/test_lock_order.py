"""Rows are locked in one order, node, live row, job, upload: two transactions that keep it never wait for each other.

SQLite locks its whole file and has no such order: there nothing is to be seen.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from uuid import UUID

import pytest
from django.db import connection, transaction

from scheduling.models import Attempt, Gpu, Job, NodeLive
from scheduling.services import health, pool
from tests import builders as b
from tests.services.sick_gpus import HOT, report, returns

pytestmark = pytest.mark.django_db(transaction=True)

ORDER = ["node", "nodelive", "job", "upload"]
LOCK = re.compile(r'FROM "scheduling_(\w+)".* FOR (?:NO KEY )?UPDATE', re.S)
OFF_THE_BUS = {"xids": [79], "xids_before": 0}


@contextmanager
def locks():
    """The tables whose rows are locked inside, in the order of their first locks, transaction by transaction."""
    seen: list[list[str]] = [[]]

    def watch(execute, sql, params, many, context):
        if (found := LOCK.search(sql)) and found[1] in ORDER and found[1] not in seen[-1]:
            if not seen[-1]:
                transaction.on_commit(lambda: seen.append([]))
            seen[-1].append(found[1])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(watch):
        yield seen


def in_order(seen, *wanted):
    """Every transaction kept to the order, and one of them locked exactly these."""
    assert all(each == sorted(each, key=ORDER.index) for each in seen), seen
    assert connection.vendor == "sqlite" or list(wanted) in seen, seen


def test_a_report_that_closes_its_node_under_a_job_takes_the_node_first():
    _, run = b.busy_lab()
    index = next(i for i in range(4) if f"GPU-n1-{i}" in str(run.gpus))
    with locks() as seen:
        report({index: OFF_THE_BUS}, at=10)
    in_order(seen, "node", "nodelive", "job")


def test_a_report_that_changes_nothing_of_its_node_takes_the_live_row_alone():
    b.node("n1")
    with locks() as seen:
        report({0: HOT}, at=10)
    in_order(seen, "nodelive")
    assert "node" not in [table for each in seen for table in each]


def test_the_report_that_opens_it_again_and_the_word_of_an_operator_take_the_node_first():
    who = b.people()
    b.node("n1")
    report({0: OFF_THE_BUS}, at=10)
    report(at=20)
    with locks() as seen:
        health.operate("GPU-n1-0", "return", who["admin"], b.later(30))
    in_order(seen, "node", "nodelive")
    with locks() as seen:
        assert returns(0, start=40) == "HEALTHY"
    in_order(seen, "node", "nodelive")


def test_the_end_of_a_job_that_leaves_its_gpus_unfree_takes_the_live_row_before_the_job():
    _, run = b.busy_lab()
    with locks() as seen:
        b.finished(run, "FAILED", exit_code=1, gpus_clean=False, now=b.later(10))
    in_order(seen, "nodelive", "job")
    assert Gpu.objects.filter(state="QUARANTINED").count() == 2


def test_what_many_fail_on_alike_is_doubted_after_the_end_in_a_transaction_of_its_own(monkeypatch):
    from scheduling.store.commit import ended_on

    _, run = b.busy_lab()
    open_ones = []
    monkeypatch.setattr(ended_on, "_suspect", lambda gpu, now: open_ones.append(Job.objects.get(pk=run.job).state))
    with locks() as seen:
        b.finished(run, "FAILED", exit_code=1, now=b.later(10))
    in_order(seen, "job")
    assert open_ones == ["FAILED", "FAILED"]


def test_a_node_that_registers_with_a_gpu_of_another_takes_both_live_rows_before_any_job():
    _, run = b.busy_lab()
    b.node("n2")
    theirs = b.description("n1", boot="boot-9")
    with locks() as seen:
        pool.register("n2", theirs, b.later(10))
    in_order(seen, "node", "nodelive", "job")
    with locks() as seen:
        pool.register("n1", b.description("n1", boot="boot-2"), b.later(20))
    in_order(seen, "node", "nodelive", "job")
    assert Attempt.objects.get(pk=UUID(run.attempt)).outcome == "LOST"
    assert set(NodeLive.objects.get(node__name="n1").health) >= {f"GPU-n1-{i}" for i in range(4)}


def test_an_attempt_that_commits_an_artifact_stays_live_until_it_is_there():
    """Seed 4 of the faults of processes: its node was given up between the look at the attempt and the artifact."""
    _, run = b.busy_lab()
    with locks() as seen:
        b.output(run)
    in_order(seen, "job", "upload")


def test_taking_back_the_work_of_a_silent_node_takes_the_node_and_its_live_row_before_the_job():
    b.busy_lab()
    b.listening(60)
    with locks() as seen:
        assert b.ticked(b.later(60)).reclaimed == 1
    in_order(seen, "node", "nodelive", "job")


def test_taking_back_what_a_node_has_not_claimed_takes_the_job_alone():
    made = b.lab()
    b.submitted(made.who["alice"], b.merge_body(made.models))
    b.ticked()
    b.listening(60)
    b.beat(now=b.later(59))
    with locks() as seen:
        assert b.ticked(b.later(60)).reclaimed == 1
    in_order(seen, "job")
    assert "node" not in [table for each in seen for table in each]
