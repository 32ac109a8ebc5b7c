"""A story is worth something only if a house with a fault of its own does not come through it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.models import NodeLive
from scheduling.store import load
from scheduling.store.clock import to_ms
from scheduling.store.commit import after, taking_back
from tests.chaos import house
from tests.chaos.house import story

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_server_that_gives_work_away_before_the_node_has_stopped_it_is_found_out(tmp_path, monkeypatch):
    policy_of = load.policy_of
    monkeypatch.setattr(load, "policy_of", lambda: replace(policy_of(), lease_s=15.0))
    found = story(1, tmp_path)
    assert {line.split()[0] for line in found.wrong} >= {"I21"}, found


def test_a_job_that_is_placed_before_those_that_it_waits_for_is_found_out(tmp_path, monkeypatch):
    stands = after.stands
    placed_at_once = {"awaits": 0}
    monkeypatch.setattr(after, "stands", lambda *told: stands(*told) and {**stands(*told), **placed_at_once})
    found = story(1, tmp_path)
    assert any(line.startswith("I36 a job was granted GPUs") for line in found.wrong), found


def test_a_job_that_goes_on_waiting_for_what_has_ended_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr(after, "_settle", lambda job, now: False)
    monkeypatch.setattr(house, "PATIENCE_S", 1800.0)
    found = story(1, tmp_path)
    assert {line.split(" [")[0] for line in found.wrong} & {
        "I36 a job counts its predecessors wrongly",
        "I36 a job waits for one that has failed",
    }, found


def test_a_scheduler_that_gives_up_a_node_that_was_heard_of_while_it_decided_is_found_out(tmp_path, monkeypatch):
    lose = taking_back._lose

    def whatever_was_heard(lost, **told):
        return lose(replace(lost, heard_ms=heard_ms(lost.node)), **told)

    monkeypatch.setattr(taking_back, "_lose", whatever_was_heard)
    found = story(5018, tmp_path)
    assert any(line.startswith("I21 a node was given up before its lease was over") for line in found.wrong), found


def heard_ms(node: str) -> int:
    return to_ms(NodeLive.objects.get(node__name=node).last_heartbeat_at)
