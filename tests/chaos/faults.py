"""The faults of one story: which, when and for how long, all from its dice. Healing ends every one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workers.agent import messages
from workers.agent.outcome import Exit

if TYPE_CHECKING:
    from tests.chaos.house import House
    from tests.chaos.node import Node

HOT = {"temperature_c": 105.0}
GONE = {"error": "Unknown Error", "fault": "error"}


class Faults:
    """``kills`` counts what was killed: agents, keepers, nodes, jobs and schedulers."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.kills = 0

    def plan(self, seconds: float) -> None:
        """Some of each kind will happen within so many seconds."""
        dice = self.house.dice
        kinds: list[Callable[[], None]] = [
            self._agent, self._agent, self._keeper, self._power, self._job, self._job, self._cut, self._cut, self._cut,
            self._outage, self._scheduler, self._gpu, self._drain,
        ]  # fmt: skip
        for kind in kinds:
            if dice.random() < 0.8:
                self.house.clock.after(20 + (seconds - 20) * dice.random(), kind)

    def heal(self) -> None:
        """Every node runs and hears, every GPU is well."""
        self.house.network.cut.clear()
        for node in self.house.nodes:
            node.sick.clear()
            node.restore_power()
            node.start_agent()

    def _node(self) -> Node:
        return self.house.dice.choice(self.house.nodes)

    def _later(self, least: float, most: float, act: Callable[[], Any]) -> None:
        self.house.clock.after(least + (most - least) * self.house.dice.random(), act)

    def _agent(self) -> None:
        node = self._node()
        self.kills += node.agent is not None
        node.kill_agent()
        self._later(0.5, 40, node.start_agent)

    def _keeper(self) -> None:
        self.kills += 1
        self._node().kill_keeper()

    def _power(self) -> None:
        node = self._node()
        self.kills += 1
        node.cut_power()
        self._later(5, 200, node.restore_power)

    def _job(self) -> None:
        running = [job for node in self.house.nodes for job in node.jobs.values() if job.alive]
        if running:
            self.kills += 1
            self.house.dice.choice(running).end(Exit(None, 9), seen_dead=True)

    def _cut(self) -> None:
        node, dice = self._node(), self.house.dice
        ways = dice.choice([("up",), ("down",), ("up", "down")])
        lost = {(node.name, way) for way in ways}
        self.house.network.cut |= lost

        def restore() -> None:
            self.house.network.cut -= lost

        self._later(2, 110, restore)

    def _outage(self) -> None:
        self.house.server.outage(5 + 100 * self.house.dice.random(), refuses=self.house.dice.random() < 0.5)

    def _scheduler(self) -> None:
        self.kills += 1
        self.house.server.scheduler_dies(1 + 40 * self.house.dice.random())

    def _gpu(self) -> None:
        node, dice = self._node(), self.house.dice
        index = dice.randrange(node.gpus)
        node.sick[index] = dice.choice([HOT, GONE])
        self._later(5, 150, lambda: node.sick.pop(index, None))

    def _drain(self) -> None:
        """The agent is asked to end in order; a while after it has left it comes back."""
        self._node().feed(messages.Terminate(drain=True))
