"""The snapshot: the right numbers, and a number of queries that does not grow."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.core.fairshare import FairShare
from scheduling.core.policy import DEFAULT_POLICY
from scheduling.core.scheduler import Scheduler
from scheduling.models import Balance
from scheduling.store import load, seed
from scheduling.store.clock import to_ms
from scheduling.store.commit import balances
from tests import builders as b

pytestmark = pytest.mark.django_db


def queries(now=b.NOON) -> int:
    with CaptureQueriesContext(connection) as seen:
        load.snapshot(now)
    return len(seen)


def test_the_number_of_queries_does_not_depend_on_the_number_of_rows():
    lab = b.lab()
    who = lab.who
    models = lab.models
    b.running(who["alice"], models)
    b.submitted(who["alice"], b.merge_body(models))
    few = queries()
    b.node("n2")
    b.node("n3")
    for _ in range(5):
        b.submitted(who["alice"], b.merge_body(models))
    b.ticked()
    assert queries() == few


def test_the_seeded_policy_is_the_specifications():
    seed.policy()
    loaded = load.policy_of()
    assert (loaded.queues, set(loaded.preemption)) == (DEFAULT_POLICY.queues, set(DEFAULT_POLICY.preemption))


def consumed(now, *, project: str = "alpha", user: str = "alice") -> tuple[int, int, int]:
    """GPU-ms that queue merge, the project and the user have consumed by then, what runs included."""
    share = FairShare.of(load.snapshot(now))
    entities = share.queues.entity("merge"), share.projects.entity(project), share.users.entity((project, user))
    return tuple(entity.consumed(share.clock) for entity in entities)


def test_what_runs_counts_as_consumed_so_far():
    b.busy_lab()
    queue, project, user = consumed(b.later(100))
    assert abs(project - 200_000) < 100
    assert queue == project == user


def test_a_balance_equals_what_its_intervals_say():
    lab = b.lab()
    who = lab.who
    models = lab.models
    for start in (0, 5000, 900_000):
        run = b.running(who["alice"], models, now=b.later(start))
        b.finished(run, "FAILED", now=b.later(start + 300), exit_code=1)
    before = consumed(b.later(2_000_000))
    assert balances.rebuild(b.later(2_000_000)) == 0
    assert all(abs(old - new) <= 3 for old, new in zip(before, consumed(b.later(2_000_000)), strict=True))


def test_an_end_whose_clock_was_read_before_an_end_settled_earlier_is_charged_once():
    lab = b.lab()
    who, models = lab.who, lab.models
    slow, quick = (b.running(who["alice"], models, now=b.NOON) for _ in range(2))
    kept = Scheduler(load.snapshot(b.NOON))
    b.finished(quick, "FAILED", now=b.later(300), exit_code=1)
    b.finished(slow, "FAILED", now=b.later(100), exit_code=1)  # it waited for its turn
    kept.ended(str(quick.job), to_ms(b.later(300)))
    kept.ended(str(slow.job), to_ms(b.later(100)))
    settled = set(Balance.objects.values_list("settled_at", flat=True))
    assert settled == {b.later(300)}
    told, read = kept.share.queues.entity("merge"), Balance.objects.get(ledger="queue")
    assert (told.settled_gpu_ms, told.settled_ms) == (read.gpu_ms, to_ms(read.settled_at))
    queue, project, user = consumed(b.later(300))
    assert queue == project == user
    # 2 GPUs each; what faded in five minutes of a week's half-life is 0.03 %
    assert 799_000 < project < 800_000
    assert balances.rebuild(b.later(200)) == 0
    assert set(Balance.objects.values_list("settled_at", flat=True)) == {b.later(300)}
    assert consumed(b.later(300)) == (queue, project, user)


def test_a_balance_charged_while_they_are_counted_anew_is_left_alone(monkeypatch):
    lab = b.lab()
    who, models = lab.who, lab.models
    first, second = (b.running(who["alice"], models, now=b.NOON) for _ in range(2))
    b.finished(first, "FAILED", now=b.later(300), exit_code=1)

    def meanwhile(*read):
        b.finished(second, "FAILED", now=b.later(300), exit_code=1)
        return correct(*read)

    correct = balances._correct
    monkeypatch.setattr(balances, "_correct", meanwhile)
    assert balances.rebuild(b.later(301)) == 0
    # the second's 600,000 GPU-ms were not yet among the intervals that had been read
    assert all(abs(used - 1_200_000) < 1_000 for used in consumed(b.later(301)))


def test_consumption_halves_in_a_half_life():
    run = b.busy_lab()[1]
    b.finished(run, "FAILED", now=b.later(1000), exit_code=1)
    now, week = consumed(b.later(1000))[1], consumed(b.later(1000 + 7 * 86400))[1]
    assert abs(now / 2 - week) <= 1


def test_a_node_that_is_leaving_takes_no_new_work():
    who = b.people()
    b.node("n1")
    b.beat(draining=True)
    b.submitted(who["alice"], b.merge_body([b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]))
    assert b.ticked().started == 0
    b.node("n1", now=b.later(1))
    assert b.ticked(b.later(1)).started == 1


def test_a_node_short_of_disk_takes_no_new_work():
    who = b.people()
    b.node("n1")
    b.beat(disk_low=True)
    b.submitted(who["alice"], b.merge_body([b.model(who["alice"], "a", 1), b.model(who["alice"], "b", 2)]))
    assert b.ticked().started == 0
