"""What an ended attempt leaves on its disk: told before its upload begins, and not held up by other uploads."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from tests.workers.agent.server import launch_of
from workers.agent import messages as m
from workers.agent.client import Api
from workers.agent.devices_release import Departures
from workers.agent.launch import lay_out
from workers.agent.statedir import Ref, StateDir
from workers.agent.transfers import AT_ONCE, Transfers
from workers.protocol import Timings

REF = Ref("a1", 1)


def told_first(tmp_path: Path, *files: str, declared: str | None, clean: bool = False) -> m.Event:
    """What is told first of an attempt that has left these files, while as many others as may are moving theirs."""
    state = StateDir(tmp_path)
    lay_out(state.of(REF))
    for name in files:
        path = state.of(REF) / "work" / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    events: queue.Queue[m.Event] = queue.Queue()
    threads: list[threading.Thread] = []

    def later(work: Any) -> None:
        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()

    transfers = Transfers(
        state, cast(Api, None), cast(Departures, None), timings=Timings, disk_bytes=0, later=later, post=events.put
    )
    for _ in range(AT_ONCE):
        transfers.room.acquire()
    launch: Any = launch_of(kind="command")
    transfers.publish(m.Publish(REF, launch, (), checkpoint=True, clean=clean, step=None, declared=declared))
    try:
        return events.get(timeout=30)
    finally:
        transfers.abort(REF)
        for _ in range(AT_ONCE):
            transfers.room.release()
        threads[0].join(30)


@pytest.mark.parametrize("declared", [None, "."])
def test_a_job_that_has_left_nothing_is_at_its_end_at_once(tmp_path: Path, declared: str | None) -> None:
    assert told_first(tmp_path, declared=declared) == m.Published(REF)


def test_what_a_job_that_did_not_end_in_order_has_changed_since_is_nothing(tmp_path: Path) -> None:
    """It had declared its whole directory: what was taken of it then counts."""
    assert told_first(tmp_path, "state.bin", declared=".") == m.Published(REF)


@pytest.mark.parametrize(("declared", "clean"), [(None, False), ("step-8", False), (".", True)])
def test_a_checkpoint_is_told_of_though_others_are_being_moved(
    tmp_path: Path, declared: str | None, clean: bool
) -> None:
    found = told_first(tmp_path, "step-8/state.bin", declared=declared, clean=clean)
    assert found == m.CheckpointFound(REF)
