"""A queue whose jobs never make way unsaved: who did not save runs on, and is asked again once it has (D8)."""

from __future__ import annotations

import pytest
from django.test import Client

from scheduling.core.words import instant_in_words
from scheduling.models import Attempt, Nomination, Queue
from scheduling.services import jobs
from scheduling.services.outlook import Outlook
from scheduling.store.clock import to_ms
from scheduling.store.commit import deadlines
from scheduling.web import outlook_words
from tests import builders as b
from tests.remembered import Remembered
from tests.services.test_eviction import GRACE_S, World, messages, state

pytestmark = pytest.mark.django_db

OVER = 100 + GRACE_S  # when the grace of a victim that was asked at 100 s is over


@Remembered
def world() -> tuple[World, str]:
    """A world whose Low job was asked to leave for a Critical one at 100 s, and may not leave unsaved."""
    made = World()
    Queue.objects.update(never_without_checkpoint=True)
    return made, made.evicted()


def wanted(seconds: float) -> tuple[str, str | None]:
    (told,) = b.beat("n1", now=b.later(seconds))["desired"]
    return told["action"], told["why"]


def saves_on_the_way(made: World, seconds: float, step: int) -> None:
    run = {"attempt": made.victim.attempt, "epoch": made.victim.epoch}
    saved = b.output(made.victim, "checkpoint", f"{step}".encode(), kind="checkpoint", now=b.later(seconds))
    b.beat("n1", now=b.later(seconds), reports=[{"type": "checkpoint", "artifact": saved, "step": step, **run}])


def test_a_victim_that_did_not_save_in_time_runs_on_and_the_preemptor_waits():
    made, job = world()
    made.tick(OVER)
    assert (state(made.victim.job), state(job), Nomination.objects.count()) == ("RUNNING", "QUEUED", 0)
    assert wanted(OVER + 1)[0] == "run"


def test_where_jobs_may_be_stopped_unsaved_it_is_killed():
    made = World()
    made.evicted()
    made.tick(OVER)
    assert wanted(OVER + 1) == ("kill", "preempt")


def test_both_timelines_say_that_it_was_not_stopped_because_it_had_not_saved():
    made, job = world()
    made.tick(OVER)
    assert messages(made.victim.job, "running")[-1] == (
        "it did not save in time, and jobs of queue merge do not make way unsaved: it runs on"
    )
    assert messages(job, "not_saved") == [
        "1 running job did not save in time and may not be stopped unsaved: it runs on, and will be asked again after "
        "saving"
    ]


def test_it_is_not_asked_again_until_it_has_saved_and_then_it_is():
    made, job = world()
    for seconds in (OVER, OVER + 10, OVER + 700):
        made.tick(seconds)
        assert state(made.victim.job) == "RUNNING"
    saves_on_the_way(made, OVER + 701, step=5)
    made.tick(OVER + 702)
    assert (state(made.victim.job), Nomination.objects.get().job_id.hex) == ("PREEMPTING", job.replace("-", ""))
    assert Attempt.objects.get(pk=made.victim.attempt).asked_at == b.later(OVER + 702)


def test_a_checkpoint_of_before_it_was_asked_again_does_not_count_for_the_next_time():
    made, _ = world()
    made.tick(OVER)
    saves_on_the_way(made, OVER + 1, step=5)
    made.tick(OVER + 2)
    made.tick(OVER + 2 + GRACE_S)
    assert (state(made.victim.job), wanted(OVER + 3 + GRACE_S)[0]) == ("RUNNING", "run")


def test_one_that_saved_when_it_was_asked_and_does_not_go_is_killed_at_the_end_of_its_grace():
    made, _ = world()
    saves_on_the_way(made, 150, step=5)
    made.tick(OVER)
    assert wanted(OVER + 1) == ("kill", "preempt")


def test_one_that_saves_and_goes_makes_way_like_any_other():
    made, job = world()
    made.leaves(130, checkpoint=made.saves(129), step=7)
    made.tick(131)
    assert (state(made.victim.job), state(job)) == ("QUEUED", "DISPATCHING")


def test_one_that_is_spared_because_its_gpus_are_not_needed_may_be_asked_again_at_once():
    made, job = world()
    jobs.cancel(job, made.who["admin"], b.later(105))
    made.tick(106)
    made.critical(107)
    made.tick(107)
    assert state(made.victim.job) == "PREEMPTING"


def test_the_end_of_the_grace_is_not_enforced_on_it_before_the_scheduler_has_decided():
    made, _ = world()
    assert deadlines.enforce(b.later(OVER + 60)) == []
    assert Attempt.objects.get(pk=made.victim.attempt).action == "stop"


def test_of_one_that_a_node_has_left_the_end_of_the_grace_is_enforced():
    made, _ = world()
    Attempt.objects.get(pk=made.victim.attempt).nodes.update(ended_at=b.later(110), outcome="LOST")
    assert deadlines.enforce(b.later(OVER)) == ["n1"]


@pytest.mark.parametrize("why", ["cancel", "health", "drain", "time_limit"])
def test_a_grace_for_any_other_reason_is_enforced(why):
    made, _ = world()
    Attempt.objects.filter(pk=made.victim.attempt).update(why=why)
    assert deadlines.enforce(b.later(OVER + 60)) == ["n1"]


def test_a_cancel_ends_it_though_it_has_not_saved():
    made, _ = world()
    jobs.cancel(made.victim.job, made.who["alice"], b.later(105))
    made.tick(105 + GRACE_S + 60)
    assert wanted(105 + GRACE_S + 61) == ("kill", "cancel")


def test_the_admin_sets_it_and_rest_shows_it():
    b.people()
    client, queue = Client(), Queue.objects.get(name="merge")
    assert client.login(username="admin", password=b.PASSWORD)
    form = {"name": "merge", "weight": "2", "order": "0", "default_level": "Normal", "default_max_duration_s": "14400",
            "max_duration_cap_s": "604800", "grace_s": "120", "never_without_checkpoint": "on",
            "levels-TOTAL_FORMS": "4", "levels-INITIAL_FORMS": "4"}  # fmt: skip
    for n, level in enumerate(queue.levels.all()):
        row = {"id": level.pk, "queue": queue.pk, "name": level.name, "value": level.value}
        form |= {f"levels-{n}-{field}": value for field, value in row.items()}
    answer = client.post(f"/admin/scheduling/queue/{queue.pk}/change/", form)
    assert answer.status_code == 302
    shown = {each["name"]: each["never_without_checkpoint"] for each in client.get("/api/v1/queues/").json()["results"]}
    assert shown == {"merge": True, "eval": False, "inference": False}


def asked() -> tuple[World, str, str]:
    """The same from the beginning, so that what is said when it is asked is of such a queue; and by when it saves."""
    made = World()
    Queue.objects.update(never_without_checkpoint=True)
    return made, made.evicted(), instant_in_words(to_ms(b.later(OVER)))


def test_both_timelines_say_when_it_is_asked_that_it_runs_on_if_it_does_not_save():
    made, job, _ = asked()
    assert messages(made.victim.job, "preempting")[-1] == (
        f"its GPUs are needed by a Critical job of queue merge; if it saves within {GRACE_S} s, it goes back to the "
        "queue; otherwise it runs on"
    )
    assert messages(job, "nominated")[-1].endswith(
        "asked to save and leave; it runs on if not saved in time, and then this job waits anew"
    )


def test_the_reason_and_the_outlook_of_the_job_that_wants_the_gpus_say_so_too():
    _, job, by = asked()
    found = Outlook(b.later(101)).foretell(job)
    assert f"It runs on if not saved by {by}; then this job waits anew. That costs" in found.reasons[0].message
    told = outlook_words.foretold(found, job, {}, now=b.later(101))
    assert told["assumes"] == (
        "Only if 1 running job that may not be stopped unsaved saves by then; otherwise it runs on, and this job waits "
        "anew."
    )


def test_where_it_is_stopped_unsaved_nothing_of_the_kind_is_said():
    job = World().evicted()
    found = Outlook(b.later(101)).foretell(job)
    assert (found.if_saved, "runs on" in found.reasons[0].message) == (0, False)


def test_once_it_has_saved_it_leaves_for_certain():
    made, job, _ = asked()
    saves_on_the_way(made, 105, step=5)
    assert Outlook(b.later(106)).foretell(job).if_saved == 0
