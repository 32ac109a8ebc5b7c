"""Who made room for a job that then does not take the GPUs: they are his again at once, and the ledger says so."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from scheduling.models import Attempt, LostWork, Nomination, Queue
from scheduling.services import jobs, tick
from scheduling.store.queries import share
from tests import builders as b
from tests.remembered import Remembered
from tests.services.test_eviction import GRACE_S, messages, state

pytestmark = pytest.mark.django_db

OVER = 100 + GRACE_S  # when the grace of victims that were asked at 100 s is over


@dataclass
class Pair:
    """Two Low jobs on two GPUs each, asked at 100 s to leave for a Critical one on four; none is stopped unsaved."""

    lab: b.Lab
    saver: b.Running
    refuser: b.Running
    critical: str
    ticker: tick.Ticker

    def tick(self, seconds: float) -> tick.TickResult:
        b.listening(seconds, max(0, seconds - 5))
        b.beat("n1", now=b.later(seconds))
        return tick.run_tick("test", b.later(seconds), self.ticker)

    def saves_and_leaves(self, seconds: float) -> None:
        saved = b.output(self.saver, "checkpoint", b"{}", kind="checkpoint", now=b.later(seconds - 1))
        answer = b.finished(
            self.saver, "PREEMPTED", exit_code=85, why="preempt", now=b.later(seconds), checkpoint=saved, step=7
        )
        assert answer["ok"], answer

    def holds(self) -> set[str]:
        live = Attempt.objects.filter(job_id=self.saver.job, ended_at__isnull=True)
        return set(live.values_list("allocations__gpu__uuid", flat=True))


@Remembered
def rows() -> tuple[b.Lab, b.Running, b.Running, str]:
    lab = b.lab()
    Queue.objects.update(never_without_checkpoint=True)
    saver = b.running(lab.who["alice"], lab.models, priority="Low", max_duration="4h")
    refuser = b.running(lab.who["alice"], lab.models, priority="Low", max_duration="1h")
    body = b.merge_body(lab.models, priority="Critical", purpose="regression_gate", gpu_count=4)
    return lab, saver, refuser, b.submitted(lab.who["admin"], body, now=b.later(100))


def pair() -> Pair:
    made = Pair(*rows(), ticker=tick.Ticker())
    assert made.tick(100).evicted == 2
    return made


def test_when_another_victim_did_not_save_the_one_that_did_starts_on_its_old_gpus_at_once():
    made = pair()
    made.saves_and_leaves(110)
    made.tick(OVER)
    made.tick(OVER + 0.1)
    assert (state(made.saver.job), state(made.refuser.job), state(made.critical)) == (
        "DISPATCHING", "RUNNING", "QUEUED",
    )  # fmt: skip
    assert made.holds() == set(made.saver.gpus)


def test_no_other_job_gets_them_first():
    made = pair()
    made.saves_and_leaves(110)
    other = b.submitted(
        made.lab.who["alice"], b.merge_body(made.lab.models, priority="High", max_duration="5m"), now=b.later(115)
    )
    made.tick(OVER)
    made.tick(OVER + 0.1)
    assert (state(other), made.holds()) == ("QUEUED", set(made.saver.gpus))


def test_it_resumes_from_what_it_saved_and_its_timeline_says_that_it_made_room_in_vain():
    made = pair()
    made.saves_and_leaves(110)
    made.tick(OVER)
    made.tick(OVER + 0.1)
    assert Attempt.objects.get(job_id=made.saver.job, ended_at__isnull=True).resume_step == 7
    assert messages(made.saver.job, "given_back") == [
        "it made room in vain: the job that n1/0, n1/1 were for does not take them now, so they are its own again"
    ]


def test_the_ledger_tells_that_it_was_in_vain_and_gives_it_back():
    made = pair()
    made.saves_and_leaves(110)
    made.tick(OVER)
    assert LostWork.objects.get(attempt_id=made.saver.attempt).in_vain
    (row,) = share.lost(b.later(OVER))
    assert (row["cause"], row["attempts"], row["in_vain"]) == ("preempt", 1, 1)


def test_an_eviction_that_served_its_purpose_is_not_told_as_in_vain():
    made = pair()
    made.saves_and_leaves(110)
    b.finished(made.refuser, "PREEMPTED", exit_code=85, why="preempt", now=b.later(112))
    made.tick(113)
    assert state(made.critical) == "DISPATCHING"
    assert list(LostWork.objects.values_list("in_vain", flat=True)) == [False, False]


def test_when_the_preemptor_is_cancelled_who_has_left_is_the_first_on_its_gpus():
    made = pair()
    made.saves_and_leaves(110)
    jobs.cancel(made.critical, made.lab.who["admin"], b.later(111))
    made.tick(112)
    made.tick(112.1)
    assert made.holds() == set(made.saver.gpus)


def test_one_that_is_spared_and_saves_and_leaves_all_the_same_has_its_gpus_again():
    made = pair()
    made.tick(OVER)
    made.saves_and_leaves(OVER + 3)
    made.tick(OVER + 4)
    assert made.holds() == set(made.saver.gpus)
    assert LostWork.objects.get().in_vain


def test_one_that_was_held_meanwhile_is_not_started():
    made = pair()
    made.saves_and_leaves(110)
    jobs.hold(made.saver.job, made.lab.who["alice"], b.later(111))
    made.tick(OVER)
    made.tick(OVER + 0.1)
    assert (state(made.saver.job), Nomination.objects.count()) == ("HELD", 0)


def test_gpus_that_are_failing_are_not_given_back():
    made = pair()
    made.saves_and_leaves(110)
    Attempt.objects.get(pk=made.saver.attempt).allocations.first().gpu.__class__.objects.filter(
        uuid=made.saver.gpus[0]
    ).update(state="UNHEALTHY")
    made.tick(OVER)
    assert Nomination.objects.count() == 0
