"""Jobs on several nodes: started together or not at all, ended together, and a lost node ends them for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from scheduling.models import Allocation, Attempt, AttemptNode, Event, Job
from scheduling.services import jobs, pool
from scheduling.services.pool import NodeRefused
from scheduling.store.queries import jobs as queries
from tests import builders as b
from tests.remembered import Remembered

pytestmark = pytest.mark.django_db

PORT = 29_400


@dataclass
class Gang:
    """A job on several nodes of two GPUs each, and what its agents say; the clock counts seconds after noon."""

    names: tuple[str, ...]
    at: float = 0.0
    job: str = ""
    attempt: str = ""
    epoch: int = 0
    ranks: list[str] = field(default_factory=list)

    def granted(self, **more: Any) -> Gang:
        """The job holds all the GPUs of its nodes."""
        who = b.people()
        for name in self.names:
            b.node(name, gpus=2)
        count = len(self.names)
        body = b.command_body(gpu_count=2 * count, node_count=count, **more)
        self.job = b.submitted(who["alice"], body)
        self.ticked()
        return self.look()

    def look(self) -> Gang:
        run = Attempt.objects.get(job_id=self.job, ended_at__isnull=True)
        self.attempt, self.epoch = str(run.pk), run.epoch
        self.ranks = list(run.nodes.values_list("node__name", flat=True))
        return self

    def ticked(self, after: float = 0.0, *, silent: tuple[str, ...] = ()) -> None:
        """The scheduler ticks after so many seconds, in which all nodes but the ``silent`` were heard of."""
        b.listening(self.at + after, self.at)
        self.at += after
        for node in self.names:
            if node not in silent:
                b.beat(node, now=b.later(self.at))
        b.ticked(b.later(self.at))

    def says(self, node: str, **report: Any) -> Any:
        """The answer to a report of the node, and what it is to do then."""
        told = {"attempt": self.attempt, "epoch": self.epoch, **report}
        reply = b.beat(node, now=b.later(self.at), reports=[told])
        return reply["answers"][0], self.wanted(reply)

    def wanted(self, reply: Mapping[str, Any]) -> dict[str, Any] | None:
        return next((each for each in reply["desired"] if each["attempt"] == self.attempt), None)

    def asked(self, node: str) -> dict[str, Any] | None:
        return self.wanted(b.beat(node, now=b.later(self.at)))

    def claims(self, *nodes: str) -> Any:
        return [pool.claim(node, self.attempt, self.epoch, b.later(self.at)) for node in nodes or self.ranks]

    def ready(self, *nodes: str, port: int = PORT) -> None:
        for node in nodes or self.ranks:
            rank0 = node == self.ranks[0]
            assert self.says(node, type="ready", port=port if rank0 else 0)[0]["ok"]

    def running(self, **more: Any) -> Gang:
        """All its nodes have said that their processes run."""
        self.granted(**more).claims()
        self.ready()
        for node in self.ranks:
            assert self.says(node, type="started", pid=1)[0]["ok"]
        return self

    def ends(self, node: str, outcome: str = "SUCCEEDED", **more: Any) -> Any:
        return self.says(node, **{"type": "finished", "outcome": outcome, "exit_code": 0, **more})

    def row(self) -> Job:
        return Job.objects.get(pk=self.job)

    def outcome(self) -> str:
        return Attempt.objects.get(pk=self.attempt).outcome


@Remembered
def pair() -> Gang:
    """A job that holds all the GPUs of two nodes, which have not claimed it."""
    return Gang(("n1", "n2")).granted()


@Remembered
def two() -> Gang:
    """A job that runs on two nodes."""
    return Gang(("n1", "n2")).running()


def test_each_node_gets_its_own_gpus_and_its_rank():
    gang = Gang(("n1", "n2", "n3")).granted()
    launches = gang.claims()
    assert [(each["node_rank"], each["node_count"]) for each in launches] == [(0, 3), (1, 3), (2, 3)]
    assert [each["gpus"] for each in launches] == [[f"GPU-{name}-0", f"GPU-{name}-1"] for name in gang.ranks]


def test_nobody_is_told_to_go_before_all_are_ready():
    gang = Gang(("n1", "n2", "n3")).granted()
    gang.claims()
    for node in gang.ranks[:2]:
        gang.ready(node)
    assert [gang.asked(node).get("go", "not told") for node in gang.ranks] == [None, None, "not told"]
    gang.ready(gang.ranks[2])
    meeting = {"address": "127.0.0.1", "port": PORT}
    assert [gang.asked(node)["go"] for node in gang.ranks] == [meeting] * 3
    assert Job.objects.get(pk=gang.job).state == "DISPATCHING"


def test_the_job_runs_once_all_its_nodes_do():
    gang = pair()
    gang.claims()
    gang.ready()
    gang.says("n1", type="started", pid=1)
    assert gang.row().state == "DISPATCHING"
    gang.says("n2", type="started", pid=1)
    assert gang.row().state == "RUNNING"
    assert "go" not in gang.asked("n1")


def test_the_same_ready_again_changes_nothing():
    gang = pair()
    gang.claims()
    gang.ready()
    gang.ready()
    assert Event.objects.filter(type="ready").count() == 2
    assert gang.asked("n2")["go"]["port"] == PORT


@pytest.mark.parametrize("port", [0, 65_536, 70_000])
def test_rank_0_must_name_a_port(port):
    gang = pair()
    gang.claims()
    answer, _ = gang.says(gang.ranks[0], type="ready", port=port)
    assert (answer["ok"], answer["code"]) == (False, "bad_report")
    assert "from 1 to 65535" in answer["message"]


def test_a_rank_0_that_comes_back_with_another_port_has_lost_its_part():
    gang = pair()
    gang.claims()
    gang.ready()
    gang.says(gang.ranks[0], type="ready", port=PORT + 1)
    part = AttemptNode.objects.get(attempt_id=gang.attempt, rank=0)
    assert (part.outcome, gang.asked(gang.ranks[1])["action"]) == ("LOST", "stop")


def test_before_all_are_ready_its_port_may_change():
    gang = pair()
    gang.claims()
    gang.ready("n1")
    gang.ready("n1", port=PORT + 1)
    gang.ready("n2")
    assert gang.asked("n2")["go"]["port"] == PORT + 1


def test_it_holds_all_its_gpus_until_its_last_node_has_ended():
    gang = two()
    gang.at = 100
    assert gang.ends("n1")[1] is None
    assert (gang.row().state, Allocation.objects.filter(released_at__isnull=True).count()) == ("RUNNING", 4)
    assert gang.asked("n2")["action"] == "run"
    gang.at = 110
    gang.ends("n2")
    assert (gang.row().state, Allocation.objects.filter(released_at__isnull=True).count()) == ("SUCCEEDED", 0)
    assert set(Allocation.objects.values_list("released_at", flat=True)) == {b.later(110)}


def test_the_end_of_a_part_delivered_twice_has_one_effect():
    gang = two()
    first, again = gang.ends("n1"), gang.ends("n1")
    assert first == again
    assert Event.objects.filter(type="part_ended").count() == 1
    assert not Event.objects.filter(type="write_refused").exists()


def test_a_node_that_fails_stops_the_others_within_ten_seconds():
    gang = two()
    gang.at = 50
    gang.ends("n2", "FAILED", error="exit code 1", exit_code=1)
    wanted = gang.asked("n1")
    assert (wanted["action"], wanted["why"], wanted["grace_s"]) == ("stop", "peer", 10.0)
    assert gang.row().state == "PREEMPTING"
    gang.ends("n1", "PREEMPTED", why="peer", detail="unconfirmed")
    job = gang.row()
    assert (job.state, job.outcome, job.exit_code, job.error) == ("FAILED", "FAILED", 1, "n2: exit code 1")


def test_a_cancel_gives_the_others_no_more_than_those_ten_seconds():
    gang = two()
    gang.at = 50
    gang.ends("n2", "FAILED", error="exit code 1", exit_code=1)
    jobs.cancel(gang.job, b.people()["alice"], b.later(54), force=False)
    assert Attempt.objects.get(pk=gang.attempt).stop_by == b.later(60)
    assert Event.objects.get(type="cancelling").message == "cancelled by alice: it was asked to stop and has 6 s for it"


def test_the_exit_code_of_a_job_on_several_nodes_is_that_of_the_rank_whose_failure_ended_it():
    gang = two()
    gang.ends("n2", "FAILED", error="exit code 3", exit_code=3)
    gang.ends("n1", "PREEMPTED", why="peer", exit_code=143)
    assert codes(gang) == {"job": 3, "attempt": 3}


def test_the_exit_code_of_a_job_that_succeeded_on_all_its_nodes_is_0():
    gang = two()
    gang.ends("n1")
    gang.ends("n2")
    assert codes(gang) == {"job": 0, "attempt": 0}


def codes(gang: Gang) -> dict[str, Any]:
    """The exit codes that REST tells."""
    row = queries.full(Job.objects.filter(pk=gang.job)).get()
    return {"job": queries.as_dict(row)["exit_code"], "attempt": queries.attempts(row)[-1]["exit_code"]}


def test_a_node_that_stays_longer_is_told_to_kill():
    gang = two()
    gang.ends("n2", "FAILED", error="exit code 1")
    gang.ticked(after=31)  # ten seconds, and the time in which its own clock should have done it
    assert gang.asked("n1")["action"] == "kill"


def test_what_a_failing_gpu_caused_is_not_the_jobs_failure():
    gang = two()
    gang.at = 20
    samples = [{"uuid": f"GPU-n2-{n}", "xids": [79] if n else []} for n in (0, 1)]
    b.beat("n2", now=b.later(20), gpus=samples, seq=2)
    assert [gang.asked(node)["action"] for node in ("n1", "n2")] == ["kill", "kill"]
    gang.ends("n1", "FAILED", error="connection closed")
    gang.ends("n2", "PREEMPTED", why="health")
    job = gang.row()
    assert (job.state, job.app_failures, job.avoid["gpus"]) == ("QUEUED", 0, ["GPU-n2-1"])


def test_a_lost_node_decides_whatever_the_others_said_before():
    gang = two()
    gang.at = 5
    gang.ends("n1", "FAILED", error="connection reset by peer")
    assert gang.row().state == "PREEMPTING"
    gang.ticked(after=65, silent=("n2",))
    job = gang.row()
    assert (job.state, job.infra_failures, job.app_failures, job.avoid["nodes"]) == ("QUEUED", 1, 0, ["n2"])
    assert gang.outcome() == "LOST"


def test_when_a_node_is_lost_the_others_stop_and_then_it_is_requeued_once():
    gang = two()
    gang.ticked(after=65, silent=("n2",))
    assert (gang.row().state, gang.asked("n1")["action"], gang.asked("n1")["why"]) == ("PREEMPTING", "stop", "peer")
    gang.ends("n1", "PREEMPTED", why="peer")
    job = gang.row()
    assert (job.state, job.infra_failures, job.epoch) == ("QUEUED", 1, 2)
    assert not Allocation.objects.filter(released_at__isnull=True).exists()
    assert Event.objects.filter(type="attempt_ended").count() == 1


def test_a_checkpoint_that_rank_0_saved_when_a_node_was_lost_is_resumed_from():
    gang = two()
    gang.ticked(after=65, silent=("n2",))
    assert gang.ranks[0] == "n1"
    saved = b.output(_as_run(gang, "n1"), "save", b"{}", now=b.later(66), kind="checkpoint")
    gang.ends("n1", "PREEMPTED", why="peer", checkpoint=saved, step=7)
    job = gang.row()
    assert (str(job.resume_id), job.resume_step) == (saved, 7)


def test_a_node_that_does_not_claim_ends_it_for_all_as_infrastructure():
    gang = pair()
    gang.claims("n1")
    gang.ready("n1")
    gang.ticked(after=60)
    assert gang.asked("n1")["action"] == "stop"
    assert AttemptNode.objects.get(attempt_id=gang.attempt, node__name="n2").outcome == "LOST"
    gang.ends("n1", "PREEMPTED", why="peer", detail="not started")
    job = gang.row()
    assert (job.state, job.infra_failures, job.avoid["nodes"]) == ("QUEUED", 1, ["n2"])


def test_a_node_that_claims_after_its_part_was_taken_back_gets_nothing():
    gang = pair()
    gang.claims("n1")
    gang.ticked(after=60)
    (refused,) = gang.claims("n2")
    assert isinstance(refused, NodeRefused)
    assert refused.code == "stale_epoch"
    assert gang.asked("n2") is None


def test_a_node_that_is_not_ready_in_ten_minutes_ends_it_for_all():
    gang = pair()
    gang.claims()
    gang.ready("n1")
    gang.ticked(after=599.5)
    assert gang.asked("n1")["action"] == "run"
    gang.ticked(after=0.5)
    assert gang.asked("n1")["action"] == "stop"
    assert AttemptNode.objects.get(attempt_id=gang.attempt, node__name="n2").outcome == "LOST"


def test_a_grant_that_no_node_claims_ends_at_once():
    gang = pair()
    gang.ticked(after=60)
    assert (gang.row().state, gang.outcome()) == ("QUEUED", "LOST")
    assert not AttemptNode.objects.filter(attempt_id=gang.attempt, ended_at__isnull=True).exists()


def test_a_cancel_waits_for_those_who_had_claimed_only():
    gang = pair()
    gang.claims("n1")
    actor = b.people()["alice"]
    jobs.cancel(gang.job, actor, b.later(1))
    gang.at = 2
    assert (gang.asked("n1")["action"], gang.asked("n2")) == ("stop", None)
    gang.ends("n1", "CANCELLED", why="cancel", detail="not started")
    assert gang.row().state == "CANCELLED"


def test_a_cancelled_job_ends_as_cancelled_whatever_its_nodes_say():
    gang = two()
    jobs.cancel(gang.job, b.people()["alice"], b.later(1))
    gang.ends("n1", "FAILED", error="connection closed")
    assert gang.row().state == "CANCELLING"
    gang.ends("n2", "CANCELLED", why="cancel")
    assert gang.row().state == "CANCELLED"


def test_the_time_limit_of_one_node_is_the_jobs():
    gang = two()
    gang.ends("n1", "PREEMPTED", detail="yielded")
    gang.ends("n2", "TIMED_OUT", why="time_limit")
    assert gang.row().state == "TIMED_OUT"


def test_a_node_that_shuts_down_asks_all_to_save_with_the_whole_grace():
    gang = two()
    b.beat("n2", now=b.later(5), draining=True, seq=2)
    gang.at = 5
    wanted = gang.asked("n1")
    assert (wanted["action"], wanted["why"], wanted["grace_s"]) == ("stop", "drain", 120.0)
    assert gang.row().state == "PREEMPTING"
    gang.ends("n2", "PREEMPTED", why="drain")
    gang.ends("n1", "PREEMPTED", why="drain")
    job = gang.row()
    assert (job.state, job.infra_failures, job.preempted) == ("QUEUED", 0, True)


def test_a_node_that_restarts_without_its_part_ends_it_for_all():
    gang = two()
    pool.register("n2", b.description("n2", gpus=2, boot="boot-2"), b.later(9))
    gang.at = 9
    assert gang.asked("n1")["action"] == "stop"
    gang.ends("n1", "PREEMPTED", why="peer")
    assert (gang.row().state, gang.row().infra_failures) == ("QUEUED", 1)


def test_a_node_that_restarts_with_its_part_keeps_it():
    gang = two()
    held = [{"attempt": gang.attempt, "epoch": gang.epoch, "pid_alive": True}]
    reply = pool.register("n2", b.description("n2", gpus=2, attempts=held), b.later(9))
    assert (reply["adopt"], reply["kill"]) == ([gang.attempt], [])
    assert gang.row().state == "RUNNING"


def test_only_rank_0_tells_progress_and_commits_checkpoints():
    gang = two()
    assert gang.ranks == ["n1", "n2"]
    gang.says("n1", type="progress", step=5, total=10)
    gang.says("n2", type="progress", step=9, total=10)
    assert gang.row().progress_step == 5
    saved = b.output(_as_run(gang, "n2"), "save", b"{}", kind="checkpoint")
    answer, _ = gang.says("n2", type="checkpoint", artifact=saved, step=9)
    assert (answer["ok"], gang.row().resume_id) == (False, None)
    assert "rank 0" in answer["message"]


def test_the_log_of_each_rank_is_its_own():
    gang = two()
    gang.says("n1", type="logs", offset=0, text="from one\n")
    gang.says("n2", type="logs", offset=0, text="from two\n")
    row = jobs.queries.one(b.people()["alice"], gang.job)
    texts = [jobs.queries.log(row, attempt=None, rank=rank)["text"] for rank in (0, 1)]
    assert texts == ["from one\n", "from two\n"]


def test_outputs_of_all_nodes_belong_to_the_job():
    gang = two()
    one = b.output(_as_run(gang, "n1"), "weights")
    other = b.output(_as_run(gang, "n2"), "samples", b.tensors(4))
    gang.ends("n1", artifacts=[one])
    gang.ends("n2", artifacts=[other])
    assert sorted(str(o.artifact_id) for o in gang.row().outputs.all()) == sorted([one, other])


def _as_run(gang: Gang, node: str) -> b.Running:
    return b.Running(gang.job, gang.attempt, gang.epoch, node, [])
