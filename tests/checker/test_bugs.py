"""Each deliberate bug makes the checker report the invariant that it breaks; without it the same scenario is lawful."""

from __future__ import annotations

import pytest
from django.db import connection

from tests import builders as b
from tests.checker.bugs import BUGS
from tests.checker.check import check_database

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
@pytest.mark.parametrize("on", [False, True], ids=["off", "on"])
def test_a_deliberate_bug_breaks_its_invariant_and_its_scenario_alone_none(bug, on, monkeypatch, artifact_dir):
    if on:
        bug.switch(monkeypatch)
    truth = tuple(bug.scenario(monkeypatch))
    with connection.cursor() as cursor:
        findings = check_database(cursor, now=b.later(130).timestamp(), truth=truth, artifacts=artifact_dir)
    assert {f.split()[0] for f in findings} == ({bug.invariant} if on else set()), findings


def test_all_ten_bugs_of_the_design_are_here():
    assert len({bug.switch for bug in BUGS}) == len({bug.name for bug in BUGS}) == 10
