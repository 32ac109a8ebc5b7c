"""A job's time limit counts from its recorded start, however often its agent is started anew."""

from __future__ import annotations

from pathlib import Path

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import REF, World, drive, of, run
from workers.agent import messages as m
from workers.agent.attempt import Held
from workers.agent.outcome import Exit
from workers.agent.phase import Phase
from workers.agent.processes import Processes
from workers.agent.statedir import StateDir, write_json


def restarted(started_at: float) -> World:
    """An agent, begun at 1000, that found a job with 30 s of time, the last 10 to save in, which had started then."""
    launch = launch_of(remaining_s=30.0, params={"limit_notice_s": 10})
    held = Held(REF, Phase.RUNNING, launch=launch, started_at=started_at)
    world = World([held], deadline=1040.0).registered()
    world.beat(run())
    return world


def test_it_is_asked_and_killed_at_the_times_that_the_agent_before_would_have_done_it() -> None:
    world = restarted(985.0)
    drive(world, 4.9)
    assert world.count(m.AskStop) == []
    drive(world, 5.0)
    assert [c.stop.why for c in world.count(m.AskStop)] == ["time_limit"]
    drive(world, 14.9)
    assert world.count(m.Kill) == []
    drive(world, 15.0)
    assert world.count(m.Kill) == [m.Kill(REF)]


def test_one_whose_time_ran_out_while_no_agent_was_there_is_killed_at_once_and_timed_out() -> None:
    world = restarted(960.0)
    world.tell(m.Tick())
    assert world.count(m.Kill) == [m.Kill(REF, m.StopAsked("time_limit", world.now, world.now))]
    report = of(world.ends(Exit(signal=9, cause="kill")), m.StoreFinished)[0].report
    assert (report["outcome"], report["why"]) == ("TIMED_OUT", "time_limit")


def test_the_start_is_the_one_the_keeper_wrote_down(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.of(REF).mkdir()
    write_json(state.of(REF) / "launch.json", launch_of())
    processes = Processes(state)
    (state.of(REF) / "events.jsonl").write_text("")
    write_json(state.of(REF) / "pid.json", {"pid": 7, "start": 1, "at": 985.25, "boot_id": processes.boot})
    for _ in range(2):  # and each agent after it
        (held,) = Processes(state).found()
        assert (held.phase, held.started_at) == (Phase.RUNNING, 985.25)


def test_that_it_has_declared_a_checkpoint_is_known_to_the_agent_after(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.of(REF).mkdir()
    write_json(state.of(REF) / "launch.json", launch_of())
    processes = Processes(state)
    write_json(state.of(REF) / "pid.json", {"pid": 7, "start": 1, "at": 985.25, "boot_id": processes.boot})
    said = []
    for line in ('{"type": "progress", "step": 1}', '{"type": "checkpoint", "step": 2, "path": "two"}'):
        (state.of(REF) / "events.jsonl").write_text(f"{line}\n")
        said += [held.declared for held in processes.found()]
    assert said == [False, True]
