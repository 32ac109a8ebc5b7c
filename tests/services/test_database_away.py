"""The scheduler's loop while its database goes away and comes back: it goes on by itself, with a fresh connection."""

from __future__ import annotations

import threading

import pytest
from django.db import InterfaceError, OperationalError, connection

from scheduling.models import SchedulerState
from scheduling.services import watch
from scheduling.services.tick import TickResult

FAULTS = [
    OperationalError("server closed the connection unexpectedly"),
    InterfaceError("connection already closed"),
    OperationalError("the database system is starting up"),
]


class NeverWoken:
    """A waiter that needs no database."""

    def wait(self, seconds: float, stop: threading.Event) -> bool:
        return stop.wait(0)


@pytest.mark.django_db(transaction=True)
def test_ticks_go_on_after_faults_of_every_kind_each_with_a_connection_that_works(monkeypatch):
    stop, ticks, faults = threading.Event(), [], iter(FAULTS)

    def tick(holder, moment, ticker):
        fault = next(faults, None)
        if fault is not None:
            connection.connection.close()  # as a server that leaves does it: Django still believes in it
            raise fault
        ticks.append(SchedulerState.objects.count())
        stop.set()
        return TickResult(led=True)

    SchedulerState.objects.count()
    monkeypatch.setattr(watch, "Waiter", NeverWoken)
    monkeypatch.setattr(watch.tick, "run_tick", tick)
    watch.run_scheduler("test", stop, period_s=0.001)
    assert (ticks, next(faults, None)) == ([SchedulerState.objects.count()], None)


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_can_not_be_freed_at_the_end_stops_nobody_from_ending(monkeypatch):
    stop = threading.Event()
    stop.set()

    def away(holder):
        raise OperationalError("the database system is shutting down")

    monkeypatch.setattr(watch.tick, "step_down", away)
    assert watch.run_scheduler("test", stop, period_s=0.001) is None
