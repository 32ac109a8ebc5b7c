"""One job over many values: a job for each, of which so many run at a time as was asked."""

from __future__ import annotations

import pytest

from scheduling.models import Attempt, Event, Job, JobSet
from scheduling.services import jobs, pool, sets, sweeps, tick
from scheduling.services.sets import Made, SetRefused
from scheduling.store import load_jobs
from scheduling.store.queries import jobs as queries
from tests import builders as b

pytestmark = pytest.mark.django_db
T = [round(i / 10, 1) for i in range(1, 10)]


@pytest.fixture
def made():
    """People, a node with 4 GPUs, and two models."""
    return b.lab()


def body(made, over=None, **kw):
    return {"job": b.merge_body(made.models, gpu_count=1, name="slerp"), "over": over or {"params.t": T}, **kw}


def submitted(made, sent, now=b.NOON, **kw):
    """The jobs of the sweep in their order."""
    result = sweeps.submit(sent, made.who["alice"], now, **kw)
    assert isinstance(result, Made), result
    return list(Job.objects.filter(member_of=result.set_id).order_by("place_in_set"))


def refused(made, sent, who="alice"):
    result = sweeps.submit(sent, made.who[who], b.NOON)
    assert isinstance(result, SetRefused), result
    assert JobSet.objects.count() == 0
    return result.errors


def fault(made, sent):
    (error,) = refused(made, sent)
    return error


def at_work(rows):
    """How many of the jobs are in the queue or have GPUs."""
    found = Job.objects.filter(pk__in=[row.pk for row in rows]).values_list("state", "kept_back")
    return sum(not kept and state in ("QUEUED", "DISPATCHING", "RUNNING", "PREEMPTING") for state, kept in found)


def started(job, at=0):
    """The job's attempt is claimed and has started."""
    attempt = Attempt.objects.get(job_id=job.pk, ended_at__isnull=True)
    launch = pool.claim("n1", str(attempt.pk), attempt.epoch, b.later(at))
    report = {"type": "started", "attempt": str(attempt.pk), "epoch": attempt.epoch, "pid": 1}
    b.beat(now=b.later(at), reports=[report])
    return b.Running(str(job.pk), str(attempt.pk), attempt.epoch, "n1", launch["gpus"])


def test_there_is_a_job_for_each_value_with_its_name_and_place(made):
    rows = submitted(made, body(made))
    assert [row.params["t"] for row in rows] == T
    assert [(row.name, row.key) for row in rows][:2] == [("slerp t=0.1", "1"), ("slerp t=0.2", "2")]
    assert {row.state for row in rows} == {"QUEUED"}
    assert len({row.work_key for row in rows}) == 9
    assert (JobSet.objects.get().kind, JobSet.objects.get().max_running) == ("sweep", None)


def test_several_fields_make_every_combination_the_last_one_fastest(made):
    rows = submitted(made, body(made, {"params.t": [0.1, 0.2], "gpu_count": [1, 2, 3]}))
    assert [(row.params["t"], row.gpu_count) for row in rows] == [
        (0.1, 1), (0.1, 2), (0.1, 3), (0.2, 1), (0.2, 2), (0.2, 3),
    ]  # fmt: skip
    assert rows[-1].name == "slerp t=0.2 gpu_count=3"


def test_a_value_may_lie_deep_in_an_object_or_a_list(made):
    job = b.command_body(params={"argv": ["train.py", "--lr", "0"]}, gpu_count=1)
    rows = submitted(made, {"job": job, "over": {"params.argv.2": ["0.1", "0.2"], "params.env.SEED": ["1"]}})
    assert [row.params["argv"][2] for row in rows] == ["0.1", "0.2"]
    assert {row.params["env"]["SEED"] for row in rows} == {"1"}


def test_a_long_name_is_cut(made):
    sent = body(made)
    sent["job"]["name"] = "n" * 97
    assert {len(row.name) for row in submitted(made, sent)} == {100}


# How many at a time


def test_so_many_as_asked_are_in_the_queue_and_the_rest_say_why(made):
    rows = submitted(made, body(made, max_running=2))
    assert (at_work(rows), [row.kept_back for row in rows]) == (2, [False] * 2 + [True] * 7)
    assert len(load_jobs.waiting(b.NOON)) == 2
    told = queries.as_dict(queries.one(made.who["alice"], str(rows[2].pk)), now=b.NOON)
    assert told["reasons"] == [
        {"code": "SWEEP_LIMIT", "message": "Waits for jobs of its sweep, of which at most 2 may run at a time, to end "
         "first.", "numbers": {"max_running": 2}}
    ]  # fmt: skip
    assert (told["scores"]["project"], told["sweep"], told["pipeline"], told["key"]) == (
        None, str(rows[0].member_of_id), None, "3",
    )  # fmt: skip


def test_never_more_than_that_run_until_all_have(made):
    rows = submitted(made, body(made, {"params.t": T[:5]}, max_running=2))
    ticker = tick.Ticker()
    seen = []
    for at in range(1, 40):
        tick.run_tick("test", b.later(at), ticker)
        seen.append(at_work(rows))
        granted = Job.objects.filter(state="DISPATCHING").order_by("place_in_set").first()
        if granted is not None:
            b.finished(started(granted, at), now=b.later(at))
    assert (max(seen), set(Job.objects.values_list("state", flat=True))) == (2, {"SUCCEEDED"})


def test_one_that_is_cancelled_makes_place_for_the_next(made):
    rows = submitted(made, body(made, max_running=2))
    ticker = tick.Ticker()
    tick.run_tick("test", b.later(1), ticker)
    jobs.cancel(str(rows[0].pk), made.who["alice"], b.later(2))
    tick.run_tick("test", b.later(3), ticker)
    assert not Job.objects.get(pk=rows[2].pk).kept_back
    event = Event.objects.filter(object_id=str(rows[2].pk)).last()
    assert (event.type, event.message) == ("eligible", "one of the 2 of its sweep that may run at a time")
    tick.run_tick("test", b.later(4), ticker)
    assert Job.objects.get(pk=rows[2].pk).state == "DISPATCHING"


def test_one_that_is_held_makes_place_and_waits_its_turn_when_it_is_released(made):
    rows = submitted(made, body(made, max_running=1))
    ticker = tick.Ticker()
    jobs.hold(str(rows[0].pk), made.who["alice"], b.later(1))
    tick.run_tick("test", b.later(2), ticker)
    assert [row.kept_back for row in Job.objects.order_by("place_in_set")][:3] == [False, False, True]
    jobs.hold(str(rows[0].pk), made.who["alice"], b.later(3), release=True)
    assert (Job.objects.get(pk=rows[0].pk).kept_back, at_work(rows)) == (True, 1)
    tick.run_tick("test", b.later(4), ticker)
    assert at_work(rows) == 1


def test_a_held_one_that_is_kept_back_is_not_let_in(made):
    rows = submitted(made, body(made, {"params.t": T[:2]}, max_running=1))
    jobs.hold(str(rows[1].pk), made.who["alice"], b.later(1))
    jobs.cancel(str(rows[0].pk), made.who["alice"], b.later(2))
    b.ticked(b.later(3))
    assert Job.objects.get(pk=rows[1].pk).kept_back


def test_all_of_them_may_wait_for_a_job_first(made):
    before = b.submitted(made.who["alice"], b.command_body(gpu_count=4))
    sent = body(made, max_running=2)
    sent["job"]["after"] = [before]
    rows = submitted(made, sent)
    assert {(row.awaits, row.kept_back) for row in rows} == {(1, True)}
    b.ticked()
    b.finished(started(Job.objects.get(pk=before)))
    b.ticked(b.later(1))
    assert at_work(rows) == 2


def test_without_a_limit_all_are_in_the_queue(made):
    assert at_work(submitted(made, body(made))) == 9


# Refused


def test_a_million_is_refused_with_the_limit_before_anything_is_built(made, monkeypatch):
    monkeypatch.setattr(sweeps, "_children", None)
    hundred = [i / 100 for i in range(100)]
    error = fault(made, body(made, {"params.t": hundred, "params.seed": hundred, "max_duration": hundred}))
    assert (error["field"], error["code"], error["limit"]) == ("over", "too_many", 1000)
    assert error["message"] == (
        "a sweep has at most 1000 jobs, not 100 x 100 x 100 = 1000000; give fewer values, or several sweeps"
    )
    error = fault(made, body(made, {"params.t": list(range(10**6))}))
    assert "at most 1000 jobs, not 1000000; give" in error["message"]


def test_a_fault_of_all_is_told_once_and_one_of_a_value_with_its_place(made):
    sent = body(made, {"params.t": [0.5, 7, 0.6, -1]})
    sent["job"]["gpu_count"] = 0
    found = [(each["field"], each["code"]) for each in refused(made, sent)]
    assert found == [("job.gpu_count", "out_of_range"), ("over.params.t.1", "out_of_range"),
                     ("over.params.t.3", "out_of_range")]  # fmt: skip


def test_no_more_than_fifty_faults_are_told(made):
    assert len(refused(made, body(made, {"params.t": list(range(2, 200))}))) == 50


@pytest.mark.parametrize("most", [0, -1, 1001, 1.5, True, "3", [], 10**400])
def test_a_limit_that_is_none_is_refused(made, most):
    error = fault(made, body(made, max_running=most))
    assert (error["field"], error["code"], error["limit"]) == ("max_running", "out_of_range", 1000)


@pytest.mark.parametrize(
    "path",
    ["", "params", "params.", ".t", "kind", "project", "name", "after", "replaces", "job.t", "gpu_count.x", "x" * 201],
)
def test_a_path_that_is_none_is_refused(made, path):
    assert fault(made, body(made, {path: [1, 2]}))["code"] == "bad_path"


def test_an_unknown_field_is_refused_as_in_any_job(made):
    found = [(each["field"], each["code"]) for each in refused(made, body(made, {"gpu_cuont": [1]}))]
    assert found == [("job.gpu_cuont", "unknown_field")] or found == [("over.gpu_cuont.0", "unknown_field")]


@pytest.mark.parametrize("values", [None, [], 7, "0.1", {"a": 1}])
def test_values_that_are_no_list_are_refused(made, values):
    error = fault(made, body(made, {"params.t": values}))
    assert (error["field"], error["code"]) == ("over.params.t", "not_a_list")


def test_a_value_that_is_there_twice_is_refused(made):
    error = fault(made, body(made, {"params.t": [0.1, 0.2, 0.1]}))
    assert (error["field"], error["code"]) == ("over.params.t.2", "duplicate")


def test_a_path_through_what_is_no_object_is_refused(made):
    for path in ("params.models.9", "params.strategy.x"):
        assert fault(made, body(made, {path: ["a"]}))["code"] == "no_place"


def test_too_many_fields_are_refused(made):
    error = fault(made, body(made, {f"params.p{i}": [1] for i in range(9)}))
    assert (error["field"], error["code"], error["limit"]) == ("over", "too_many", 8)


@pytest.mark.parametrize("over", [None, {}, [], "params.t", 7])
def test_without_values_it_is_refused(made, over):
    assert fault(made, {**body(made), "over": over})["code"] == "required"


def test_every_fault_of_the_sweep_itself_at_once(made):
    found = refused(made, {"job": 7, "ovr": {}, "max_running": 0})
    assert [each["field"] for each in found] == ["ovr", "job", "over", "max_running"]


def test_a_sweep_replaces_none(made):
    other = b.submitted(made.who["alice"], b.command_body(gpu_count=4))
    sent = body(made)
    sent["job"]["replaces"] = other
    assert [(each["field"], each["code"]) for each in refused(made, sent)] == [("job.replaces", "not_here")]


def test_another_projects_models_are_refused_as_missing(made):
    sent = body(made)
    sent["job"]["project"] = "beta"
    assert {each["code"] for each in refused(made, sent, who="bob")} == {"no_such_artifact"}


# All of them


def test_as_many_as_the_limit_are_stored(made):
    rows = submitted(made, body(made, {"params.t": [i / 1000 for i in range(1000)]}, max_running=8))
    assert (len(rows), at_work(rows)) == (1000, 8)


def test_the_list_has_those_of_the_sweep(made):
    rows = submitted(made, body(made))
    b.submitted(made.who["alice"], b.command_body())
    wanted = {"sweep": str(rows[0].member_of_id)}
    assert queries.filtered(made.who["alice"], wanted).count() == 9
    assert queries.filtered(made.who["bob"], wanted).count() == 0
    assert queries.filtered(made.who["alice"], {"pipeline": wanted["sweep"]}).count() == 0


def test_cancelling_all_leaves_none_and_starts_none_meanwhile(made):
    rows = submitted(made, body(made, max_running=2))
    b.ticked()
    run = started(rows[0])
    assert sets.cancel(str(rows[0].member_of_id), "sweep", made.who["alice"], b.later(1)) == 9
    b.finished(run, "CANCELLED", why="cancel", now=b.later(2))
    b.ticked(b.later(3))
    assert set(Job.objects.values_list("state", flat=True)) == {"CANCELLED"}
    assert Attempt.objects.count() == 2


def test_a_retry_stands_for_its_job_in_the_sweep_and_waits_its_turn(made):
    rows = submitted(made, body(made, {"params.t": T[:3]}, max_running=1))
    jobs.cancel(str(rows[0].pk), made.who["alice"], b.later(1))
    b.ticked(b.later(2))
    again = Job.objects.get(pk=jobs.retry(str(rows[0].pk), made.who["alice"], b.later(3)).job_id)
    assert (again.member_of_id, again.key, again.kept_back) == (rows[0].member_of_id, "1", True)
    assert at_work([*rows, again]) == 1


def test_a_retry_in_a_pipeline_is_waited_for_by_the_retries_of_the_rest(made):
    set_id = b.a_set(made.who["alice"], "pipeline")
    first, second = Job.objects.filter(member_of=set_id).order_by("place_in_set")
    jobs.cancel(str(first.pk), made.who["alice"], b.later(1))
    retried = [Job.objects.get(pk=jobs.retry(str(job.pk), made.who["alice"], b.later(2)).job_id)
               for job in (first, second)]  # fmt: skip
    assert [(job.key, job.awaits, str(job.member_of_id)) for job in retried] == [("a", 0, set_id), ("b", 1, set_id)]


def test_one_that_is_kept_back_at_its_latest_start_is_cancelled(made):
    sent = body(made, max_running=2)
    sent["job"]["start_by"] = b.later(60).isoformat()
    rows = submitted(made, sent)
    b.ticked()
    b.ticked(b.later(60))
    found = [Job.objects.get(pk=row.pk) for row in rows[2:]]
    assert {(job.state, job.error) for job in found} == {("CANCELLED", "start_by has passed")}
