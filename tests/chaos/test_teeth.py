"""A story is worth something only if a house with a fault of its own does not come through it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.store import load
from tests.chaos.house import story

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_server_that_gives_work_away_before_the_node_has_stopped_it_is_found_out(tmp_path, monkeypatch):
    policy_of = load.policy_of
    monkeypatch.setattr(load, "policy_of", lambda: replace(policy_of(), lease_s=15.0))
    found = story(1, tmp_path)
    assert {line.split()[0] for line in found.wrong} >= {"I21"}, found
