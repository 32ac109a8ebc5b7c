"""What the tests' README says of the checker and of cases is so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.checker.bugs import BUGS
from tests.checker.table import DECIDED, NOT_DECIDED

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "tests/README.md").read_text("utf-8")


def test_every_test_that_it_names_is_there():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", README)
    assert len(named) > 60
    assert [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text("utf-8")] == []


def test_it_lists_each_decision_and_each_reason_why_there_is_none():
    rows = dict(re.findall(r"^\| (I\d+) \| (.*?) \|", README, re.MULTILINE))
    for decide, number in DECIDED.items():
        assert f"{decide.__module__.rsplit('.', 1)[1]}.{decide.__name__}" in rows[number]
    assert {number for number in rows if "`" not in rows[number].split(";")[0]} == set(NOT_DECIDED)


def test_it_lists_each_bug():
    rows = dict(re.findall(r"^\| ([^|]+) \| (I\d+) \|", README, re.MULTILINE))
    assert {bug.name: bug.invariant for bug in BUGS}.items() <= rows.items()
