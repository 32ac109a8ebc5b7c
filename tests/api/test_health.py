"""Alive without a database; ready only with database, scheduler and broker."""

from __future__ import annotations

import socket

import pytest
from django.test import Client

from scheduling.store.queries import pool
from tests import builders as b


def test_alive_asks_no_database():
    assert Client().get("/healthz").json() == {"status": "ok"}


@pytest.mark.django_db
def test_not_ready_before_the_first_tick_and_ready_after_it(monkeypatch):
    b.people()
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["missing"].keys()) == (503, {"scheduler"})
    b.ticked()
    monkeypatch.setattr("scheduling.api.health.now", lambda: b.later(5))
    assert Client().get("/readyz").status_code == 200


@pytest.mark.django_db
def test_a_store_that_takes_nothing_is_named_though_the_service_is_ready(monkeypatch):
    b.people()
    monkeypatch.setattr("scheduling.services.artifact_files.can_store", lambda: False)
    b.ticked()
    monkeypatch.setattr("scheduling.api.health.now", lambda: b.later(5))
    assert Client().get("/readyz").json() == {"status": "ready", "missing": {}, "alarms": ["STORE_DOWN"]}


@pytest.mark.django_db
def test_not_ready_when_the_scheduler_stands_still(monkeypatch):
    b.people()
    b.ticked()
    monkeypatch.setattr("scheduling.api.health.now", lambda: b.later(pool.LATE_S + 1))
    assert "26.0 s ago" in Client().get("/readyz").json()["missing"]["scheduler"]


@pytest.mark.django_db
def test_a_broker_that_refuses_is_missing(settings):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        settings.BROKER_URL = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
        assert Client().get("/readyz").json()["missing"]["broker"] == "it can't be reached"


@pytest.mark.django_db
def test_a_broker_that_is_silent_is_waited_for_a_few_seconds_at_most(settings, monkeypatch):
    waits = []

    def silent(connection):
        waits.append(connection.socket_connect_timeout)
        raise TimeoutError

    monkeypatch.setattr("redis.connection.Connection._connect", silent)
    monkeypatch.setattr("redis.retry.sleep", waits.append)
    settings.BROKER_URL = "redis://127.0.0.1:1/0"
    assert Client().get("/readyz").json()["missing"]["broker"] == "it can't be reached"
    assert waits
    assert sum(waits) < 10  # a connection without a limit has None, which is no number


def test_a_database_that_is_away_is_missing(monkeypatch):
    from django.db import OperationalError

    def away() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr("scheduling.api.health.now", away)
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["missing"]) == (503, {"database": "it does not answer"})
