"""What a job's files say by its end, and what of a flood of events is still heard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workers.agent.server import launch_of
from workers.agent.declared import WHOLE, facts_at_end
from workers.agent.launch import lay_out
from workers.agent.messages import Saved
from workers.agent.outcome import Exit, Facts
from workers.agent.tail import EventsTail


def facts(
    tmp_path: Path, params: dict[str, Any] | None = None, kind: str = "command", end: Exit | None = None
) -> Facts:
    document: Any = launch_of(kind=kind, params=params or {})
    return facts_at_end(tmp_path, document, end=end or Exit(0), stop_offset=None)


def laid(tmp_path: Path, *outputs: str, events: tuple[dict[str, Any], ...] = ()) -> None:
    lay_out(tmp_path)
    for name in outputs:
        (tmp_path / "work" / "output" / name).write_text(name)
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))


def test_the_done_file_of_a_command_is_looked_for_in_its_output(tmp_path: Path) -> None:
    laid(tmp_path, "finished")
    assert facts(tmp_path, {"done_file": "finished"}).done_file is True
    assert facts(tmp_path, {"done_file": "another"}).done_file is False
    assert facts(tmp_path).done_file is False


def test_what_a_command_left_is_its_output_when_it_announced_none(tmp_path: Path) -> None:
    laid(tmp_path, "r.txt")
    assert facts(tmp_path).artifacts == (WHOLE,)


def test_what_a_command_announced_is_all_its_output(tmp_path: Path) -> None:
    announced = {"type": "artifact", "name": "r", "path": "r.txt"}
    laid(tmp_path, "r.txt", "more.txt", events=(announced,))
    assert facts(tmp_path).artifacts == (announced,)


def test_nothing_left_is_no_output(tmp_path: Path) -> None:
    laid(tmp_path)
    assert facts(tmp_path).artifacts == ()


def test_a_built_in_kind_must_announce_its_output(tmp_path: Path) -> None:
    laid(tmp_path, "left")
    assert facts(tmp_path, kind="merge").artifacts == ()


def test_the_last_declared_checkpoint_is_known_by_its_place_and_step(tmp_path: Path) -> None:
    laid(tmp_path, events=(
        {"type": "checkpoint", "step": 1, "path": "step-1/"}, {"type": "checkpoint", "step": 2, "path": "step-2"},
    ))  # fmt: skip
    found = facts(tmp_path)
    assert (found.last_path, found.last_step) == ("step-2", 2)


def test_a_checkpoint_without_a_place_is_the_whole_directory(tmp_path: Path) -> None:
    laid(tmp_path, events=({"type": "checkpoint"},))
    found = facts(tmp_path)
    assert (found.last_path, found.last_step) == (".", None)


REACHED = tuple({"type": "progress", "step": n, "total": 100} for n in (26, 27))
OTHER_CODE = {"checkpoint_exit_code": 75}


@pytest.mark.parametrize(
    ("end", "params", "events", "step"),
    [
        (Exit(85), {}, REACHED, 27),
        (Exit(75), OTHER_CODE, REACHED, 27),
        (Exit(85), OTHER_CODE, REACHED, None),
        (Exit(1), {}, REACHED, None),
        (Exit(signal=15), {}, REACHED, None),
        (Exit(85, cause="kill"), {}, REACHED, None),
        (Exit(1), {}, (*REACHED, {"type": "yield"}), 27),
        (Exit(85), {}, (*REACHED, {"type": "checkpoint"}), 27),
        (Exit(85), {}, ({"type": "checkpoint", "step": 20}, *REACHED), 20),
        (Exit(85), {}, (*REACHED, {"type": "progress", "step": "x"}), 27),
        (Exit(85), {}, (), None),
    ],
)
def test_who_leaves_to_be_run_again_has_saved_where_it_told_last_that_it_was(
    tmp_path: Path, end: Exit, params: dict[str, Any], events: tuple[dict[str, Any], ...], step: int | None
) -> None:
    laid(tmp_path, events=events)
    assert facts(tmp_path, params, end=end).last_step == step


def test_no_flood_of_lines_hides_a_checkpoint(tmp_path: Path) -> None:
    metric = {"type": "metric", "step": 1, "name": "a", "value": 1.0}
    laid(tmp_path, events=(*[metric] * 500, {"type": "checkpoint", "step": 9, "path": "step-9"}))
    tail = EventsTail(tmp_path / "events.jsonl")
    heard = tail.poll(0.0)
    assert (len(heard), tail.saved) == (100, Saved("step-9", 9))
    tail.poll(1.0)
    assert tail.saved is None
