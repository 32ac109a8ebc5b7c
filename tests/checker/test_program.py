"""The checker as a program: what it reads, what it says, and how it exits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from django.db import connection

from tests import builders as b
from tests.checker import export
from tests.checker.__main__ import main
from tests.checker.evidence import Evidence, read
from tests.checker.lawful import History, one_job
from tests.checker.table import DECIDED


def written(directory: Path, evidence: Evidence) -> list[str]:
    """The history as the two logs on disk; the arguments that name them."""
    lines = [{"table": "house", **asdict(evidence.house)}]
    lines += [{"table": "event", **asdict(event)} for event in evidence.events]
    lines += [{"table": name, **row} for name, rows in evidence.rows.items() for row in rows]
    (directory / "events.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    truth = directory / "truth"
    truth.mkdir()
    (truth / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in evidence.truth))
    return ["--events", str(directory / "events.jsonl"), "--truth", str(truth)]


def late() -> History:
    """A process that lived five seconds longer than its GPUs were held."""
    history, _ = one_job()
    history.truth[-1]["at"] += 6
    history.truth[-1]["wall"] += 6
    return history


@pytest.mark.parametrize(("history", "status"), [(lambda: one_job()[0], 0), (late, 1)], ids=["lawful", "broken"])
def test_it_exits_by_what_it_found(tmp_path, capsys, history: Callable[[], History], status):
    assert main(written(tmp_path, history().evidence())) == status
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"checker: 9 events, 1 job processes, {len(set(DECIDED.values()))} invariants, {status} violations"


def test_a_violation_is_told_as_json_with_its_two_facts(tmp_path, capsys):
    main([*written(tmp_path, late().evidence()), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["violations"]
    assert (found["invariant"], found["job"], found["attempt"]) == ("I3", "a", "a-1")
    assert found["first"] == "process 101 of job a at epoch 1 lived until 1000055.000"
    assert found["second"] == "event 8 (attempt_ended at 1000050.000)"


@pytest.mark.parametrize("line", ["no json", "[1]", '{"seq": 1}'])
def test_what_is_no_export_is_refused_by_its_line(tmp_path, capsys, line):
    (tmp_path / "bad").write_text('{"table": "job", "id": "a"}\n' + line)
    assert main(["--events", str(tmp_path / "bad")]) == 2
    assert "line 2 is no exported row" in capsys.readouterr().err


def test_a_database_that_is_not_there_is_named(tmp_path, capsys):
    assert main(["--database", str(tmp_path / "none.sqlite3")]) == 2
    assert "none.sqlite3" in capsys.readouterr().err


@pytest.mark.django_db
def test_an_export_has_each_event_and_row_as_the_database_does():
    alice = b.people()["alice"]
    b.node("n1")
    run = b.running(alice, [b.model(alice, "a", 1), b.model(alice, "b", 2)])
    with connection.cursor() as cursor:
        lines = list(export.lines(cursor, settled=False, scale=0.5, now=b.later(9).timestamp()))
    evidence = read(lines)
    assert (evidence.house.scale, evidence.house.exported_at) == (0.5, b.later(9).timestamp())
    (granted,) = evidence.runs.values()
    assert (granted.job, granted.attempt, granted.epoch, sorted(granted.gpus)) == (
        run.job, run.attempt, run.epoch, sorted(run.gpus),
    )  # fmt: skip
    assert granted.granted.at == b.NOON.timestamp()
    assert evidence.jobs[run.job]["state"] == "RUNNING"
    assert evidence.jobs[run.job]["nvlink_required"] is True
    assert {row["gpu"] for row in evidence.allocations[run.attempt]} == set(run.gpus)
    assert set(evidence.rows) <= set(export.QUERIES)
