"""What a program lists as wrong reaches the last report one by one, bounded, with what was left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workers.agent.final_report import final_report
from workers.agent.messages import Exited
from workers.agent.outcome import Ending, Exit, Facts
from workers.agent.problems import MOST
from workers.agent.statedir import Ref
from workers.agent.tail import read_facts
from workers.emep_job import EventLog
from workers.engines.refusals import MORE, EngineRefusal, Problem
from workers.protocol import Outcome


def problem(n: int, size: int = 10) -> Problem:
    return Problem("out_of_range", f"{n} {'x' * size}", {"field": f"params.p{n}", "place": f"line {n}"})


def told(path: Path, refusal: EngineRefusal) -> Facts:
    """What the agent reads of the event by which a kind of ours tells the refusal."""
    events = EventLog(path)
    events.error(refusal.code, refusal.message, refusal.details)
    return read_facts(path, stop_offset=None)


def test_each_problem_is_there_once_with_its_field_and_code(tmp_path: Path) -> None:
    facts = told(tmp_path / "events", EngineRefusal.of([problem(1), problem(2)]))
    assert facts.problems == (
        {"field": "params.p1", "code": "out_of_range", "message": "1 xxxxxxxxxx"},
        {"field": "params.p2", "code": "out_of_range", "message": "2 xxxxxxxxxx"},
    )


def test_one_problem_is_a_list_of_one_and_an_error_without_a_field_is_none(tmp_path: Path) -> None:
    assert len(told(tmp_path / "one", EngineRefusal.of([problem(1)])).problems) == 1
    assert told(tmp_path / "none", EngineRefusal("disk_full", "no room")).problems == ()


@pytest.mark.parametrize(("count", "size"), [(MOST + 5, 1), (30, 400)])
def test_how_many_are_left_out_is_said(tmp_path: Path, count: int, size: int) -> None:
    found = told(tmp_path / "events", EngineRefusal.of(problem(n, size) for n in range(count))).problems
    assert len(found) <= MOST + 1
    assert found[-1] == {"field": "", "code": "omitted", "message": f"and {count - len(found) + 1} more, left out here"}


def test_a_problem_that_stands_for_others_counts_as_these(tmp_path: Path) -> None:
    rest = Problem("more_problems", "and 7 more in it", {"field": "params.dataset", MORE: 7})
    found = told(tmp_path / "events", EngineRefusal.of([*(problem(n, 1) for n in range(MOST)), rest])).problems
    assert found[-1]["message"] == "and 7 more, left out here"


@pytest.mark.parametrize("details", [3, [], {"problems": "x"}, {"problems": [1]}, {"problems": {}}])
def test_an_event_of_another_shape_lists_nothing(tmp_path: Path, details: Any) -> None:
    path = tmp_path / "events"
    path.write_text(json.dumps({"type": "error", "code": "c", "message": "m", "details": details}) + "\n")
    facts = read_facts(path, stop_offset=None)
    assert (facts.problems, facts.error_message) == ((), "m")


def test_texts_are_storable_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "events"
    listed = [{"field": None, "code": 3, "message": "\0" + "y" * 900}]
    path.write_text(json.dumps({"type": "error", "details": {"problems": listed}}) + "\n")
    (found,) = read_facts(path, stop_offset=None).problems
    assert (found["field"], found["code"], found["message"]) == ("", "3", "\N{REPLACEMENT CHARACTER}" + "y" * 499)


@pytest.mark.parametrize(("outcome", "listed"), [(Outcome.FAILED, True), (Outcome.PREEMPTED, False)])
def test_the_last_report_of_a_failure_has_them(outcome: Outcome, listed: bool) -> None:
    facts = Facts(problems=({"field": "params.a", "code": "c", "message": "m"},))
    exited = Exited(Ref("a" * 36, 1), Exit(cause="exit", exit_code=2), facts)
    report = final_report(exited.ref, Ending(outcome), exited=exited, stop=None, artifacts=(), checkpoint=None)
    assert report.get("errors") == (list(facts.problems) if listed else None)
