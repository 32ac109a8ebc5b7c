"""The scheduler's loop: a tick every period, and at once when something happened. The one catch-all of the server."""

from __future__ import annotations

import threading

import structlog
from django.db import DatabaseError, close_old_connections, connection

from scheduling.services import now, tick
from scheduling.store import lease
from scheduling.store.wake import Waiter

log = structlog.get_logger(__name__)
# A burst of changes becomes one tick: at most ten a second.
COALESCE_S = 0.1


def run_scheduler(holder: str, stop: threading.Event, *, period_s: float) -> None:
    """Ticks until ``stop`` is set, then finishes the tick it is in and frees the lease.

    A database that goes away is waited for; any other fault of a tick is logged, counted and survived: what it had
    not committed is decided again.
    """
    waiter: Waiter | None = None
    ticker = tick.Ticker()
    lead = _Lead(holder)
    faults = 0
    while not stop.is_set():
        try:
            waiter = waiter or Waiter()
            result = tick.run_tick(holder, now(), ticker)
            faults = 0
            lead.tell(led=result.led)
            if result.started or result.reclaimed or result.stale:
                log.info("tick", started=result.started, reclaimed=result.reclaimed, stale=list(result.stale),
                         waiting=result.waiting, ms=round(result.milliseconds, 1))  # fmt: skip
            soonest = period_s if result.next_wakeup_s is None else min(period_s, max(0.01, result.next_wakeup_s))
            if waiter.wait(soonest if result.led else period_s, stop):
                stop.wait(COALESCE_S if result.milliseconds > 1000 * COALESCE_S else 0.01)
        except Exception as fault:  # the loop must outlive any one tick
            faults += 1
            log.exception("tick failed", faults=faults, reason=str(fault)[:300])
            waiter = None
            _drop_connection()
            stop.wait(min(30.0, period_s * faults))
    try:
        tick.step_down(holder)
    except DatabaseError as lost:
        log.warning("lease not freed", reason=str(lost)[:200])


class _Lead:
    """Who leads, as the log of this scheduler was last told."""

    def __init__(self, holder: str) -> None:
        self._holder, self._leader = holder, ""

    def tell(self, *, led: bool) -> None:
        """The log says who leads when that is another than before. ``led``: this scheduler did, in its last tick."""
        if led and self._leader == self._holder:
            return
        leader, epoch = lease.leader()
        before, self._leader = self._leader, self._holder if led else leader
        if before == self._leader:
            return
        if led:
            log.info("leads now", holder=self._holder, epoch=epoch, before=before or None)
        elif before == self._holder:
            log.warning("lost the lead", holder=self._holder, leader=leader or None, epoch=epoch)
        else:
            log.info("another leads", holder=self._holder, leader=leader or None, epoch=epoch)


def _drop_connection() -> None:
    """The next query opens a fresh connection: the old one may be in a broken transaction, or to a server that left."""
    close_old_connections()
    connection.close()
