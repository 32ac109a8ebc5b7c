"""The server of a house of chaos: the real services and the real tick, which may die at any write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from scheduling.core.plan import Plan
from scheduling.services import pool, tick
from scheduling.store import journal
from scheduling.store.wake import newest_event
from tests.chaos.network import Declined, Down
from workers.agent.statedir import Ref

if TYPE_CHECKING:
    from tests.chaos.house import House

ACCEPTS_S = 8.0
PERIOD_S = 10.0
COALESCE_S = 3.0
# A scheduler that takes longer has lost its lease.
SLOW_SHARE, BACK_SHARE, SLOW_S = 0.1, 0.7, 9.0


class Died(Exception):
    """The process ended in the middle of a transaction: nothing of that is written."""


class Server:
    """Web and scheduler, two processes; each is down for a while once it has died."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.up, self.refuses = True, True
        self.leads, self.leader = True, 0
        self.ticker = tick.Ticker()
        self.deaths = self.ticks = 0
        self.fragile = False
        self._seen = -1
        self._last_tick = -PERIOD_S

    # ------------------------------------------------------------ requests

    def serve(self, verb: Callable[[], Any]) -> Any:
        """The verb's answer; raises :class:`Down` when there is no server, :class:`Declined` when it says no."""
        if not self.up:
            raise Down(refused=self.refuses)
        try:
            with self._fragile():
                result = verb()
        except Died:
            self._web_died()
            raise Down(refused=False) from None
        if hasattr(result, "code") and hasattr(result, "message"):
            raise Declined(result.status, result.code, result.message)
        return result

    def node_call(self, what: str, node: str, body: Any) -> Any:
        """``register`` or ``heartbeat`` of the node."""
        verb = pool.register if what == "register" else pool.heartbeat
        return self.serve(lambda: verb(node, body, self.house.clock.wall))

    def claim(self, node: str, ref: Ref) -> Any:
        """The launch document."""
        return self.serve(lambda: pool.claim(node, ref.attempt, ref.epoch, self.house.clock.wall))

    def _web_died(self) -> None:
        self.deaths += 1
        self.outage(1 + 12 * self.house.dice.random(), refuses=self.house.dice.random() < 0.5)

    def outage(self, seconds: float, *, refuses: bool) -> None:
        """No web process for a while."""
        self.up, self.refuses = False, refuses
        self.house.clock.after(seconds, self._back)

    def _back(self) -> None:
        self.up = True

    def accept(self) -> None:
        """A web process is there to be spoken to, as it writes down every few seconds."""
        if self.up:
            pool.accepting(self.house.clock.wall)
        self.house.clock.after(ACCEPTS_S, self.accept)

    # ------------------------------------------------------------ the scheduler

    def look(self) -> None:
        """A tick when something has changed or a period has passed."""
        now = self.house.clock.now
        if self.leads and (newest_event() != self._seen or now - self._last_tick >= PERIOD_S):
            self._last_tick = now
            self._tick()
        self.house.clock.after(COALESCE_S, self.look)

    def _tick(self) -> None:
        self.ticks += 1
        try:
            with self._fragile(), self._slow():
                tick.run_tick(f"scheduler-{self.leader}", self.house.clock.wall, self.ticker)
        except Died:
            self.deaths += 1
            self.scheduler_dies(2 + 15 * self.house.dice.random())
        self._seen = newest_event()

    def scheduler_dies(self, seconds: float) -> None:
        """Another one takes over after a while, when the lease of this one is over."""
        self.leads = False

        def back() -> None:
            self.leader += 1
            self.ticker, self.leads = tick.Ticker(), True

        self.house.clock.after(seconds, back)

    @contextmanager
    def _slow(self) -> Iterator[None]:
        """Some ticks take seconds between what they have decided and what they write, in which all else goes on: nodes
        that are to be given up return just then."""
        commit, dice, clock = tick.commit, self.house.dice, self.house.clock

        def late(plan: Plan, *told: Any) -> Any:
            gone = {lost.node for lost in plan.lose_nodes} | {node for taken in plan.reclaims for node in taken.nodes}
            if dice.random() < (BACK_SHARE if gone else SLOW_SHARE):
                for node in self.house.nodes:
                    if node.name in gone:
                        self.house.network.cut -= {(node.name, "up"), (node.name, "down")}
                        node.start_agent()
                clock.run(clock.now + SLOW_S * dice.random())
            return commit(plan, *told)

        with mock.patch.object(tick, "commit", late if self.fragile else commit):
            yield

    # ------------------------------------------------------------ death at a write

    @contextmanager
    def _fragile(self) -> Iterator[None]:
        """Each write of events inside may be the last, before it or behind it, as long as the server is fragile."""
        if not self.fragile:
            yield
            return
        write, dice = journal.write, self.house.dice

        def risky(notes: Any, now: Any) -> None:
            fate = dice.random()
            if fate < 0.004:
                raise Died
            write(notes, now)
            if fate > 0.996:
                raise Died

        with mock.patch.object(journal, "write", risky):
            yield
