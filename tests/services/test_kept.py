"""The kept scheduler decides what one built anew decides, at any point of a history, and is dropped at any doubt."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from scheduling.core.decide import decide
from scheduling.core.lifecycle import JobState
from scheduling.core.plan import Plan
from scheduling.models import Attempt, Event, Job, Node, Project, Queue, SchedulerState, Window
from scheduling.services import jobs, pool, tick, windows
from scheduling.services.kept import Kept
from scheduling.store import load
from scheduling.store.commit import balances
from scheduling.store.queries import jobs as queries
from tests import builders as b

pytestmark = pytest.mark.django_db


def bare(plan: Plan) -> Plan:
    """The plan without what is shown to people."""
    return replace(plan, holds=(), scores={})


class House:
    """Two nodes, two people, a scheduler that ticks; and dice for what happens next."""

    def __init__(self, seed: int, *, urgent: bool = False, careful: bool = False) -> None:
        self.urgent, self.careful = urgent, careful
        self.dice = random.Random(seed)
        self.who = b.people()
        self.nodes = {"n1": 4, "n2": 2}
        for name, gpus in self.nodes.items():
            b.node(name, gpus=gpus, groups=name == "n1", rack=f"rack of {name}")
        self.models = {
            "alice": [b.model(self.who["alice"], "a", 1), b.model(self.who["alice"], "b", 2)],
            "bob": [b.model(self.who["bob"], "c", 3, project="beta"), b.model(self.who["bob"], "d", 4, project="beta")],
        }
        self.projects = {"alice": "alpha", "bob": "beta"}
        Queue.objects.update(grace_s=10, never_without_checkpoint=careful)
        self.seconds, self.silent = 0.0, set()
        self.ticker = tick.Ticker()
        self.rebuilt = 0
        self.started = self.evicted = 0

    @property
    def now(self):
        return b.later(self.seconds)

    def some(self, *states: str):
        found = list(Job.objects.filter(state__in=states).order_by("submitted_at"))
        return self.dice.choice(found) if found else None

    def submit(self) -> None:
        dice, name = self.dice, self.dice.choice(["alice", "bob"])
        soon = b.later(self.seconds + dice.randint(5, 90)).isoformat()
        more = dice.choice([{}, {}, {}, {"not_before": soon}, {"start_by": soon}, {"group": "g"},
                            {"group": "g", "anti_affinity": {"group": "g", "level": "node"}}])  # fmt: skip
        count = dice.choice([1, 1, 2, 3, 4])
        body = b.merge_body(
            self.models[name], project=self.projects[name], gpu_count=count, nvlink_required=dice.random() < 0.5,
            priority=dice.choice(["Low", "Low", "Critical"] if self.urgent else ["High", "Normal", "Low"]),
            max_duration=3600 if self.urgent else dice.choice([30, 60, 600, 3600]),
            retries=dice.choice([0, 2]), **more,
        )  # fmt: skip
        who = self.who["admin"] if body["priority"] == "Critical" else self.who[name]
        body |= {"purpose": "regression_gate"} if body["priority"] == "Critical" else {}
        b.submitted(who, body, now=self.now)

    def cancel(self) -> None:
        job = self.some("QUEUED", "HELD", "DISPATCHING", "RUNNING", "PREEMPTING")
        if job:
            jobs.cancel(str(job.pk), self.who["admin"], self.now)

    def hold_or_release(self) -> None:
        job = self.some("QUEUED", "HELD")
        if job:
            jobs.hold(str(job.pk), self.who["admin"], self.now, release=job.state == JobState.HELD)

    def reports(self, kind: str, *states: str, **more) -> None:
        job = self.some(*states)
        attempt = job and Attempt.objects.filter(job=job, ended_at__isnull=True).first()
        node = attempt and attempt.nodes.get().node.name
        if attempt and node not in self.silent:
            pool.claim(node, str(attempt.pk), attempt.epoch, self.now)
            self.reports_of(b.Running(str(job.pk), str(attempt.pk), attempt.epoch, node, []), kind, pid=1, **more)

    def reports_of(self, run: b.Running, kind: str, **more) -> None:
        report = {"type": kind, "attempt": run.attempt, "epoch": run.epoch, **more}
        answer = b.beat(run.node, now=self.now, reports=[report])
        assert answer["answers"][0]["ok"], answer

    def start(self) -> None:
        self.reports("started", "DISPATCHING")

    def finish(self) -> None:
        outcome = self.dice.choice(["SUCCEEDED", "FAILED", "PREEMPTED"])
        self.reports("finished", "RUNNING", "CANCELLING", "PREEMPTING", outcome=outcome, exit_code=0)

    def leave(self) -> None:
        self.reports("finished", "PREEMPTING", outcome="PREEMPTED", exit_code=85, why="preempt")

    def save(self) -> None:
        job = self.some("RUNNING", "PREEMPTING")
        if job:
            attempt = Attempt.objects.get(job=job, ended_at__isnull=True)
            node = attempt.nodes.get().node.name
            if node not in self.silent:
                run = b.Running(str(job.pk), str(attempt.pk), attempt.epoch, node, [])
                saved = b.output(run, "checkpoint", str(self.dice.random()).encode(), kind="checkpoint", now=self.now)
                self.reports_of(run, "checkpoint", artifact=saved, step=job.resume_step + 1)

    def reweigh(self) -> None:
        Project.objects.filter(name="alpha").update(weight=self.dice.choice([0.0, 1.0, 5.0]))

    def close(self) -> None:
        node = self.dice.choice(sorted(self.nodes))
        verb = "return" if Node.objects.get(name=node).state == "CORDONED" else "cordon"
        pool.operate(node, verb, self.who["admin"], self.now)

    def window(self) -> None:
        window = Window.objects.first()
        if window:
            windows.remove(window.pk, self.who["admin"], self.now)
        else:
            windows.add({"name": "w", "nodes": ["n2"], "start": b.later(self.seconds + 20).isoformat(),
                         "end": b.later(self.seconds + 100).isoformat()}, self.who["admin"], self.now)  # fmt: skip

    def count_anew(self) -> None:
        balances.rebuild(self.now)

    def silence(self) -> None:
        if self.silent:
            node = self.silent.pop()
            held = Attempt.objects.filter(nodes__node__name=node, ended_at__isnull=True)
            alive = [{"attempt": str(a.pk), "epoch": a.epoch, "pid_alive": True} for a in held]
            pool.register(node, b.description(node, gpus=self.nodes[node], groups=node == "n1",
                                              rack=f"rack of {node}", attempts=alive), self.now)  # fmt: skip
        else:
            self.silent.add("n2")

    def pass_time(self) -> None:
        until = self.seconds + self.dice.choice([0.1, 1, 4, 9])
        while self.seconds < until:
            self.seconds = min(until, self.seconds + 5)
            pool.accepting(self.now)
        for node in sorted(self.nodes.keys() - self.silent):
            b.beat(node, now=self.now)

    def something(self) -> None:
        self.seconds += 0.001  # no two jobs are submitted at once: their ids, which nobody can foresee, decide nothing
        rare = [self.reweigh, self.close, self.window, self.count_anew, self.silence]
        usual = [self.submit] * 4 + [self.cancel, self.hold_or_release] + [self.start] * 4 + [self.finish] * 3
        usual += [self.save] if self.careful else [self.leave, self.leave, self.save]
        self.dice.choice([*usual, *usual, *rare])()

    def tick(self) -> tuple[Plan, Plan]:
        """The plan of the kept scheduler, which is written, and that of one built anew."""
        held = tick.lead("test", self.now)
        anew = bare(decide(load.snapshot(self.now)))
        decided = self.ticker.kept.decide(self.now, epoch=held.epoch)
        self.rebuilt += decided.anew
        applied = tick.commit(decided.plan, decided.policy, held, self.now)
        assert not applied.stale
        self.started += len(applied.started)
        self.evicted += len(applied.evicted)
        return bare(decided.plan), anew


@pytest.mark.parametrize(
    ("seed", "urgent", "careful"),
    [(0, False, False), (1, True, False), (5, True, True)],
    ids=["all sorts of jobs", "jobs that evict others", "jobs that evict none unsaved"],
)
def test_at_any_point_of_a_history_the_kept_scheduler_plans_what_one_built_anew_plans(seed, urgent, careful):
    house = House(seed, urgent=urgent, careful=careful)
    for _ in range(30):
        for _ in range(house.dice.randint(0, 3)):
            house.something()
        house.pass_time()
        kept, anew = house.tick()
        assert kept == anew
    assert (house.started > 3, house.rebuilt < 30, house.evicted > 0) == (True, True, urgent)
    assert Event.objects.filter(type="not_saved").exists() == careful


@pytest.fixture
def world():
    lab = b.lab()
    return lab.who, lab.models


def seen(kept: Kept, seconds: float, *, epoch: int = 1) -> bool:
    """Whether the kept scheduler was built anew for this look."""
    pool.accepting(b.later(seconds))
    return kept.decide(b.later(seconds), epoch=epoch).anew


def test_the_scheduler_is_kept_while_jobs_come_and_go(world):
    who, models = world
    kept = Kept()
    assert seen(kept, 0)
    job = b.submitted(who["alice"], b.merge_body(models, not_before="2030-01-01T00:00:00Z"), now=b.later(1))
    assert not seen(kept, 1)
    jobs.cancel(job, who["alice"], b.later(2))
    assert not seen(kept, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda who: Project.objects.update(weight=7.0),
        lambda who: pool.operate("n1", "cordon", who["admin"], b.later(1)),
        lambda who: b.node("n2", now=b.later(1)),
        lambda who: b.beat("n1", now=b.later(1), draining=True),
        lambda who: balances.rebuild(b.later(1)),
        lambda who: windows.add({"name": "w", "nodes": ["n1"], "start": "2026-03-02T13:00:00Z",
                                 "end": "2026-03-02T14:00:00Z"}, who["admin"], b.later(1)),
    ],
    ids=["a weight", "a cordon", "a new node", "a node that leaves", "balances counted anew", "a window"],
)  # fmt: skip
def test_the_scheduler_is_built_anew_when_policy_inventory_or_windows_change(world, change):
    kept = Kept()
    seen(kept, 0)
    change(world[0])
    assert seen(kept, 1)
    assert not seen(kept, 2)


def test_the_scheduler_is_built_anew_for_another_leader(world):
    kept = Kept()
    seen(kept, 0, epoch=1)
    assert seen(kept, 1, epoch=2)


def test_a_plan_that_was_not_written_whole_is_forgotten(world, monkeypatch):
    who, models = world
    b.submitted(who["alice"], b.merge_body(models))
    ticker = tick.Ticker()
    monkeypatch.setattr(tick.grants, "apply", lambda *a, **k: tick.grants.Applied(stale=["start x"]))
    assert tick.run_tick("test", b.NOON, ticker).started == 0
    monkeypatch.undo()
    assert tick.run_tick("test", b.later(1), ticker).started == 1


def test_a_plan_whose_writing_failed_is_forgotten(world, monkeypatch):
    who, models = world
    b.submitted(who["alice"], b.merge_body(models))
    ticker = tick.Ticker()

    def fail(*args, **kw):
        raise RuntimeError("the database went away")

    monkeypatch.setattr(tick.grants, "apply", fail)
    with pytest.raises(RuntimeError):
        tick.run_tick("test", b.NOON, ticker)
    monkeypatch.undo()
    assert tick.run_tick("test", b.later(1), ticker).started == 1


def test_a_scheduler_that_lost_the_lead_keeps_nothing(world):
    who, models = world
    ticker = tick.Ticker()
    assert tick.run_tick("one", b.NOON, ticker).led
    assert tick.run_tick("two", b.later(60)).led
    assert not tick.run_tick("one", b.later(61), ticker).led
    b.submitted(who["alice"], b.merge_body(models), now=b.later(62))
    assert tick.run_tick("two", b.later(62)).started == 1
    pool.accepting(b.later(130))
    assert tick.run_tick("one", b.later(130), ticker).led


def test_why_jobs_wait_is_written_only_when_it_can_have_changed(world):
    who, models = world
    ticker = tick.Ticker()
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4))
    tick.run_tick("test", b.NOON, ticker)
    assert len(SchedulerState.objects.get().holds["jobs"]) == 1  # it holds the reservation, which no other job does
    SchedulerState.objects.update(holds={"kept": True})
    tick.run_tick("test", b.later(1), ticker)  # hears of its own grant
    SchedulerState.objects.update(holds={"kept": True})
    tick.run_tick("test", b.later(2), ticker)
    assert SchedulerState.objects.get().holds == {"kept": True}
    b.submitted(who["alice"], b.merge_body(models, gpu_count=4), now=b.later(3))
    tick.run_tick("test", b.later(3), ticker)
    assert set(SchedulerState.objects.get().holds) == {"shapes", "jobs", "deficits"}


def test_jobs_of_one_shape_and_level_share_one_entry_and_a_job_that_differs_has_its_own(world):
    who, models = world
    b.running(who["alice"], models, gpu_count=4)
    b.submitted(who["alice"], b.merge_body(models, gpu_count=2), now=b.later(1))  # it gets the reservation
    alike = [b.submitted(who["alice"], b.merge_body(models, gpu_count=1), now=b.later(2 + n)) for n in range(3)]
    asleep = b.submitted(who["alice"], b.merge_body(models, gpu_count=1, not_before="2030-01-01T00:00:00Z"))
    b.ticked(b.later(10))
    holds = SchedulerState.objects.get().holds
    assert asleep in holds["jobs"]
    assert not holds["jobs"].keys() & set(alike)
    told = {job: queries.reasons_of(Job.objects.get(pk=job), holds)[0]["code"] for job in [*alike, asleep]}
    assert told == {**dict.fromkeys(alike, "BUSY"), asleep: "NOT_BEFORE"}
