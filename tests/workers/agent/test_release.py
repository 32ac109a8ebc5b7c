"""GPUs are released by the end of a job only when they are seen free: the machine's wait for it, in virtual time."""

from __future__ import annotations

import pytest

from tests.workers.agent.world import REF, SILENT, T, World, of, run
from workers.agent import messages as m
from workers.agent.outcome import Exit

HELD = "SIM-0: 4096 MiB are still held (4096 in use, 0 before it)"


def seeing(**launch: object) -> World:
    """A job on a GPU runs, under an agent that can look at it."""
    world = World()
    world.machine.sees_gpus = True
    return world.running(**{"gpus": ["SIM-0"], **launch})


def looked(world: World, left: str = "", silent: str = "") -> list[m.Command]:
    return world.tell(m.GpusLooked(REF, left, silent))


def held_for(world: World, seconds: float, *, left: str = "", silent: str = "") -> list[m.Command]:
    """Every look finds the same, for that long; the commands after the last one."""
    end = world.now + seconds
    while world.now < end:
        assert not world.count(m.StoreFinished)
        looked(world, left, silent)
        world.pass_to(min(end, world.now + T.kill_s / 20) - 1000.0)
    return looked(world, left, silent)


def test_the_end_is_told_only_after_the_gpus_were_seen_free() -> None:
    world = seeing()
    assert of(world.ends(Exit(0)), m.LookAtGpus) == [m.LookAtGpus(REF, ("SIM-0",))]
    assert not world.count(m.StoreFinished)
    report = of(looked(world), m.StoreFinished)[0].report
    assert (report["outcome"], "gpus_clean" in report) == ("SUCCEEDED", False)


def test_a_checkpoint_is_uploaded_after_it_too() -> None:
    world = seeing()
    assert not of(world.ends(Exit(85)), m.Publish)
    assert of(looked(world), m.Publish)[0].checkpoint is True


def test_memory_that_comes_free_a_little_later_costs_nothing() -> None:
    world = seeing()
    world.ends(Exit(0))
    looked(world, HELD)
    world.pass_to(world.now - 1000.0 + T.kill_s / 20)
    assert len(world.count(m.LookAtGpus)) == 2
    assert "gpus_clean" not in of(looked(world), m.StoreFinished)[0].report


def test_memory_that_is_held_for_good_is_told_in_time_with_the_gpu_and_the_amount() -> None:
    world = seeing()
    world.ends(Exit(0))
    report = of(held_for(world, T.kill_s, left=HELD), m.StoreFinished)[0].report
    assert (report["outcome"], report["gpus_clean"]) == ("SUCCEEDED", False)
    assert (report["detail"], report["gpus_held"]) == (f"not free after its job: {HELD}", True)


def test_one_look_at_a_time_is_under_way() -> None:
    world = seeing()
    world.ends(Exit(0))
    world.pass_to(world.now - 1000.0 + 3 * T.kill_s)
    assert len(world.count(m.LookAtGpus)) == 1


@pytest.mark.parametrize(("silent", "checked"), [("", False), ("SIM-0: the GPU is lost", True)])
def test_gpus_that_do_not_answer_are_left_to_their_checks_which_go_out_with_the_end(silent: str, checked: bool) -> None:
    world = seeing()
    world.ends(Exit(0))
    held_for(world, T.kill_s, silent=silent) if silent else looked(world)
    assert "gpus_clean" not in world.count(m.StoreFinished)[0].report
    while world.machine.flight is not None:
        world.beat(run())
    world.tell(m.Tailed(REF, log_done=True))
    assert (of(world.last, m.SendHeartbeat)[0].reports[0]["type"], of(world.last, m.SendHeartbeat)[0].health) == (
        "finished", checked,
    )  # fmt: skip


def test_what_can_not_be_killed_is_told_without_a_look() -> None:
    world = seeing()
    report = of(world.ends(Exit(signal=9, clean=False, survivors=(77,))), m.StoreFinished)[0].report
    assert "77" in report["detail"]
    assert not world.count(m.LookAtGpus)


def test_a_job_without_gpus_ends_at_once() -> None:
    world = seeing(gpus=[])
    assert of(world.ends(Exit(0)), m.StoreFinished)


def test_an_attempt_that_is_taken_away_meanwhile_is_dropped() -> None:
    world = seeing()
    world.ends(Exit(0))
    if world.machine.flight is not None:
        world.beat(run())
    world.tell(m.BellRang())
    assert world.machine.flight is not None
    world.beat()
    assert world.count(m.Drop)
    assert looked(world) == []


def test_a_look_at_the_gpus_of_an_attempt_that_is_gone_changes_nothing() -> None:
    world = World().registered()
    world.tell(m.CallFailed(SILENT))
    assert looked(world, HELD) == []


def test_an_operator_reads_once_what_was_left() -> None:
    world = seeing()
    world.ends(Exit(0))
    held_for(world, T.kill_s, left=HELD)
    assert [note.text for note in world.count(m.Note)] == [f"a1-1: {HELD}"]
