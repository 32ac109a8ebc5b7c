"""Memory that a job leaves on a GPU: the GPU is out of service and says why, until its test finds it free again."""

from __future__ import annotations

import pytest

from scheduling.models import Attempt, Event, Gpu, Job
from tests import builders as b
from tests.services.sick_gpus import PASSED, report, returns, state
from workers.agent.final_report import final_report
from workers.agent.messages import Exited
from workers.agent.outcome import Ending, Exit, Facts
from workers.agent.statedir import Ref
from workers.protocol import Outcome

pytestmark = pytest.mark.django_db

HELD = "GPU-n1-0: 4096 MiB are still held (4506 in use, 410 before it)"
STILL = {"canary": {"passed": False, "detail": "before the test 4506 MiB are in use, and 410 MiB when it was idle"}}


def ended(*, left: str = "", survivors: tuple[int, ...] = (), outcome: Outcome = Outcome.SUCCEEDED) -> b.Running:
    """A job on two GPUs whose end is told in the agent's own words."""
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models)
    clean = not left and not survivors
    exited = Exited(Ref(run.attempt, int(run.epoch)), Exit(0, clean=clean, left=left, survivors=survivors), Facts())
    said = final_report(exited.ref, Ending(outcome), exited=exited, stop=None, artifacts=(), checkpoint=None)
    more = {name: said[name] for name in ("detail", "gpus_clean", "gpus_held") if name in said}
    b.finished(run, str(outcome), now=b.later(5), **more)
    return run


def test_they_are_out_of_service_and_the_reason_names_the_gpu_and_how_much_it_holds():
    ended(left=HELD)
    assert [state(i) for i in range(4)] == ["QUARANTINED", "QUARANTINED", "HEALTHY", "HEALTHY"]
    assert Gpu.objects.get(uuid="GPU-n1-0").why == f"not free after its job: {HELD}"


def test_the_journal_tells_it():
    ended(left=HELD)
    event = Event.objects.filter(type="gpu_state", object_id="GPU-n1-0").latest("id")
    assert event.message == f"QUARANTINED: not free after its job: {HELD}"


def test_the_job_that_left_it_has_the_end_it_had():
    run = ended(left=HELD, outcome=Outcome.FAILED)
    assert (Job.objects.get(pk=run.job).state, Attempt.objects.get(pk=run.attempt).outcome) == ("FAILED", "FAILED")


def test_a_gpu_whose_memory_came_free_returns_by_its_test():
    ended(left=HELD)
    assert returns(0, start=10) == "HEALTHY"


def test_a_gpu_that_still_holds_it_fails_its_test_and_returns_by_a_later_one():
    ended(left=HELD)
    report(at=10)
    report({0: STILL}, at=20)
    for n in range(3):
        report(at=30 + 10 * n)
    assert state() == "QUARANTINED"
    assert "4506 MiB are in use" in Event.objects.get(type="gpu_health", object_id="GPU-n1-0", at=b.later(20)).message
    report({0: PASSED}, at=700)
    for n in range(3):
        report(at=710 + 10 * n)
    assert state() == "HEALTHY"


def test_words_that_sound_like_held_memory_are_not_taken_for_it():
    lab = b.lab()
    run = b.running(lab.who["alice"], lab.models)
    b.finished(run, now=b.later(5), gpus_clean=False, detail=f"not free after its job: {HELD}")
    assert returns(0, start=10) == "QUARANTINED"


def test_a_process_that_cannot_be_killed_still_needs_a_reboot():
    ended(survivors=(4711,))
    assert returns(0, start=10) == "QUARANTINED"
