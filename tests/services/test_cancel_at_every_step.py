"""A cancel at every step of a run: the job is CANCELLED, nothing runs or is held afterwards, and twice is as once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduling.models import Allocation, Attempt, Job
from scheduling.services import jobs, pool
from scheduling.services.jobs import Moved
from tests import builders as b
from tests.services.sick_gpus import HOT, fails

pytestmark = pytest.mark.django_db


class Run:
    """A merge of alice's on the one node, taken as far as a test wants it."""

    def __init__(self) -> None:
        lab = b.lab()
        self.who = lab.who
        self.job = b.submitted(lab.who["alice"], b.merge_body(lab.models, priority="Low"))
        self.ref: dict[str, object] = {}

    def granted(self) -> None:
        b.ticked()
        row = Attempt.objects.get(job_id=self.job)
        self.ref = {"attempt": str(row.pk), "epoch": row.epoch}

    def claimed(self) -> None:
        self.granted()
        pool.claim("n1", str(self.ref["attempt"]), int(str(self.ref["epoch"])), b.NOON)

    def says(self, kind: str, at: float = 1, **more: object) -> object:
        return b.beat(now=b.later(at), reports=[{"type": kind, **self.ref, **more}])["answers"][0]

    def started(self) -> None:
        self.claimed()
        self.says("started", pid=1)

    def told_progress(self) -> None:
        self.started()
        self.says("progress", step=3, total=9)

    def asked_by_health(self) -> None:
        self.started()
        fails({0: HOT})

    def asked_by_a_drain(self) -> None:
        self.started()
        pool.operate("n1", "drain", self.who["admin"], b.later(1), deadline_s=1)
        b.ticked(b.later(3))

    def requeued(self) -> None:
        self.started()
        self.says("finished", outcome="PREEMPTED", exit_code=85, why="drain")

    def held(self) -> None:
        jobs.hold(self.job, self.who["alice"], b.NOON)

    def cancel(self, at: float = 40, *, force: bool = False) -> Moved | None:
        return jobs.cancel(self.job, self.who["alice"], b.later(at), force=force)


WAITING: list[Callable[[Run], None]] = [lambda run: None, Run.held, Run.requeued, Run.granted]
LIVE = [Run.claimed, Run.started, Run.told_progress, Run.asked_by_health, Run.asked_by_a_drain]
named = {"ids": lambda step: getattr(step, "__name__", "").replace("<lambda>", "queued") or str(step)}


def left() -> tuple[int, int]:
    """How many attempts are live and GPUs held."""
    return Attempt.objects.filter(ended_at=None).count(), Allocation.objects.filter(released_at=None).count()


@pytest.mark.parametrize("step", WAITING, **named)
def test_what_no_node_has_claimed_is_cancelled_at_once(step):
    run = Run()
    step(run)
    assert [run.cancel(), run.cancel(41)] == [Moved("CANCELLED", lawful=True)] * 2
    b.ticked(b.later(42))
    assert (left(), b.beat(now=b.later(43))["desired"]) == ((0, 0), [])


@pytest.mark.parametrize(
    ("step", "end"),
    [(step, "SUCCEEDED") for step in LIVE]
    + [(Run.started, end) for end in ("CANCELLED", "FAILED", "PREEMPTED", "LOST", "TIMED_OUT")],
    **named,
)
def test_what_a_node_has_is_told_to_stop_and_ends_as_cancelled_whatever_the_node_says_of_it(step, end):
    run = Run()
    step(run)
    assert [run.cancel(), run.cancel(41)] == [Moved("CANCELLING", lawful=True)] * 2
    wanted = b.beat(now=b.later(42))["desired"][0]
    assert (wanted["action"] in ("stop", "kill"), wanted["why"]) == (True, "cancel")
    assert run.says("finished", 43, outcome=end, exit_code=1) == {"n": 0, "ok": True}
    b.ticked(b.later(44))
    assert (Job.objects.get(pk=run.job).state, left()) == ("CANCELLED", (0, 0))
    assert run.cancel(45) == Moved("CANCELLED", lawful=True)


@pytest.mark.parametrize("step", LIVE, **named)
def test_by_force_it_is_killed_without_a_grace(step):
    run = Run()
    step(run)
    run.cancel(force=True)
    wanted = b.beat(now=b.later(40))["desired"][0]
    assert (wanted["action"], wanted["why"], wanted["grace_s"]) == ("kill", "cancel", 0.0)


@pytest.mark.parametrize(
    ("end", "state"), [("SUCCEEDED", "SUCCEEDED"), ("FAILED", "FAILED"), ("TIMED_OUT", "TIMED_OUT")]
)
def test_a_cancel_after_the_end_changes_nothing(end, state):
    run = Run()
    run.started()
    run.says("finished", outcome=end, exit_code=1)
    before = Job.objects.get(pk=run.job).version
    assert (run.cancel(), Job.objects.get(pk=run.job).version) == (Moved(state, lawful=False), before)


@pytest.mark.parametrize("step", LIVE, **named)
def test_a_hold_of_what_runs_is_refused_and_changes_nothing(step):
    run = Run()
    step(run)
    before = Job.objects.get(pk=run.job)
    for release in (False, True):
        assert jobs.hold(run.job, run.who["alice"], b.later(40), release=release) == Moved(before.state, lawful=False)
    assert Job.objects.get(pk=run.job).version == before.version


def test_what_is_held_does_not_start_and_once_released_keeps_its_place():
    run = Run()
    run.held()
    later = b.submitted(run.who["alice"], b.command_body(name="later", gpu_count=1, priority="Low"), now=b.later(1))
    b.ticked(b.later(2))
    assert [Job.objects.get(pk=job).state for job in (run.job, later)] == ["HELD", "DISPATCHING"]
    jobs.hold(run.job, run.who["alice"], b.later(3), release=True)
    assert Job.objects.get(pk=run.job).submitted_at == b.NOON
    b.ticked(b.later(4))
    assert Job.objects.get(pk=run.job).state == "DISPATCHING"


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"])
def test_an_ended_job_is_neither_held_nor_released(state):
    run = Run()
    Job.objects.filter(pk=run.job).update(state=state, ended_at=b.NOON)
    moves = [jobs.hold(run.job, run.who["alice"], b.later(1), release=release) for release in (False, True)]
    assert moves == [Moved(state, lawful=False)] * 2


def test_who_has_read_the_clock_before_the_grant_cancels_it_all_the_same():
    run = Run()
    run.granted()
    jobs.cancel(run.job, run.who["alice"], b.later(-1))
    attempt = Attempt.objects.get(job_id=run.job)
    assert (Job.objects.get(pk=run.job).state, attempt.ended_at) == ("CANCELLED", attempt.granted_at)
    assert not Allocation.objects.filter(released_at__isnull=True).exists()


def test_asked_again_it_gets_no_more_time_than_it_had():
    run = Run()
    run.started()
    run.cancel(40)
    run.cancel(60)
    assert Attempt.objects.get(job_id=run.job).stop_by == b.later(40 + 30)
    run.cancel(61, force=True)
    assert Attempt.objects.get(job_id=run.job).stop_by == b.later(61)
