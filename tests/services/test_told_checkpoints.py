"""What a job's timeline says of its checkpoints: each once, and of a refused one why, at once and at the end."""

from __future__ import annotations

import pytest

from scheduling.models import Event, Job
from tests import builders as b
from tests.services.test_falling_back import Life

pytestmark = pytest.mark.django_db

LINK = "'latest' is a symbolic link to nothing; remove it or write the file itself"


def said(life: Life, kind: str) -> list[str]:
    return list(Event.objects.filter(type=kind, object_id=life.job).order_by("id").values_list("message", flat=True))


def answer(life: Life, **report) -> dict:
    whose = {"type": "checkpoint_refused", "attempt": life.run.attempt, "epoch": life.run.epoch}
    return b.beat(now=b.later(life.at), reports=[{**whose, **report}])["answers"][0]


def test_a_refused_checkpoint_is_on_the_timeline_once_for_each_reason():
    life = Life()
    for why in (LINK, LINK, "900 bytes; the limit is 500"):
        life.reports("checkpoint_refused", error=why)
    assert said(life, "checkpoint_refused") == [
        f"its checkpoint was refused: {LINK}",
        "its checkpoint was refused: 900 bytes; the limit is 500",
    ]


def test_a_refusal_of_another_epoch_changes_nothing():
    life = Life()
    assert answer(life, epoch=life.run.epoch + 1, error=LINK)["code"] == "stale_epoch"
    assert said(life, "checkpoint_refused") == []


@pytest.mark.parametrize("report", [{}, {"error": " \0"}])
def test_a_refusal_without_a_reason_is_a_bad_report(report):
    life = Life()
    assert (answer(life, **report)["code"], said(life, "checkpoint_refused")) == ("bad_report", [])


def test_an_end_with_a_refused_checkpoint_keeps_its_cause_and_resumes_from_the_one_before():
    life = Life()
    saved = life.saves(7)
    life.ends("PREEMPTED", why="preempt", error=f"its checkpoint was refused: {LINK}", detail="checkpoint refused")
    assert said(life, "attempt_ended") == [
        f"attempt 1 ended: PREEMPTED (its GPUs were needed; its checkpoint was refused: {LINK})"
        "; 16 min 40 s on 2 GPUs (0.56 GPU-hours) are lost and given back"
    ]
    assert life.begins_with() == (saved, 7)


def test_the_same_checkpoint_is_told_of_once_however_often_it_is_declared():
    life = Life()
    for _ in range(2):
        life.saves(10)
    life.reports("checkpoint", artifact=life.saves(20, tell=False), step=20)
    assert said(life, "checkpoint_committed") == [
        "checkpoint at step 10 is in the store",
        "checkpoint at step 20 is in the store",
    ]


def test_of_a_checkpoint_of_unknown_step_none_is_named():
    life = Life()
    life.saves(None)
    assert said(life, "checkpoint_committed") == ["checkpoint is in the store"]


def test_a_step_that_was_reached_without_saving_is_no_progress():
    life = Life()
    life.ends("PREEMPTED", step=27)
    assert Job.objects.get(pk=life.job).yields == 1


def test_a_checkpoint_that_was_stored_on_the_way_is_progress_of_that_attempt_and_of_no_other():
    life = Life()
    life.saves(8)
    life.ends("PREEMPTED", step=8)
    assert Job.objects.get(pk=life.job).yields == 0
    life.begins()
    life.ends("PREEMPTED", step=8)
    assert Job.objects.get(pk=life.job).yields == 1
