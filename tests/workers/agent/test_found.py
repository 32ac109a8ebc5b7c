"""What an agent that is started anew makes of the attempts it finds on its disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.agent.server import launch_of
from tests.workers.agent.world import REF
from workers.agent.attempt import Phase
from workers.agent.processes import Processes
from workers.agent.statedir import StateDir, write_json


@pytest.fixture
def before(tmp_path: Path) -> Processes:
    """The agent before: it has claimed one attempt, and no keeper runs."""
    state = StateDir(tmp_path / "state")
    state.of(REF).mkdir()
    write_json(state.of(REF) / "launch.json", launch_of())
    return Processes(state)


def phase(state: StateDir) -> Phase:
    (held,) = Processes(state).found()
    return held.phase


def test_what_the_keeper_was_not_told_of_is_prepared_again(before: Processes) -> None:
    write_json(before.state.of(REF) / "exec.json", {"argv": ["true"]})
    assert phase(before.state) is Phase.PREPARING


def test_what_the_keeper_was_told_to_start_is_starting_though_it_has_not_done_so_yet(before: Processes) -> None:
    before.start(REF)
    assert phase(before.state) is Phase.STARTING


def test_an_order_that_starts_nothing_changes_nothing(before: Processes) -> None:
    before.term(REF)
    (before.state.spool / "1.json").write_text("torn")
    assert phase(before.state) is Phase.PREPARING
