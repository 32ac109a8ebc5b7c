"""A job takes the place of one that waits: at its place or at a new one, whole or not at all, and only of one that
never had GPUs."""

from __future__ import annotations

import threading

import pytest
from django.db import IntegrityError, connection, transaction

from scheduling.models import Event, Job, Nomination
from scheduling.services import jobs, replacing, tick, whatif
from scheduling.services.jobs import Accepted, KeyConflict, Refused
from scheduling.store import load
from scheduling.store.clock import to_ms
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.checker.check import check_database
from tests.services.test_kept import House

pytestmark = pytest.mark.django_db

FULL = {"gpu_count": 4, "max_duration": "1h"}


@pytest.fixture
def who():
    return b.lab().who


@pytest.fixture
def waits(who):
    """A job of alice's for all 4 GPUs, which was submitted at noon."""
    return b.submitted(who["alice"], b.command_body(**FULL))


def replaced(actor, job, *, at=60, key=None, **changed):
    return jobs.submit(b.command_body(**{**FULL, "replaces": job, **changed}), actor, b.later(at), key=key)


def taken(actor, job, **changed) -> Job:
    """The new job, which was accepted."""
    found = replaced(actor, job, **changed)
    assert isinstance(found, Accepted), found
    return Job.objects.get(pk=found.job_id)


def refusal(actor, job, **changed) -> tuple[str, str]:
    """The code and the message with which ``replaces``, and nothing else, was refused."""
    found = replaced(actor, job, **changed)
    assert isinstance(found, Refused), found
    (error,) = found.errors
    assert error["field"] == "replaces"
    return error["code"], error["message"]


def told(job: object, kind: str) -> str:
    return Event.objects.get(object_id=str(job), type=kind).message


def unlawful() -> list[str]:
    """What the checker finds wrong with what the database tells."""
    with connection.cursor() as cursor:
        return check_database(cursor, now=b.later(100).timestamp())


@pytest.mark.parametrize("state", ["QUEUED", "HELD"])
def test_the_old_job_is_cancelled_and_the_new_one_has_its_time_of_submission(who, waits, state):
    if state == "HELD":
        jobs.hold(waits, who["alice"], b.later(1))
    new = taken(who["alice"], waits, gpu_count=2)
    old = Job.objects.get(pk=waits)
    assert (old.state, old.outcome, old.ended_at) == ("CANCELLED", "CANCELLED", b.later(60))
    assert (new.state, new.submitted_at, new.gpu_count, new.replaces_id) == (state, b.NOON, 2, old.pk)
    assert unlawful() == []


def test_both_timelines_say_who_took_whose_place(who, waits):
    new = taken(who["alice"], waits, name="smaller")
    assert told(waits, "cancelled") == f"replaced by smaller (job {new.pk}), as alice asked; it had not started"
    assert told(new.pk, "submitted") == (
        f"submitted to merge at Normal; it takes the place of train (job {waits}) in the queue"
    )
    by = Event.objects.filter(type__in=["cancelled", "submitted"], object="job").values_list("actor", flat=True)
    assert set(by) == {"user alice"}


@pytest.mark.parametrize(
    ("more", "because"),
    [
        ({"gpu_count": 8, "node_count": 2}, "it asks for 8 GPUs instead of 4"),
        ({"max_duration": "90m"}, "it asks for 1 h 30 min instead of 1 h"),
        ({"priority": "High"}, "it has another priority than Normal"),
        ({"queue": "eval"}, "it goes to another queue than merge"),
    ],
)
def test_what_asks_for_more_or_elsewhere_takes_a_new_place_and_says_why(who, waits, more, because):
    b.node("n2")
    new = taken(who["alice"], waits, **more)
    assert new.submitted_at == b.later(60)
    assert told(new.pk, "submitted").endswith(f", at a new place in the queue: {because}")
    assert (Job.objects.get(pk=waits).state, unlawful()) == ("CANCELLED", [])


def test_in_the_place_of_a_held_job_it_is_held_until_it_is_released(who, waits):
    jobs.hold(waits, who["alice"], b.later(1))
    new = taken(who["alice"], waits)
    assert told(new.pk, "held") == "held, as the job was whose place it takes; release it to let it start"
    b.ticked(b.later(61))
    assert Job.objects.get(pk=new.pk).state == "HELD"
    jobs.hold(str(new.pk), who["alice"], b.later(62), release=True)
    b.ticked(b.later(63))
    assert (Job.objects.get(pk=new.pk).state, unlawful()) == ("DISPATCHING", [])


def test_who_replaces_a_colleagues_job_stands_at_a_place_of_his_own(who, waits):
    new = taken(who["admin"], waits)
    assert (new.submitted_at, new.user.username) == (b.later(60), "admin")
    assert told(new.pk, "submitted").endswith("at a new place in the queue: the place was alice's")
    assert told(waits, "cancelled").endswith("as admin asked; it had not started")


def test_of_two_projects_neither_timeline_names_the_job_of_the_other(who, waits):
    new = taken(who["admin"], waits, project="beta", name="hidden")
    assert told(waits, "cancelled").startswith("replaced by a job of another project, as admin")
    assert told(new.pk, "submitted").endswith(
        "; it replaces a job of another project, at a new place in the queue: it belongs to another project"
    )
    rows = [queries.as_dict(queries.one(who["admin"], str(each))) for each in (waits, new.pk)]
    assert [(row["replaces"], row["replaced_by"]) for row in rows] == [(None, None), (None, None)]


def test_it_keeps_the_age_with_which_the_old_one_has_held_out_for_its_level(who):
    b.node("n2")
    gang = {"gpu_count": 8, "node_count": 2, "max_wait_for_level": "10m"}
    old = b.submitted(who["alice"], b.command_body(**gang))
    new = taken(who["alice"], old, **gang, at=599)
    (row,) = load.snapshot(b.later(599)).waiting
    assert (row.id, row.submitted_ms, row.request.max_wait_for_level_s) == (str(new.pk), to_ms(b.NOON), 600)


def test_the_age_of_a_chain_is_that_of_its_first_job(who, waits):
    second = taken(who["alice"], waits, at=60)
    third = taken(who["alice"], str(second.pk), at=120)
    assert (third.submitted_at, third.replaces_id) == (b.NOON, second.pk)


def test_a_body_that_replaces_is_copied_without_it(who, waits):
    new = taken(who["alice"], waits)
    assert "replaces" not in jobs.body_again(str(new.pk), who["alice"])


# ---------------------------------------------------------------- a retry that is replaced


@pytest.fixture
def retry():
    """A retry, with a checkpoint to begin with, that waits; and the merge that it does again."""
    lab, run = b.busy_lab()
    saved = b.output(run, "checkpoint", b'{"step": 3}', kind="checkpoint", now=b.later(5))
    b.finished(run, "FAILED", exit_code=1, checkpoint=saved, step=3, error="boom", now=b.later(6))
    return lab, run, jobs.retry(run.job, lab.who["alice"], b.later(10)).job_id


def anew(retry, **params):
    """The body of a merge in the place of the retry, and what its plan and its timeline say of beginning anew."""
    lab, _, again = retry
    body = b.merge_body(lab.models, replaces=str(again), gpu_count=1, nvlink_required=False, params=params)
    planned = whatif.plan(body, lab.who["alice"], b.later(19))
    new = Job.objects.get(pk=b.submitted(lab.who["alice"], body, now=b.later(20)))
    words = Event.objects.get(type="submitted", object_id=str(new.pk)).message
    return new, planned.in_place_of.begins_anew, words.partition("begins anew: ")[2]


@pytest.mark.parametrize(("t", "goes_on"), [(0.5, True), (0.25, False)])
def test_a_retry_that_is_replaced_by_the_same_work_goes_on_with_its_checkpoint(retry, t, goes_on):
    new, planned, told = anew(retry, t=t)
    again = Job.objects.get(pk=retry[2])
    why = f"its kind or params are not those of {again.name}, which would go on at step 3"
    assert (str(new.retry_of_id) == retry[1].job, new.resume_id is not None, new.resume_step == 3) == (goes_on,) * 3
    assert (planned, told) == (("", "") if goes_on else (why, why))


@pytest.mark.parametrize("called", [("a", "b"), ("a", None), (None, "b")])
def test_models_by_name_or_by_id_are_the_same_work(retry, called):
    lab, run, _ = retry
    models = [name or model for name, model in zip(called, lab.models, strict=True)]
    new, planned, told = anew(retry, models=models)
    assert (str(new.retry_of_id), new.resume_step, planned, told) == (run.job, 3, "", "")


def test_other_models_are_other_work(retry):
    lab, _, _ = retry
    new, planned, _ = anew(retry, models=list(reversed(lab.models)))
    assert (new.retry_of_id, new.resume_id, planned != "") == (None, None, True)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("given", [7, True, ["x"], {}, "", "mine", "5f0f7f0e"])
def test_what_is_no_id_is_refused_with_what_to_give(who, waits, given):
    code, message = refusal(who["alice"], given)
    assert (code, message.startswith("replaces must be the id of a waiting job")) == ("not_a_job_id", True)


def test_an_unknown_job_reads_like_one_of_another_project(who):
    theirs = b.submitted(who["bob"], b.command_body(project="beta"))
    missing = "5f0f7f0e-0000-4000-8000-000000000000"
    foreign, unknown = (refusal(who["alice"], each) for each in (theirs, missing))
    assert foreign == (unknown[0], unknown[1].replace(missing, theirs))
    assert unknown == ("unknown_job", f"there is no job '{missing}' that you may replace: give the id of a waiting "
                       "job, or submit it without replaces to have it beside what there is")  # fmt: skip
    assert Job.objects.get(pk=theirs).state == "QUEUED"


@pytest.mark.parametrize(
    ("columns", "code", "says"),
    [
        ({"state": "DISPATCHING", "attempt_number": 1}, "already_started", "has started: cancel it first if its work"),
        ({"state": "RUNNING", "attempt_number": 1}, "already_started", "has started: cancel it first if its work"),
        ({"state": "QUEUED", "attempt_number": 1}, "already_started", "has run before and is QUEUED again: cancel it"),
        ({"state": "HELD", "attempt_number": 2}, "already_started", "has run before and is HELD again: cancel it"),
        ({"state": "SUCCEEDED", "attempt_number": 1}, "already_started", "has run and is SUCCEEDED: there is nothing"),
        ({"state": "CANCELLED"}, "not_waiting", "is CANCELLED and waits no more; submit it without replaces"),
    ],
)
def test_a_job_that_has_had_gpus_or_waits_no_more_is_told_so_and_left_alone(who, waits, columns, code, says):
    over = b.NOON if columns["state"] in ("SUCCEEDED", "CANCELLED") else None
    Job.objects.filter(pk=waits).update(**columns, ended_at=over)
    found = refusal(who["alice"], waits)
    assert (found[0], f"job {waits} {says}" in found[1]) == (code, True)
    assert Job.objects.get(pk=waits).state == columns["state"]


def test_a_job_that_was_replaced_names_the_one_to_replace_now(who, waits):
    new = taken(who["alice"], waits, name="second")
    code, message = refusal(who["alice"], waits)
    assert code == "already_replaced"
    assert f"job {waits} was already replaced, now by second (job {new.pk}): replace that one, or submit it" in message


def test_a_job_whose_successor_was_replaced_too_names_the_newest_of_them(who, waits):
    second = taken(who["alice"], waits, name="second")
    third = taken(who["alice"], str(second.pk), name="third")
    assert f"now by third (job {third.pk}): replace that one" in refusal(who["alice"], waits)[1]


def test_a_job_whose_successor_has_started_says_so(who, waits):
    second = taken(who["alice"], waits, name="second")
    Job.objects.filter(pk=second.pk).update(state="RUNNING", attempt_number=1)
    assert f"now by second (job {second.pk}), which has started; submit it without" in refusal(who["alice"], waits)[1]


def test_a_job_that_was_refused_has_no_place_to_take(who):
    refused = jobs.submit({"kind": "command", "project": "alpha"}, who["alice"], b.NOON)
    code, message = refusal(who["alice"], str(refused.job_id))
    assert (code, "was refused and has no place in the queue" in message) == ("not_waiting", True)


def test_every_other_fault_of_the_body_is_told_with_it(who, waits):
    Job.objects.filter(pk=waits).update(state="RUNNING", attempt_number=1)
    found = replaced(who["alice"], waits, gpu_count=0, max_duration="4 parsecs")
    assert {error["field"] for error in found.errors} == {"replaces", "gpu_count", "max_duration"}


def test_a_body_that_is_refused_leaves_the_old_job_as_it_was(who, waits):
    found = replaced(who["alice"], waits, gpu_count=0)
    kept = Job.objects.get(pk=waits)
    assert (isinstance(found, Refused), kept.state, kept.version, kept.submitted_at) == (True, "QUEUED", 1, b.NOON)
    assert jobs.body_again(str(found.job_id), who["alice"])["replaces"] == waits


# ---------------------------------------------------------------- twice, and at the same moment


def test_sent_twice_with_a_key_it_replaces_once_and_gives_the_same_job(who, waits):
    first, again = (replaced(who["alice"], waits, key="k", at=at) for at in (60, 61))
    assert again == Accepted(first.job_id, fresh=False)
    assert isinstance(replaced(who["alice"], waits, key="k", gpu_count=1), KeyConflict)


@pytest.mark.parametrize("meets", ["check", "create"])
def test_sent_twice_at_the_same_moment_with_a_key_both_are_given_the_one_job(who, waits, meets, monkeypatch):
    first: list[object] = []

    def another_was_faster(*args, inside=jobs.check, place=replacing.new_place, **kw):
        monkeypatch.undo()
        first.append(replaced(who["alice"], waits, key="k"))
        return inside(*args, **kw) if meets == "check" else place(*args, **kw)

    monkeypatch.setattr(*((jobs, "check") if meets == "check" else (replacing, "new_place")), another_was_faster)
    assert replaced(who["alice"], waits, key="k") == Accepted(first[0].job_id, fresh=False)
    assert Job.objects.count() == 2


def test_when_the_scheduler_starts_the_old_job_first_the_new_one_is_refused_and_nothing_is_cancelled(
    who, waits, monkeypatch
):
    def meanwhile(*args, place=replacing.new_place):
        b.ticked(b.later(59))
        return place(*args)

    monkeypatch.setattr(replacing, "new_place", meanwhile)
    code, message = refusal(who["alice"], waits)
    assert (code, "has started" in message) == ("already_started", True)
    assert list(Job.objects.order_by("submitted_at").values_list("state", flat=True)) == ["DISPATCHING", "REJECTED"]
    assert unlawful() == []


def test_when_the_old_job_is_replaced_before_its_start_is_written_that_start_is_not(who, waits):
    held = tick.lead("test", b.NOON)
    decided = tick.Ticker().kept.decide(b.NOON, epoch=held.epoch)
    assert [start.job for start in decided.plan.starts] == [waits]
    new = taken(who["alice"], waits, at=0.5)
    applied = tick.commit(decided.plan, decided.policy, held, b.later(1))
    assert (applied.started, len(applied.stale), Job.objects.get(pk=waits).state) == ([], 1, "CANCELLED")
    b.ticked(b.later(2))
    assert (Job.objects.get(pk=new.pk).state, unlawful()) == ("DISPATCHING", [])


@pytest.mark.django_db(transaction=True)
def test_of_a_start_and_a_replacement_at_the_same_moment_one_wins_and_both_are_told():
    who = b.people()
    b.node("n1")
    jobs_there = [b.submitted(who["alice"], b.command_body(gpu_count=1, max_duration="1h")) for _ in range(4)]
    answers: dict[str, object] = {}
    together = threading.Barrier(2)

    def replaces() -> None:
        together.wait(30)
        for job in jobs_there:
            answers[job] = replaced(who["alice"], job, gpu_count=1, at=1)
        connection.close()

    thread = threading.Thread(target=replaces)
    thread.start()
    together.wait(30)
    b.ticked(b.later(1))
    thread.join(30)
    for job, answer in answers.items():
        old = Job.objects.get(pk=job)
        won = isinstance(answer, Accepted)
        assert (won, old.state) in [(True, "CANCELLED"), (False, "DISPATCHING")]
        assert Job.objects.filter(replaces=old).count() == won
    assert (len(answers), unlawful()) == (4, [])


def test_one_job_is_replaced_by_one_alone_whoever_writes(who, waits):
    taken(who["alice"], waits)
    other = b.submitted(who["alice"], b.command_body())
    with pytest.raises(IntegrityError), transaction.atomic():
        Job.objects.filter(pk=other).update(replaces=waits)


def test_gpus_that_were_being_freed_for_the_old_job_are_freed_for_the_one_in_its_place():
    lab, low = b.full_lab()
    urgent = {"priority": "Critical", "purpose": "regression_gate"}
    old = b.submitted(lab.who["admin"], b.merge_body(lab.models, **urgent), now=b.later(600))
    b.ticked(b.later(601))
    body = b.merge_body(lab.models, gpu_count=1, nvlink_required=False, replaces=old, **urgent)
    new = b.submitted(lab.who["admin"], body, now=b.later(602))
    b.finished(low, "PREEMPTED", exit_code=85, why="preempt", now=b.later(603))
    b.ticked(b.later(604))
    assert list(Nomination.objects.values_list("job")) == []
    assert {str(job): state for job, state in Job.objects.values_list("pk", "state")} == {
        low.job: "QUEUED", old: "CANCELLED", new: "DISPATCHING",
    }  # fmt: skip
    with connection.cursor() as cursor:
        assert check_database(cursor, now=b.later(605).timestamp()) == []


# ---------------------------------------------------------------- the scheduler that is kept


class Replacing(House):
    """Where jobs often take the places of others."""

    def something(self) -> None:
        job = self.some("QUEUED", "HELD") if self.dice.random() < 0.4 else None
        if job is None:
            return super().something()
        self.seconds += 0.001
        body = jobs.body_again(str(job.pk), self.who["admin"]) | {"replaces": str(job.pk), "start_by": None}
        body |= self.dice.choice(
            [{}, {"gpu_count": 1}, {"max_duration": 30}, {"priority": "Low"}, {"not_before": None}, {"group": "g"}]
        )
        owner = self.who[job.user.get_username()]
        self.answers.append(jobs.submit(body, owner, self.now))
        return None


@pytest.mark.parametrize("urgent", [False, True])
def test_at_any_point_the_kept_scheduler_plans_with_the_places_taken_what_one_built_anew_plans(urgent):
    house = Replacing(7, urgent=urgent)
    house.answers = []
    for _ in range(20):
        for _ in range(house.dice.randint(0, 4)):
            house.something()
        house.pass_time()
        kept, anew = house.tick()
        assert kept == anew
    assert (sum(isinstance(each, Accepted) for each in house.answers) > 3, house.rebuilt < 20) == (True, True)


def test_an_old_place_is_taken_without_building_the_scheduler_anew(who, waits):
    kept = tick.Ticker().kept
    assert kept.decide(b.later(1), epoch=1).anew
    b.submitted(who["bob"], b.command_body(project="beta", gpu_count=1), now=b.later(2))
    second = taken(who["alice"], b.submitted(who["alice"], b.command_body(**FULL), now=b.later(3)), at=4)
    decided = kept.decide(b.later(5), epoch=1)
    assert (decided.anew, decided.scheduler.waiting_job(str(second.pk)).submitted_ms) == (False, to_ms(b.later(3)))
