"""A job that waits for others: in no queue until these have succeeded, gone with them when they did not."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from django.db import connection

from scheduling.models import Artifact, Attempt, Event, Job, Membership, Predecessor
from scheduling.services import jobs, pool, tick, whatif
from scheduling.services.jobs import Refused
from scheduling.store import load_jobs
from scheduling.store.commit import deleting
from scheduling.store.queries import jobs as queries
from tests import builders as b

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab():
    """The lab, with a merge of alice's running on 2 of 4 GPUs."""
    return b.busy_lab()


def after(made, *ids, now=1, **kw):
    """A job of alice's that waits for those; returns its id."""
    return b.submitted(made.who["alice"], b.command_body(after=list(ids), **kw), now=b.later(now))


def refused(made, body, who="alice"):
    result = jobs.submit(body, made.who[who], b.later(1))
    assert isinstance(result, Refused), result
    return [(each["field"], each["code"], each["message"]) for each in result.errors]


def told(made, job):
    """The job as REST tells of it."""
    return queries.as_dict(queries.one(made.who["alice"], job), now=b.later(1))


def succeeded(run, at=10, *, name="merged", content=None, kind="model"):
    """The job has succeeded with one artifact; returns its id."""
    made = b.output(run, name, content, kind=kind, now=b.later(at))
    assert b.finished(run, artifacts=[made], now=b.later(at))["ok"]
    return made


def state(job):
    return Job.objects.get(pk=job).state


def last(job):
    return Event.objects.filter(object_id=job).order_by("-id").first()


# In no queue


def test_it_waits_queued_and_says_for_which_and_how_they_stand(lab):
    made, run = lab
    job = after(made, run.job)
    row = told(made, job)
    assert (row["state"], row["after"], row["after_any"], row["scores"]["project"]) == (
        "QUEUED",
        [run.job],
        False,
        None,
    )
    assert row["reasons"] == [
        {"code": "AFTER", "message": "Waits for one job to succeed first: slerp-a-b (running).",
         "numbers": {"after": 1, "open": 1}}
    ]  # fmt: skip
    assert Event.objects.get(object_id=job, type="submitted").message.endswith("; it waits for 1 other job")


def test_the_cycle_does_not_look_at_it_and_others_take_the_gpus(lab):
    made, run = lab
    first = after(made, run.job, priority="High")
    assert load_jobs.waiting(b.later(2)) == ()
    second = b.submitted(made.who["alice"], b.command_body(priority="Low"), now=b.later(2))
    result = b.ticked(b.later(3))
    assert (result.waiting, state(first), state(second)) == (0, "QUEUED", "DISPATCHING")


def test_it_becomes_eligible_with_the_success_and_the_next_pass_of_the_kept_scheduler_starts_it(lab):
    made, run = lab
    ticker = tick.Ticker()
    job = after(made, run.job)
    tick.run_tick("test", b.later(2), ticker)
    succeeded(run)
    row = Job.objects.get(pk=job)
    assert (row.awaits, row.version) == (0, 2)
    assert (last(job).type, last(job).message) == (
        "eligible", f"slerp-a-b (job {run.job}) has ended; it is placed like any other from now on",
    )  # fmt: skip
    tick.run_tick("test", b.later(11), ticker)
    assert state(job) == "DISPATCHING"


def test_of_several_the_last_one_counts(lab):
    made, run = lab
    other = b.running(made.who["alice"], made.models, now=b.later(1), name="other")
    job = after(made, run.job, other.job, now=2)
    assert told(made, job)["reasons"][0]["message"] == (
        "Waits for 2 of 2 jobs to succeed first: slerp-a-b (running) and other (running)."
    )
    succeeded(run)
    assert told(made, job)["reasons"][0]["message"] == "Waits for 1 of 2 jobs to succeed first: other (running)."
    assert (last(job).type, last(job).data) == ("after_ended", {"open": 1})
    succeeded(other, 11, content=b.tensors(10))
    assert Job.objects.get(pk=job).awaits == 0


def test_what_has_succeeded_already_is_not_waited_for(lab):
    made, run = lab
    succeeded(run)
    job = after(made, run.job, now=11)
    b.ticked(b.later(12))
    assert state(job) == "DISPATCHING"


def test_one_is_awaited_at_most_once_however_often_it_is_named(lab):
    made, run = lab
    job = after(made, run.job, run.job.upper())
    assert (Job.objects.get(pk=job).awaits, Predecessor.objects.count()) == (1, 1)


def test_more_than_five_are_counted(lab):
    made, _ = lab
    many = [b.submitted(made.who["alice"], b.command_body(name=f"j{i}")) for i in range(7)]
    job = after(made, *many)
    message = told(made, job)["reasons"][0]["message"]
    assert message.endswith(": j0 (queued), j1 (queued), j2 (queued), j3 (queued), j4 (queued) and 2 more.")


# An end that is none to go on from


@pytest.mark.parametrize("outcome", ["FAILED", "TIMED_OUT"])
def test_when_one_ends_otherwise_it_is_cancelled_with_the_reason_and_so_is_what_waits_for_it(lab, outcome):
    made, run = lab
    job = after(made, run.job, name="second")
    third = after(made, job)
    b.finished(run, outcome, exit_code=1, error="boom", now=b.later(10))
    row, rest = Job.objects.get(pk=job), Job.objects.get(pk=third)
    assert (row.state, row.outcome) == ("CANCELLED", "CANCELLED")
    assert row.error == f"slerp-a-b (job {run.job}) ended {outcome}, and was to succeed before this one"
    assert rest.error == f"second (job {job}) ended CANCELLED, and was to succeed before this one"
    assert last(job).data == {
        "from": "QUEUED", "to": "CANCELLED", "cause": "after", "after": run.job, "ended": outcome,
    }  # fmt: skip


def test_after_any_end_will_do(lab):
    made, run = lab
    job = after(made, run.job, after_any=True)
    assert told(made, job)["reasons"][0]["message"] == "Waits for one job to end first: slerp-a-b (running)."
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.later(10))
    b.ticked(b.later(11))
    assert state(job) == "DISPATCHING"


def test_a_job_that_goes_back_to_the_queue_has_not_ended(lab):
    made, run = lab
    job = after(made, run.job)
    b.finished(run, "LOST", now=b.later(10))
    assert (state(run.job), state(job), Job.objects.get(pk=job).awaits) == ("QUEUED", "QUEUED", 1)


def test_cancelling_the_one_before_cancels_it_and_cancelling_it_leaves_that_alone(lab):
    made, run = lab
    waits = b.submitted(made.who["alice"], b.command_body(gpu_count=4))
    first, second = after(made, waits), after(made, run.job)
    jobs.cancel(waits, made.who["alice"], b.later(2))
    jobs.cancel(second, made.who["alice"], b.later(2))
    assert (state(first), state(second), state(run.job)) == ("CANCELLED", "CANCELLED", "RUNNING")


def test_a_diamond_ends_once(lab):
    made, run = lab
    left, right = after(made, run.job), after(made, run.job)
    end = after(made, left, right, run.job)
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.later(10))
    assert [state(job) for job in (left, right, end)] == ["CANCELLED"] * 3
    assert Event.objects.filter(object_id=end, type="cancelled").count() == 1


# Held, and too late


def test_held_it_is_counted_down_all_the_same_and_starts_only_when_released(lab):
    made, run = lab
    job = after(made, run.job)
    jobs.hold(job, made.who["alice"], b.later(2))
    succeeded(run)
    b.ticked(b.later(11))
    assert (state(job), Job.objects.get(pk=job).awaits) == ("HELD", 0)
    jobs.hold(job, made.who["alice"], b.later(12), release=True)
    b.ticked(b.later(13))
    assert state(job) == "DISPATCHING"


def test_released_before_the_other_has_ended_it_waits_on(lab):
    made, run = lab
    job = after(made, run.job)
    jobs.hold(job, made.who["alice"], b.later(2))
    jobs.hold(job, made.who["alice"], b.later(3), release=True)
    b.ticked(b.later(4))
    assert told(made, job)["reasons"][0]["code"] == "AFTER"


def test_held_it_is_cancelled_with_the_one_before(lab):
    made, run = lab
    job = after(made, run.job)
    jobs.hold(job, made.who["alice"], b.later(2))
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.later(10))
    assert state(job) == "CANCELLED"


def test_while_the_one_before_is_held_it_waits(lab):
    made, _ = lab
    before = b.submitted(made.who["alice"], b.command_body())
    jobs.hold(before, made.who["alice"], b.NOON)
    assert told(made, after(made, before))["reasons"][0]["message"].endswith("train (held).")


def test_that_still_waits_for_others_at_its_latest_start_is_cancelled(lab):
    made, run = lab
    job = after(made, run.job, start_by=b.later(60).isoformat())
    b.ticked(b.later(59))
    assert state(job) == "QUEUED"
    b.ticked(b.later(60))
    row = Job.objects.get(pk=job)
    assert (row.state, row.error) == ("CANCELLED", "start_by has passed")
    assert last(job).message == "start_by has passed, and it still waited for others"


def test_held_it_is_not_cancelled_at_its_latest_start(lab):
    made, run = lab
    job = after(made, run.job, start_by=b.later(60).isoformat())
    jobs.hold(job, made.who["alice"], b.later(2))
    b.ticked(b.later(61))
    assert state(job) == "HELD"


# What is refused


def test_a_job_there_is_not_and_one_of_another_project_are_refused_alike(lab):
    made, run = lab
    missing = str(uuid4())
    bodies = [b.command_body(project="beta", after=[each]) for each in (run.job, missing)]
    foreign, unknown = (refused(made, body, who="bob")[0] for body in bodies)
    assert foreign[:2] == unknown[:2] == ("after.0", "unknown_job")
    assert foreign[2].replace(run.job, "X") == unknown[2].replace(missing, "X")
    assert unknown[2] == f"there is no job '{missing}' in your projects that this one could wait for; remove it"


def test_one_that_has_not_succeeded_is_refused_unless_any_end_will_do(lab):
    made, run = lab
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.NOON)
    assert refused(made, b.command_body(after=[run.job])) == [
        ("after.0", "did_not_succeed", f"job {run.job} has ended FAILED, so that this one would never start: remove "
         "it, retry it and name the new job, or set after_any if any end will do")
    ]  # fmt: skip
    job = after(made, run.job, after_any=True)
    assert Job.objects.get(pk=job).awaits == 0


def test_a_refused_job_is_never_waited_for(lab):
    made, _ = lab
    wrong = jobs.submit(b.command_body(gpu_count=0), made.who["alice"], b.NOON).job_id
    found = refused(made, b.command_body(after=[str(wrong)], after_any=True))
    assert found == [
        ("after.0", "never_accepted", f"job {wrong} was refused, so that it will never succeed; remove it")
    ]


def test_every_one_is_told_with_its_place_and_every_other_fault(lab):
    made, run = lab
    found = refused(made, b.command_body(after=[str(uuid4()), run.job, "x", str(uuid4())], gpu_count=0))
    assert {field for field, *_ in found} == {"after.0", "after.2", "after.3", "gpu_count"}


def test_a_chain_has_an_end(lab):
    made, run = lab
    Job.objects.filter(pk=run.job).update(depth=998)
    deep = after(made, run.job)
    assert Job.objects.get(pk=deep).depth == 999
    assert refused(made, b.command_body(after=[deep])) == [
        ("after", "too_long_a_chain", "jobs may wait for each other in a chain of at most 1000; let this one wait for "
         "an earlier one")
    ]  # fmt: skip


def test_what_ends_between_check_and_commit_is_looked_at_again(lab, monkeypatch):
    made, run = lab
    check, calls = jobs.check, []

    def ends_meanwhile(*args):
        found = check(*args)
        if not calls:
            b.finished(run, "FAILED", exit_code=1, error="boom", now=b.NOON)
        calls.append(found)
        return found

    monkeypatch.setattr(jobs, "check", ends_meanwhile)
    assert [code for _, code, _ in refused(made, b.command_body(after=[run.job]))] == ["did_not_succeed"]
    assert len(calls) == 2


def test_what_succeeds_between_check_and_commit_is_read(lab, monkeypatch):
    made, run = lab
    check, calls = jobs.check, []

    def ends_meanwhile(*args):
        found = check(*args)
        if not calls:
            succeeded(run, 0)
        calls.append(found)
        return found

    monkeypatch.setattr(jobs, "check", ends_meanwhile)
    job = after(made, run.job, params={"argv": ["true"], "inputs": {"net": f"@{run.job}"}})
    row = Job.objects.get(pk=job)
    assert (row.awaits, [each["as"] for each in row.spec["inputs"]]) == (0, ["net"])


# Outputs as inputs


def test_an_output_becomes_an_input_when_it_is_there_and_is_launched_with(lab):
    made, run = lab
    job = after(made, run.job, params={"argv": ["true"], "inputs": {"net": f"@{run.job}"}})
    assert (Job.objects.get(pk=job).spec["inputs"], Job.objects.get(pk=job).work_key) == ([], "")
    output = succeeded(run)
    assert [(each["artifact"], each["as"]) for each in Job.objects.get(pk=job).spec["inputs"]] == [(output, "net")]
    b.ticked(b.later(11))
    wanted = next(each for each in b.beat(now=b.later(11))["desired"])
    launch = jobs_launch(wanted, 12)
    assert [(each["artifact"], each["as"]) for each in launch["inputs"]] == [(output, "net")]


def jobs_launch(wanted, at):
    return pool.claim("n1", wanted["attempt"], wanted["epoch"], b.later(at))


def test_an_output_is_named_where_there_are_several(lab):
    made, _ = lab
    run = started(made)
    named = after(made, run.job, params={"argv": ["true"], "inputs": {"x": f"@{run.job}/table"}})
    alone = after(made, run.job, params={"argv": ["true"], "inputs": {"x": f"@{run.job}"}})
    none = after(made, run.job, params={"argv": ["true"], "inputs": {"x": f"@{run.job}/chair"}})
    outputs = [
        b.output(run, name, content, kind="dataset", now=b.later(9))
        for name, content in (("table", b"1"), ("lamp", b"2"))
    ]
    b.finished(run, artifacts=outputs, now=b.later(10))
    assert Job.objects.get(pk=named).spec["inputs"][0]["artifact"] == outputs[0]
    rows = [Job.objects.get(pk=each) for each in (alone, none)]
    assert [(row.state, row.outcome, row.error) for row in rows] == [
        ("FAILED", "FAILED", f"job {run.job} has 2 outputs, so that one must be named (its outputs are lamp, table)"),
        ("FAILED", "FAILED", f"job {run.job} has no output called 'chair': its outputs are lamp, table"),
    ]


def started(made, **kw):
    """A program of alice's that runs on the 2 GPUs that are free."""
    job = b.submitted(made.who["alice"], b.command_body(name="program", **kw))
    b.ticked()
    attempt = Attempt.objects.get(job_id=job)
    launch = pool.claim("n1", str(attempt.pk), attempt.epoch, b.NOON)
    b.beat(reports=[{"type": "started", "attempt": str(attempt.pk), "epoch": attempt.epoch, "pid": 1}])
    return b.Running(job, str(attempt.pk), attempt.epoch, "n1", launch["gpus"])


def test_a_merge_of_what_a_merge_made_has_the_key_of_its_work_once_it_is_known(lab):
    made, run = lab
    body = b.merge_body([f"@{run.job}", made.models[0]], after=[run.job])
    job = b.submitted(made.who["alice"], body, now=b.later(1))
    kept = Job.objects.get(pk=job)
    assert ([each["as"] for each in kept.spec["inputs"]], kept.work_key) == (["model-1"], "")
    output = succeeded(run)
    kept = Job.objects.get(pk=job)
    assert [each["as"] for each in kept.spec["inputs"]] == ["model-0", "model-1"]
    again = b.submitted(made.who["alice"], b.merge_body([output, made.models[0]]), now=b.later(11))
    assert kept.work_key == Job.objects.get(pk=again).work_key != ""


def test_an_output_that_does_not_fit_fails_it_with_the_words_of_a_submission(lab):
    made, run = lab
    body = b.merge_body([f"@{run.job}", made.models[0]], after=[run.job])
    job = b.submitted(made.who["alice"], body, now=b.later(1))
    follows = after(made, job)
    content = b.tensors(3, {"fc.weight": (5, 3), "fc.bias": (4,)})
    output = succeeded(run, content=content)
    at_submission = refused(made, b.merge_body([output, made.models[0]]))[0][2]
    row = Job.objects.get(pk=job)
    assert (row.state, row.error) == ("FAILED", at_submission)
    assert "tensor 'fc.weight' is 5 x 3" in row.error
    assert (row.attempt_number, state(follows)) == (0, "CANCELLED")


def test_an_output_that_is_no_model_fails_a_merge(lab):
    made, _ = lab
    run = started(made)
    body = b.merge_body([f"@{run.job}", made.models[0]], after=[run.job])
    job = b.submitted(made.who["alice"], body, now=b.later(1))
    succeeded(run, kind="dataset", name="rows", content=b"1")
    assert Job.objects.get(pk=job).error == "'rows' is a dataset, not a model"


def test_without_the_job_in_after_its_output_is_refused(lab):
    made, run = lab
    found = refused(made, b.merge_body([f"@{run.job}", made.models[0]]))
    assert found == [
        ("params.models.0", "not_after", f"job {run.job} is not waited for: add its id to after, or name an artifact")
    ]


def test_a_merge_has_one_output_which_is_called_as_it_is(lab):
    made, run = lab
    found = refused(made, b.merge_body([f"@{run.job}/other", made.models[0]], after=[run.job]))
    message = f"job {run.job} will make one artifact, called 'slerp-a-b', and none called 'other': leave the name out"
    assert found == [("params.models.0", "no_such_output", message)]
    b.submitted(made.who["alice"], b.merge_body([f"@{run.job}/slerp-a-b", made.models[0]], after=[run.job]))


def test_what_else_is_wrong_with_the_inputs_is_told_at_once(lab):
    made, run = lab
    found = refused(made, b.merge_body([f"@{run.job}", "nothing"], after=[run.job]))
    assert [(field, code) for field, code, _ in found] == [("params.models.1", "no_such_artifact")]


def test_of_one_that_failed_there_is_no_output_whatever_end_will_do(lab):
    made, run = lab
    body = b.merge_body([f"@{run.job}", made.models[0]], after=[run.job], after_any=True)
    job = b.submitted(made.who["alice"], body, now=b.later(1))
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.later(10))
    assert Job.objects.get(pk=job).error == f"job {run.job} has ended FAILED and has no output"


def test_an_output_is_kept_while_another_is_waited_for(lab):
    made, run = lab
    other = b.running(made.who["alice"], made.models, now=b.later(1), name="other")
    body = b.merge_body([f"@{run.job}", f"@{other.job}"], after=[run.job, other.job])
    job = b.submitted(made.who["alice"], body, now=b.later(2))
    output = succeeded(run)
    assert [str(each) for each in deleting.delete(output, why="test", now=b.later(11), actor="test")] == [job]
    assert Artifact.objects.get(pk=output).deleted_at is None


def test_a_deleted_output_is_refused(lab):
    made, run = lab
    output = succeeded(run)
    assert deleting.delete(output, why="test", now=b.later(11), actor="test") == []
    found = refused(made, b.merge_body([f"@{run.job}", made.models[0]], after=[run.job]))
    assert found == [
        ("params.models.0", "deleted_artifact", f"{Artifact.objects.get(pk=output).name!r} was deleted: restore it on "
         "its page")
    ]  # fmt: skip


def test_an_input_by_name_stays_what_it_was_at_submission(lab):
    made, run = lab
    body = b.merge_body([f"@{run.job}", "a"], after=[run.job])
    job = b.submitted(made.who["alice"], body, now=b.later(1))
    b.model(made.who["alice"], "a", 77)
    succeeded(run)
    assert Job.objects.get(pk=job).spec["inputs"][1]["artifact"] == made.models[0]


# Replaced


def waiting_pair(made):
    """A job of all 4 GPUs that waits, and one that waits for it and reads its output."""
    first = b.submitted(made.who["alice"], b.command_body(gpu_count=4, name="first"))
    params = {"argv": ["true"], "inputs": {"net": f"@{first}"}}
    return first, after(made, first, name="second", params=params)


def test_what_waits_for_a_replaced_job_waits_for_the_new_one_and_reads_its_output(lab):
    made, _ = lab
    first, second = waiting_pair(made)
    body = b.command_body(name="newer", replaces=first)
    newer = b.submitted(made.who["alice"], body, now=b.later(2))
    assert (state(first), state(second)) == ("CANCELLED", "QUEUED")
    assert told(made, second)["reasons"][0]["message"] == "Waits for one job to succeed first: newer (queued)."
    assert last(second).message == f"first (job {first}) was replaced: it waits for newer (job {newer}) instead"
    assert told(made, second)["after"] == [first]
    b.ticked(b.later(3))
    attempt = Attempt.objects.get(job_id=newer)
    run = claimed(newer, attempt)
    output = succeeded(run)
    assert Job.objects.get(pk=second).spec["inputs"][0]["artifact"] == output


def claimed(job, attempt):
    launch = pool.claim("n1", str(attempt.pk), attempt.epoch, b.later(4))
    b.beat(now=b.later(4), reports=[{"type": "started", "attempt": str(attempt.pk), "epoch": attempt.epoch, "pid": 1}])
    return b.Running(job, str(attempt.pk), attempt.epoch, "n1", launch["gpus"])


def test_the_body_to_change_or_clone_names_the_new_one(lab):
    made, _ = lab
    first, second = waiting_pair(made)
    newer = b.submitted(made.who["alice"], b.command_body(name="newer", replaces=first), now=b.later(2))
    body = jobs.body_again(second, made.who["alice"])
    assert (body["after"], body["params"]["inputs"]) == ([newer], {"net": f"@{newer}"})


def test_a_replaced_job_is_refused_with_the_one_in_its_place(lab):
    made, _ = lab
    first, _ = waiting_pair(made)
    newer = b.submitted(made.who["alice"], b.command_body(name="newer", replaces=first), now=b.later(2))
    assert refused(made, b.command_body(after=[first])) == [
        ("after.0", "replaced", f"job {first} was replaced, now by newer (job {newer}): name that one")
    ]


def test_what_waits_is_replaced_by_what_waits_for_others(lab):
    made, run = lab
    _, second = waiting_pair(made)
    newer = after(made, run.job, replaces=second, name="newer")
    assert (state(second), Job.objects.get(pk=newer).awaits) == ("CANCELLED", 1)


def test_a_job_can_not_wait_for_the_one_whose_place_it_takes(lab):
    made, _ = lab
    first, _ = waiting_pair(made)
    found = refused(made, b.command_body(after=[first], replaces=first))
    message = f"job {first} is the one whose place this one takes: remove it here, or in replaces"
    assert found == [("after.0", "replaced", message)]


def test_a_circle_by_replacing_is_refused(lab):
    made, _ = lab
    first, second = waiting_pair(made)
    third = after(made, second)
    found = refused(made, b.command_body(after=[third], replaces=first))
    assert [each[:2] for each in found] == [("after.0", "circle")]
    assert found[0][2] == (
        f"job {third} waits for job {first}, whose place this one takes, so that both would wait for ever; remove it"
    )
    assert state(first) == "QUEUED"


def test_a_replacement_that_is_deeper_makes_what_follows_deeper(lab):
    made, run = lab
    first, second = waiting_pair(made)
    third = after(made, second)
    middle = after(made, run.job)
    newer = after(made, middle, replaces=first)
    depths = [Job.objects.get(pk=each).depth for each in (middle, newer, second, third)]
    assert depths == sorted(set(depths))


# Retried


def test_a_retry_waits_for_the_retry_of_what_failed_and_reads_its_output(lab):
    made, run = lab
    job = after(made, run.job, params={"argv": ["true"], "inputs": {"net": f"@{run.job}"}})
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.later(10))
    first = jobs.retry(run.job, made.who["alice"], b.later(11)).job_id
    second = jobs.retry(job, made.who["alice"], b.later(12)).job_id
    row = Job.objects.get(pk=second)
    assert (row.spec["after"], row.params["inputs"], row.awaits) == ([str(first)], {"net": f"@{first}"}, 1)


def test_a_retry_before_the_retry_of_what_failed_is_refused_and_says_what_to_do(lab):
    made, run = lab
    job = after(made, run.job)
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.later(10))
    answer = jobs.retry(job, made.who["alice"], b.later(12))
    assert isinstance(answer, Refused)
    assert [(each["field"], each["code"]) for each in answer.errors] == [("after.0", "did_not_succeed")]
    assert "retry it and name the new job" in answer.errors[0]["message"]


def test_a_job_that_ran_and_failed_is_retried_with_the_same_output(lab):
    made, run = lab
    job = after(made, run.job, params={"argv": ["true"], "inputs": {"net": f"@{run.job}"}})
    output = succeeded(run)
    jobs.cancel(job, made.who["alice"], b.later(11))
    row = Job.objects.get(pk=jobs.retry(job, made.who["alice"], b.later(12)).job_id)
    assert (row.awaits, row.spec["inputs"][0]["artifact"]) == (0, output)


# Who may know


def test_a_job_of_another_project_is_waited_for_without_its_name(lab):
    made, _ = lab
    theirs = b.submitted(made.who["bob"], b.command_body(project="beta", name="secret"))
    job = b.submitted(made.who["admin"], b.command_body(after=[theirs]), now=b.later(1))
    assert told(made, job)["reasons"][0]["message"] == "Waits for one job to succeed first: 1 of another project."
    jobs.cancel(theirs, made.who["bob"], b.later(2))
    row = Job.objects.get(pk=job)
    assert row.error == "a job of another project ended CANCELLED, and was to succeed before this one"
    assert "secret" not in "".join(Event.objects.filter(object_id=job).values_list("message", flat=True))


# What a plan says


def test_a_plan_says_what_it_would_wait_for_and_its_token_holds_until_that_has_ended(lab):
    made, run = lab
    body = b.command_body(after=[run.job])
    plan = whatif.plan(body, made.who["alice"], b.later(1))
    assert (plan.verdict, plan.start, plan.gpus, plan.gpu_hours) == ("later", None, (), 2.0)
    assert [each["message"] for each in plan.reasons] == [
        "It would wait for one job to succeed first: slerp-a-b (running)."
    ]
    assert whatif.broken_promise(plan.token, body, made.who["alice"], b.later(2)) is None
    succeeded(run)
    assert "circumstances have changed" in whatif.broken_promise(plan.token, body, made.who["alice"], b.later(11))


def test_a_plan_of_what_is_wrong_says_so(lab):
    made, _ = lab
    found = whatif.plan(b.command_body(after=[str(uuid4())]), made.who["alice"], b.later(1))
    assert [each["code"] for each in found.errors] == ["unknown_job"]


def test_whoever_has_left_the_project_since_still_gets_the_output(lab):
    made, run = lab
    job = after(made, run.job, params={"argv": ["true"], "inputs": {"net": f"@{run.job}"}})
    Membership.objects.filter(user_id=made.who["alice"].user_id).delete()
    output = succeeded(run)
    assert (Job.objects.get(pk=job).spec["inputs"][0]["artifact"], last(job).actor) == (output, "system")


# At the same moment


@pytest.mark.django_db(transaction=True)
def test_two_that_end_at_the_same_moment_leave_nobody_waiting():
    made, run = b.busy_lab()
    other = b.running(made.who["alice"], made.models, now=b.later(1), name="other")
    both = [after(made, run.job, other.job, now=2) for _ in range(4)]
    follow = [after(made, *both, now=3), after(made, *reversed(both), now=3)]
    outputs = {
        run.job: b.output(run, now=b.later(9)),
        other.job: b.output(other, content=b.tensors(10), now=b.later(9)),
    }
    together = threading.Barrier(2)
    answers = []

    def ends(one):
        together.wait(30)
        report = {"type": "finished", "attempt": one.attempt, "epoch": one.epoch, "outcome": "SUCCEEDED",
                  "exit_code": 0, "artifacts": [outputs[one.job]]}  # fmt: skip
        answers.append(b.beat(now=b.later(10), reports=[report]))
        connection.close()

    threads = [threading.Thread(target=ends, args=(one,)) for one in (run, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [answer["answers"][0]["ok"] for answer in answers] == [True, True]
    assert [Job.objects.get(pk=each).awaits for each in (*both, *follow)] == [0, 0, 0, 0, 4, 4]


@pytest.mark.django_db(transaction=True)
def test_a_chain_that_is_cancelled_from_both_ends_at_once_ends_once():
    made, run = b.busy_lab()
    middle = [after(made, run.job) for _ in range(6)]
    ends_ = [after(made, *middle[i:]) for i in range(5)]
    together = threading.Barrier(2)

    def from_the_middle():
        together.wait(30)
        for job in reversed(middle):
            jobs.cancel(job, made.who["alice"], b.later(10))
        connection.close()

    thread = threading.Thread(target=from_the_middle)
    thread.start()
    together.wait(30)
    b.finished(run, "FAILED", exit_code=1, error="boom", now=b.later(10))
    thread.join(60)
    for job in (*middle, *ends_):
        assert (state(job), Event.objects.filter(object_id=job, type="cancelled").count()) == ("CANCELLED", 1)
