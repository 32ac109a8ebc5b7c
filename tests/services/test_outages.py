"""Eight nodes at work while the server is away, or while they fall silent: what is taken back, and what is not."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from scheduling.models import Attempt, Event, Job, Node, SchedulerState
from scheduling.services import jobs, pool
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.access import Actor
from tests import builders as b
from tests.remembered import Remembered

pytestmark = pytest.mark.django_db

NAMES = tuple(f"n{i}" for i in range(1, 9))


@Remembered
def at_work() -> dict[str, Actor]:
    """Eight nodes of two GPUs, each with a job that fills it."""
    who = b.people()
    for name in NAMES:
        b.node(name, gpus=2)
    for n in range(len(NAMES)):
        b.submitted(who["alice"], b.command_body(name=f"train-{n}"))
    b.ticked()
    for name in NAMES:
        wanted = b.beat(name)["desired"][0]
        run = {"attempt": wanted["attempt"], "epoch": wanted["epoch"]}
        pool.claim(name, run["attempt"], run["epoch"], b.NOON)
        b.beat(name, reports=[{"type": "started", "pid": 1, **run}])
    return who


@pytest.fixture
def eight():
    who = at_work()
    assert attempts("RUNNING") == 8
    return who


def attempts(state: str) -> int:
    """How many first attempts go on with their job in this state."""
    return Attempt.objects.filter(ended_at__isnull=True, number=1, job__state=state).count()


def beats(at: float, names: Iterable[str] = NAMES) -> None:
    for name in names:
        b.beat(name, now=b.later(at))


def ticks(*moments: float) -> None:
    for at in moments:
        b.ticked(b.later(at))


def alarms() -> list[str]:
    return [alarm["code"] for alarm in SchedulerState.objects.get().alarms]


def test_thirty_seconds_without_the_server_end_nothing(eight):
    b.listening(10)
    beats(10)
    ticks(*range(12, 42, 2))  # the scheduler goes on; nobody accepts heartbeats
    b.listening(42, 41)
    beats(41)
    ticks(42)
    assert (attempts("RUNNING"), Event.objects.filter(type__in=["node_lost", "attempt_ended"]).count()) == (8, 0)


def test_after_an_outage_everybody_has_one_full_lease_and_only_who_does_not_return_in_it_is_lost(eight):
    b.listening(10)
    beats(10)
    b.listening(665, 610)
    beats(612, NAMES[:7])
    beats(650, NAMES[:7])
    ticks(611, 640, 669.9)
    assert attempts("RUNNING") == 8
    b.listening(672, 668)
    beats(671, NAMES[:7])
    ticks(672)
    lost = Node.objects.get(state="LOST")
    assert (lost.name, attempts("RUNNING"), Job.objects.filter(state="QUEUED").count()) == ("n8", 7, 1)


def test_an_outage_without_a_tick_of_the_scheduler_costs_nothing_either(eight):
    b.listening(10)
    beats(10)
    b.listening(3602, 3600)  # both were away for an hour
    beats(3601)
    ticks(3602)
    assert attempts("RUNNING") == 8


def test_when_five_of_eight_fall_silent_nothing_is_taken_back_and_the_board_says_so(eight):
    b.listening(100)
    for at in (20, 40, 60, 80, 100):
        beats(at, NAMES[5:])
    ticks(61, 80, 100)
    assert (attempts("RUNNING"), Node.objects.filter(state="LOST").count()) == (8, 0)
    assert alarms() == ["MASS_SILENCE"]


def test_nodes_that_come_back_from_a_mass_silence_go_on_with_their_jobs_and_the_alarm_ends(eight):
    b.listening(102)
    beats(100, NAMES[5:])
    ticks(100)
    beats(101)
    ticks(102)
    assert (attempts("RUNNING"), alarms()) == (8, [])


def test_after_a_mass_silence_who_comes_back_a_lease_after_the_first_has_lost_nothing_and_who_does_not_is_lost(eight):
    b.listening(102)
    beats(100, NAMES[5:])
    ticks(100)
    beats(101, NAMES[4:])
    ticks(102)
    assert (Node.objects.filter(state="LOST").count(), attempts("RUNNING"), alarms()) == (0, 8, ["MASS_SILENCE"])
    (alarm,) = SchedulerState.objects.get().alarms
    assert alarm["message"].startswith("4 nodes of those that fell silent together have not returned yet")
    b.listening(163)
    beats(140, NAMES[1:])
    ticks(141, 161)
    assert (Node.objects.filter(state="LOST").count(), attempts("RUNNING"), alarms()) == (0, 8, ["MASS_SILENCE"])
    beats(162, NAMES[1:])
    ticks(163)
    assert ([n.name for n in Node.objects.filter(state="LOST")], attempts("RUNNING"), alarms()) == (["n1"], 7, [])


def test_those_who_have_not_come_back_yet_may_be_confirmed_gone(eight):
    b.listening(105)
    beats(100, NAMES[5:])
    ticks(100)
    beats(101, NAMES[2:])
    ticks(102)
    assert pool.confirm_silence(eight["admin"], b.later(103)) == list(NAMES[:2])
    ticks(104)
    assert sorted(n.name for n in Node.objects.filter(state="LOST")) == list(NAMES[:2])
    assert (attempts("RUNNING"), alarms()) == (6, [])


def test_when_an_operator_confirms_a_mass_silence_the_work_is_taken_back(eight):
    b.listening(102)
    beats(60, NAMES[5:])
    beats(100, NAMES[5:])
    ticks(100)
    assert pool.confirm_silence(eight["admin"], b.later(101)) == list(NAMES[:5])
    ticks(102)
    assert sorted(n.name for n in Node.objects.filter(state="LOST")) == list(NAMES[:5])
    assert (attempts("RUNNING"), Job.objects.filter(state="QUEUED").count(), alarms()) == (3, 5, [])
    words = Event.objects.filter(type="attempt_ended").values_list("message", flat=True)
    assert all("; an operator has confirmed that it is gone; its work is taken back" in each for each in words)
    told = Event.objects.filter(type="silence_confirmed", actor=eight["admin"].label)
    assert sorted(told.values_list("node", flat=True)) == list(NAMES[:5])


def test_a_confirmation_is_of_that_silence_and_not_of_the_next(eight):
    b.listening(300)
    beats(100)
    ticks(170)
    assert alarms() == ["MASS_SILENCE"]
    pool.confirm_silence(eight["admin"], b.later(171))
    for at in (172, 200, 230):
        beats(at)
    ticks(231, 299)
    assert (alarms(), attempts("RUNNING")) == (["MASS_SILENCE"], 8)


def unheard(node: str, at: float) -> dict:
    """What the job on that node says of its silence."""
    job = queries.full(Job.objects.filter(attempts__nodes__node__name=node)).get()
    (reason,) = queries.as_dict(job, now=b.later(at))["reasons"]
    assert (reason["code"], reason["numbers"]["nodes"]) == ("UNHEARD", [node])
    return reason


def test_while_many_are_silent_a_job_says_that_nothing_is_taken_back_and_the_alarm_names_the_nodes(eight):
    b.listening(100)
    beats(100, NAMES[5:])
    ticks(100)
    reason = unheard("n2", 100)
    assert reason["message"].endswith(
        "So many nodes fell silent together that nothing is taken back from it until it returns or an operator "
        "confirms that it is gone."
    )
    assert reason["numbers"] == {"nodes": ["n2"], "guarded": True}
    (alarm,) = SchedulerState.objects.get().alarms
    assert "(n1, n2, n3 and 2 more)" in alarm["message"]


def test_once_some_have_returned_a_job_of_one_that_has_not_says_until_when_it_is_spared(eight):
    b.listening(102)
    beats(100, NAMES[5:])
    ticks(100)
    beats(101, NAMES[1:])
    ticks(102)
    reason = unheard("n1", 102)
    assert "Unless it is heard of by 2 Mar 2026, 12:02:42 UTC, the job is taken back and starts" in reason["message"]
    assert reason["message"].endswith(", or as soon as an operator confirms that it is gone.")
    assert reason["numbers"]["guarded"] is True


def test_once_an_operator_has_confirmed_it_a_job_says_that_it_is_taken_back(eight):
    b.listening(102)
    beats(100, NAMES[5:])
    ticks(100)
    pool.confirm_silence(eight["admin"], b.later(101))
    reason = unheard("n1", 101)
    assert "Unless it is heard of by 2 Mar 2026, 12:01 UTC, the job is taken back" in reason["message"]
    assert reason["numbers"]["guarded"] is False


def test_without_a_mass_silence_there_is_nothing_to_confirm(eight):
    ticks(2)
    assert pool.confirm_silence(eight["admin"], b.later(3)) is None


def test_two_of_eight_that_fall_silent_are_lost_after_their_lease(eight):
    b.listening(61)
    beats(30, NAMES[2:])
    beats(60, NAMES[2:])
    ticks(59, 61)
    assert sorted(n.name for n in Node.objects.filter(state="LOST")) == ["n1", "n2"]
    assert (attempts("RUNNING"), alarms()) == (6, [])


# ---------------------------------------------------------------- a node that comes back


@pytest.fixture
def pair():
    """A job on n1, and n2 free."""
    made, run = b.busy_lab()
    b.node("n2")
    return made, run


def healed(at: float) -> None:
    """Both nodes are heard of again, after the scheduler has ticked meanwhile."""
    b.listening(at)
    beats(30, ["n2"])
    beats(at - 1, ["n2"])
    ticks(at - 0.1)


def epochs(job: str) -> list[int]:
    return list(Attempt.objects.filter(job_id=job).order_by("number").values_list("epoch", flat=True))


def test_a_node_that_is_back_after_35_seconds_goes_on_as_if_nothing_had_been(pair):
    _, run = pair
    healed(35)
    assert b.beat("n1", now=b.later(35))["desired"][0]["action"] == "run"
    ticks(36, 38)
    assert (epochs(run.job), Job.objects.get(pk=run.job).state) == ([run.epoch], "RUNNING")


@pytest.mark.parametrize("at", [50, 59])
def test_a_node_that_has_fenced_itself_says_so_and_one_attempt_follows_before_its_lease_is_over(pair, at):
    _, run = pair
    healed(at)
    b.finished(run, "LOST", why="lost", now=b.later(at))
    assert b.beat("n1", now=b.later(at))["desired"] == []
    b.listening(at + 20, at)
    beats(at + 10, ["n1", "n2"])
    ticks(at + 1, at + 5, at + 10, at + 12)  # the pause after a loss is ten seconds
    again = Attempt.objects.get(job_id=run.job, ended_at__isnull=True)
    assert (len(epochs(run.job)), again.granted_at, again.nodes.get().node.name) == (2, b.later(at + 10), "n2")


def test_a_node_that_is_back_after_its_lease_gets_nothing_of_its_old_job(pair):
    _, run = pair
    healed(61)
    assert Node.objects.get(name="n1").state == "LOST"
    held = [{"attempt": run.attempt, "epoch": run.epoch, "pid_alive": True}]
    reply = pool.register("n1", b.description("n1", attempts=held), b.later(62))
    assert (reply["adopt"], reply["kill"]) == ([], [run.attempt])
    b.listening(80, 62)
    beats(75, ["n1", "n2"])
    ticks(63, 75)
    assert len(epochs(run.job)) == 2
    assert b.finished(run, "SUCCEEDED", now=b.later(76))["code"] == "stale_epoch"


def test_what_was_cancelled_while_its_node_was_cut_off_holds_nothing_once_that_is_back(pair):
    made, run = pair
    b.listening(20)
    jobs.cancel(run.job, made.who["alice"], b.later(20), force=True)
    b.listening(62, 20)
    beats(61, ["n2"])
    ticks(61.5)
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.gpu_count) == ("CANCELLED", 2)
    held = [{"attempt": run.attempt, "epoch": run.epoch, "pid_alive": True}]
    assert pool.register("n1", b.description("n1", attempts=held), b.later(62))["kill"] == [run.attempt]
    here = {"required": [{"key": "node", "op": "In", "values": ["n1"]}]}
    whole = b.submitted(made.who["alice"], b.command_body(gpu_count=4, affinity=here), now=b.later(63))
    ticks(64)
    assert Job.objects.get(pk=whole).state == "DISPATCHING"


# ---------------------------------------------------------------- the end and the loss, in either order


@pytest.mark.parametrize(("first", "state", "outcome"), [("end", "SUCCEEDED", "SUCCEEDED"), ("loss", "QUEUED", "LOST")])
def test_of_the_end_and_the_loss_the_first_counts_and_the_other_changes_nothing(pair, first, state, outcome):
    _, run = pair
    b.listening(61)
    beats(60, ["n2"])
    told = {"type": "finished", "attempt": run.attempt, "epoch": run.epoch, "outcome": "SUCCEEDED", "exit_code": 0}
    acts = {"end": lambda: pool.report("n1", told, b.later(60.5)), "loss": lambda: ticks(60.5)}
    for name in ([first] + [n for n in acts if n != first]) * 2:
        acts[name]()
    job = Job.objects.get(pk=run.job)
    assert (job.state, job.infra_failures) == (state, 1 if first == "loss" else 0)
    assert list(Attempt.objects.values_list("outcome", flat=True)) == [outcome]
    assert Event.objects.filter(type="attempt_ended").count() == 1
