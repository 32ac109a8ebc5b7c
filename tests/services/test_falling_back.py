"""Which checkpoint a job's next attempt begins with: the newest that is sound and from which it gets on."""

from __future__ import annotations

import hashlib

import pytest

from scheduling.models import Artifact, Attempt, Event, Job, Upload
from scheduling.services import artifact_files, artifacts, pool
from tests import builders as b
from tests.remembered import Remembered

pytestmark = pytest.mark.django_db

EVERY_S = 1000  # from one attempt to the next: longer than any pause after a failure


class Life:
    """A job of alice that is started again and again."""

    def __init__(self, *, tells: bool = True, **kw) -> None:
        self.lab = b.lab()
        self.at, self.tells = 0.0, tells
        self.job = b.submitted(self.lab.who["alice"], b.merge_body(self.lab.models, **kw))
        self.run = self.begins()

    def begins(self) -> b.Running:
        """Its next attempt runs."""
        b.listening(self.at, max(0.0, self.at - 60))
        b.beat(now=b.later(self.at))
        b.ticked(b.later(self.at))
        attempt = Attempt.objects.get(job_id=self.job, ended_at__isnull=True)
        launch = pool.claim("n1", str(attempt.pk), attempt.epoch, b.later(self.at))
        self.run = b.Running(self.job, str(attempt.pk), attempt.epoch, "n1", launch["gpus"])
        self.reports("started", pid=1)
        return self.run

    def reports(self, kind: str, **more) -> None:
        report = {"type": kind, "attempt": self.run.attempt, "epoch": self.run.epoch, **more}
        (answer,) = b.beat(now=b.later(self.at), reports=[report])["answers"]
        assert answer["ok"], answer

    def saves(self, step: int | None, *, tell: bool = True) -> str:
        """A checkpoint at that step is in the store, and with ``tell`` the job's."""
        content = f"{Attempt.objects.get(pk=self.run.attempt).number} {step}".encode()
        owner = artifacts.Owner(node="n1", attempt=self.run.attempt, epoch=self.run.epoch)
        sha = hashlib.sha256(content).hexdigest()
        files = [{"path": "experiment.json", "size": len(content), "sha256": sha}]
        message = {"name": "checkpoint", "kind": "checkpoint", "meta": {"step": step}, "files": files}
        opened = artifacts.begin(owner, message, b.later(self.at))
        artifacts.put(owner, opened["upload"], "experiment.json", 0, iter([content]))
        self.at += 1
        found = artifacts.commit(owner, opened["upload"], {"sha256": {"experiment.json": sha}}, b.later(self.at))
        if tell:
            self.reports("checkpoint", artifact=found["artifact"], step=step or 0)
        return found["artifact"]

    def gets_to(self, step: int) -> None:
        if self.tells:
            self.reports("progress", step=step, total=100)

    def ends(self, outcome: str = "LOST", **more) -> None:
        """The attempt ends in a way that leads to another."""
        self.at += EVERY_S
        b.listening(self.at, self.at - EVERY_S)
        self.reports("finished", outcome=outcome, exit_code=1, **more)
        self.at += EVERY_S
        b.listening(self.at, self.at - EVERY_S)
        pool.operate("n1", "return", self.lab.who["admin"], b.later(self.at))
        Job.objects.filter(pk=self.job).update(avoid={}, eligible_at=None)

    def again_in_vain(self, times: int, outcome: str = "LOST") -> None:
        for _ in range(times):
            self.begins()
            self.ends(outcome)

    def begins_with(self) -> tuple[str | None, int]:
        job = Job.objects.get(pk=self.job)
        return (str(job.resume_id) if job.resume_id else None, job.resume_step)

    def given_up(self) -> list[dict]:
        return list(Event.objects.filter(type="checkpoint_given_up").order_by("id").values_list("data", flat=True))


@Remembered
def saved_twice() -> tuple[Life, str, str]:
    """A job that saved at steps 3 and 7 in its first attempt, which was lost."""
    return lost_after_saving_twice(Life())


def lost_after_saving_twice(life: Life) -> tuple[Life, str, str]:
    life.gets_to(3)
    first = life.saves(3)
    life.gets_to(7)
    second = life.saves(7)
    life.ends()
    return life, first, second


def test_one_restart_without_progress_is_tried_again():
    life, _, second = saved_twice()
    life.again_in_vain(1)
    assert (life.begins_with(), life.given_up()) == ((second, 7), [])


@pytest.mark.parametrize("outcome", ["LOST", "PREEMPTED"])
def test_after_two_restarts_without_progress_the_one_before_is_begun_with(outcome):
    life, first, second = saved_twice()
    life.again_in_vain(2, outcome)
    assert life.begins_with() == (first, 3)
    assert life.given_up() == [
        {"artifact": second, "step": 7, "why": "no_progress", "instead": first, "instead_step": 3}
    ]
    life.begins()
    attempt = Attempt.objects.get(pk=life.run.attempt)
    assert (str(attempt.resume_id), attempt.resume_step) == (first, 3)


def test_the_timeline_says_which_and_why():
    life, *_ = saved_twice()
    life.again_in_vain(2)
    assert Event.objects.get(type="checkpoint_given_up").message == (
        "2 attempts in a row began with the checkpoint at step 7 and did not get beyond it: it resumes from the one "
        "before, at step 3"
    )
    requeued = Event.objects.filter(type="requeued", object_id=life.job).order_by("-id")[0]
    assert requeued.message.endswith("will resume from the earlier checkpoint at step 3 of 2 Mar 2026, 12:00:01 UTC")


def test_a_checkpoint_is_not_called_the_earlier_one_where_no_newer_was_given_up():
    life, *_ = saved_twice()
    life.again_in_vain(1)
    requeued = Event.objects.filter(type="requeued", object_id=life.job).order_by("-id")[0]
    assert requeued.message.endswith("will resume from the checkpoint at step 7 of 2 Mar 2026, 12:00:02 UTC")


def test_after_two_more_it_starts_from_the_beginning():
    life, first, _ = saved_twice()
    life.again_in_vain(4)
    assert life.begins_with() == (None, 0)
    assert life.given_up()[1] == {
        "artifact": first,
        "step": 3,
        "why": "no_progress",
        "instead": None,
        "instead_step": 0,
    }


def test_a_restart_that_got_on_breaks_the_row():
    life, _, second = saved_twice()
    life.again_in_vain(1)
    life.begins()
    life.gets_to(8)
    life.ends()
    life.again_in_vain(1)
    assert life.begins_with() == (second, 7)


def test_a_restart_that_saved_anew_breaks_the_row():
    life, *_ = saved_twice()
    life.again_in_vain(1)
    life.begins()
    third = life.saves(8)
    life.ends()
    assert life.begins_with() == (third, 8)


def test_one_that_could_save_when_it_was_asked_to_leave_has_shown_that_its_checkpoint_is_good():
    life, _, second = saved_twice()
    life.again_in_vain(1)
    life.begins()
    life.ends("PREEMPTED", checkpoint=life.saves(7, tell=False), step=7)
    life.again_in_vain(1)
    assert life.given_up() == []
    assert second != life.begins_with()[0]


def test_an_attempt_that_never_ran_says_nothing_of_the_checkpoint():
    life, _, second = saved_twice()
    life.again_in_vain(1)
    life.begins()
    Attempt.objects.filter(pk=life.run.attempt).update(started_at=None)
    life.ends()
    assert life.begins_with() == (second, 7)


def test_of_a_job_that_never_says_how_far_it_is_the_loss_of_its_node_says_nothing():
    life, _, second = lost_after_saving_twice(Life(tells=False))
    life.again_in_vain(2)
    assert life.begins_with() == (second, 7)


def test_but_its_failures_do():
    life, first, _ = lost_after_saving_twice(Life(tells=False, retries=5))
    life.again_in_vain(2, "FAILED")
    assert life.begins_with() == (first, 3)


def test_one_that_was_given_up_is_not_come_back_to():
    life, first, second = saved_twice()
    life.again_in_vain(2)
    life.begins()
    life.gets_to(4)
    third = life.saves(4)
    life.ends()
    Job.objects.filter(pk=life.job).update(infra_failures=0)
    life.again_in_vain(2)
    assert [each["artifact"] for each in life.given_up()] == [second, third]
    assert life.begins_with() == (first, 3)


def test_one_that_is_found_damaged_while_the_job_waits_is_not_begun_with():
    life, first, second = saved_twice()
    Artifact.objects.filter(pk=second).update(corrupt=True)
    life.begins()
    attempt = Attempt.objects.get(pk=life.run.attempt)
    assert (str(attempt.resume_id), attempt.resume_step, life.begins_with()) == (first, 3, (first, 3))
    assert life.given_up() == [{"artifact": second, "step": 7, "why": "corrupt", "instead": first, "instead_step": 3}]


def test_one_that_is_damaged_is_passed_over_on_the_way_back():
    life, first, second = saved_twice()
    Artifact.objects.filter(pk=first).update(corrupt=True)
    life.again_in_vain(2)
    assert (life.begins_with(), [each["artifact"] for each in life.given_up()]) == ((None, 0), [second])


def test_a_checkpoint_of_unknown_step_is_not_of_an_earlier_one_than_it_began_with():
    life, *_ = saved_twice()
    life.begins()
    last = life.saves(None, tell=False)
    life.ends("PREEMPTED", checkpoint=last, step=0)
    assert life.begins_with() == (last, 7)


def test_what_another_job_saved_is_not_taken():
    life, first, _ = saved_twice()
    other = b.submitted(life.lab.who["alice"], b.merge_body(life.lab.models, not_before="2030-01-01T00:00:00Z"))
    theirs = Attempt.objects.create(job_id=other, number=1, epoch=1, granted_at=b.NOON, remaining_s=60, ended_at=b.NOON)
    Upload.objects.filter(artifact=first).update(attempt=theirs)
    life.again_in_vain(2)
    assert life.begins_with() == (None, 0)


def test_a_checkpoint_that_a_node_could_not_fetch_is_looked_at_and_given_up_when_it_is_damaged():
    life = Life()
    first = life.saves(3)
    second = life.saves(7)
    life.ends("LOST", why="lost")
    life.begins()
    entry = Artifact.objects.get(pk=second).files[0]
    artifact_files.blob(entry["sha256"]).write_bytes(b"x" * entry["size"])
    life.ends("FAILED", detail="inputs", error="sha256 differs")
    job = Job.objects.get(pk=life.job)
    assert (job.state, job.app_failures, str(job.resume_id)) == ("QUEUED", 0, first)
    assert Artifact.objects.get(pk=second).corrupt


def test_what_is_not_damaged_is_the_jobs_own_failure():
    life = Life()
    life.saves(3)
    life.ends("LOST", why="lost")
    life.begins()
    life.ends("FAILED", detail="inputs", error="model-0 is not there")
    assert Job.objects.get(pk=life.job).state == "FAILED"
