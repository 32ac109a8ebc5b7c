"""A keeper that hangs is known by its pulse and ended; one that is slow, starved or waits for its disk is not."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.test_keeper import FOREVER, STUBBORN, Kept, alive, keeping
from tests.workers.agent.test_whole_node import STOPPABLE, finished, gone, node, running, script
from tests.workers.agent.waiting import until
from workers.agent import pulse
from workers.agent.pulse import LEAST_SILENCE_S, LOOK_S, Pulse
from workers.agent.statedir import StateDir, boot_id, read_json, write_json

LOOKS = round(LEAST_SILENCE_S / LOOK_S)


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Kept]:
    """A keeper under SIGSTOP."""
    with keeping(tmp_path) as kept:
        os.kill(kept.keeper.pid, signal.SIGSTOP)
        until(lambda: pulse.proctable.state_of(kept.keeper.pid) == "T", "the stop")
        yield kept


def watch(hand: Pulse, looks: int, *, after_s: float = 0.0, every_s: float = LOOK_S) -> list[tuple[int, float] | None]:
    """What that many looks say, one ``every_s``, after the first, which finds the pulse for the first time."""
    return [hand.hung(n * every_s, after_s=after_s) for n in range(looks + 1)][1:]


def test_a_keeper_without_a_pulse_is_told_with_its_silence_and_once_in_such_a_time(stopped: Kept) -> None:
    told = watch(Pulse(stopped.state), 2 * LOOKS)
    assert [told.index(one) for one in told if one] == [LOOKS - 1, LOOKS - 1]  # equal: index finds the first
    assert [one for one in told if one] == [(stopped.keeper.pid, LEAST_SILENCE_S)] * 2


def test_a_longer_silence_is_waited_for_where_that_is_asked(stopped: Kept) -> None:
    told = watch(Pulse(stopped.state), 10, after_s=5.0)
    assert told == [None] * 9 + [(stopped.keeper.pid, 5.0)]


def test_what_the_agent_did_not_watch_does_not_count(stopped: Kept) -> None:
    assert watch(Pulse(stopped.state), 1, every_s=3600.0) == [None]


def test_looks_that_come_too_soon_do_not_count(stopped: Kept) -> None:
    assert not any(watch(Pulse(stopped.state), LOOKS, every_s=LOOK_S / 10))


def test_a_keeper_that_waits_for_its_disk_is_left_alone(stopped: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse.proctable, "state_of", lambda _: "D")
    assert not any(watch(Pulse(stopped.state), 10 * LOOKS))


def test_a_pid_that_was_given_to_somebody_else_is_left_alone(stopped: Kept) -> None:
    write_json(stopped.state.keeper_file, {**(read_json(stopped.state.keeper_file) or {}), "start": 1})
    assert not any(watch(Pulse(stopped.state), 10 * LOOKS))


def test_a_keeper_at_work_moves_between_two_looks_with_and_without_jobs(tmp_path: Path) -> None:
    with keeping(tmp_path) as kept:
        hand = Pulse(kept.state)
        for look in range(LOOKS + 1):
            if look == 2:
                kept.run(FOREVER.replace("while", "import time\nwhile"))
            assert hand.hung(look * LOOK_S, after_s=0.0) is None
            seen = kept.state.keeper_lock.stat().st_mtime_ns
            until(lambda seen=seen: kept.state.keeper_lock.stat().st_mtime_ns != seen, "the next beat")  # type: ignore[misc]


def test_a_hung_keeper_is_ended_with_its_jobs_and_the_next_sweeps_them(stopped: Kept) -> None:
    os.kill(stopped.keeper.pid, signal.SIGCONT)
    pid = stopped.run(STUBBORN + FOREVER)
    os.kill(stopped.keeper.pid, signal.SIGSTOP)
    stopped.processes.kill(stopped.processes.state.refs()[0])
    words = until(lambda: stopped.processes.end_hung_keeper(after_s=0.0), "the end of what hangs")
    assert stopped.keeper.wait(30) == -signal.SIGKILL
    assert f"the keeper (pid {stopped.keeper.pid}) has hung for 2" in words
    assert words.endswith("s: ended it, and its jobs with it")
    stopped.keeper = stopped.spawn()
    assert (stopped.end().cause, stopped.end().clean, alive(pid)) == ("keeper", True, False)
    assert stopped.end().error == "its keeper hung for 2 s, so the agent ended it"
    assert not stopped.state.keeper_ended.exists()


def test_a_hung_keeper_of_another_user_is_told_of(stopped: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as strange:
        strange.setattr(pulse.os, "kill", refused)
        words = until(lambda: stopped.processes.end_hung_keeper(after_s=0.0), "the word of what hangs")
    assert words.endswith("this user may not end it: whoever started it must")
    assert (stopped.keeper.poll(), stopped.state.keeper_ended.exists()) == (None, False)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ({"pid": 7}, "its keeper hung for 5 s, so the agent ended it"),
        ({"pid": 8}, "the process that kept the job died"),
        ({"pid": 7, "boot_id": "another"}, "the process that kept the job died"),
    ],
)
def test_why_a_keeper_is_gone_is_said_of_that_one_alone(tmp_path: Path, ended: dict[str, object], words: str) -> None:
    state = StateDir(tmp_path)
    write_json(state.keeper_file, {"pid": 7, "boot_id": boot_id()})
    why = "its keeper hung for 5 s, so the agent ended it"
    write_json(state.keeper_ended, {"boot_id": boot_id(), "why": why, **ended})
    assert pulse.why_it_ended(state) == words


def test_of_a_keeper_that_died_by_itself_nothing_more_is_known(tmp_path: Path) -> None:
    assert pulse.why_it_ended(StateDir(tmp_path)) == "the process that kept the job died"


def test_a_job_whose_keeper_hangs_is_ended_as_asked_and_the_node_runs_the_next(tmp_path: Path) -> None:
    with node(tmp_path) as (server, one):
        server.grant(launch_of(argv=script(STOPPABLE)))
        one.start_agent()
        pid = running(server, one)
        hung = one.keeper_pid()
        os.kill(hung, signal.SIGSTOP)
        server.want("a1", "kill", "cancel")
        until(lambda: gone(pid), "the job's death")
        report = finished(server)
        assert (report["outcome"], report["detail"]) == ("LOST", "keeper")
        assert re.fullmatch(r"its keeper hung for \d+ s, so the agent ended it", report["error"])
        server.grant(launch_of("a2", argv=script("print('ran', flush=True)")))
        assert finished(server, "a2")["outcome"] == "SUCCEEDED"
        assert one.keeper_pid() != hung
