"""One run: a house works, faults happen to it, they are healed, and then all must have come to the right end."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.chaos_processes import faults
from tests.chaos_processes.customers import ENDED, Customers
from tests.chaos_processes.database import SUPERUSER, Database
from tests.chaos_processes.hand import Hand, Missed, Undo, nothing
from tests.chaos_processes.house import House
from tests.chaos_processes.load import Load, Order
from tests.chaos_processes.network import Network
from tests.chaos_processes.node import wait_until
from tests.chaos_processes.undisturbed import Undisturbed
from tests.checker import export

PAUSE_S = 0.05
BUDGET = "lost to the infrastructure"


@dataclass(frozen=True)
class Setting:
    """How large a run is: ``seconds`` of faults; then all must have ended within ``patience_s``.

    ``scale`` is that of every wait of the house; ``throttle_s`` how long a merge takes for each of its tensors.
    """

    nodes: int
    load: Callable[[list[str], int], Load]
    seconds: float
    kills: int
    harms: int
    scale: float
    throttle_s: float
    patience_s: float = 300.0

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [f"node-{number + 1}" for number in range(self.nodes)]


@dataclass
class Found:
    """What a run came to: ``wrong`` has one line for each violation."""

    seed: int
    kills: int = 0
    harms: int = 0
    jobs: int = 0
    attempts: int = 0
    settled_s: float = 0.0
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Story:
    """``merges`` are running undisturbed meanwhile: at the end their bytes are compared with the house's."""

    def __init__(
        self, seed: int, setting: Setting, home: Path, database: Database, merges: Undisturbed, *, mounts: bool,
        network: Network | None,
    ) -> None:  # fmt: skip
        self.found = Found(seed)
        self._setting, self._home, self._merges = setting, home, merges
        home.mkdir(parents=True)
        self._record = home / "record.txt"
        self._begun = time.monotonic()
        self._house = House(home, database, f"emep_run_{seed}", nodes=setting.names, mounts=mounts,
                            network=network, scale=setting.scale, throttle_s=setting.throttle_s,
                            say=self._say)  # fmt: skip
        self._customers = Customers(self._house)
        self._hand = Hand(self._house)
        self._load = Load([])
        self._excused: set[str] = set()

    def live(self, prepared: Path) -> Found:
        """The whole run; whatever it finds, nothing of it runs afterwards."""
        try:
            self._house.start(prepared)
            self._live()
        except Exception as broken:
            self._say(f"the run broke off: {broken!r}")
            self.found.wrong.append(f"the run broke off: {broken!r}"[:1000])
        finally:
            self.found.kills = self._hand.kills
            self._keep_evidence()
            self._house.close()
        return self.found

    def _live(self) -> None:
        self._load = self._setting.load(list(self._house.demo["models"].values()), self.found.seed)
        for order in self._load.orders:
            if order.after_s < 0:
                self._customers.submit(order)
        self._wait(lambda: any(node.jobs() for node in self._house.nodes.values()), "a job runs", 60)
        self._customers.later(self._load.orders)
        self._say(f"faults begin; CPU seconds of what runs: {self._house.programs.spent()}")
        self._suffer()
        self._house.database.until_ready()
        self.found.wrong += [f"before all was healed: {found}" for found in self._house.findings(settled=False)]
        self._heal()
        self._judge()

    # ------------------------------------------------------------ faults

    def _suffer(self) -> None:
        """Every fault of the plan has happened and has lasted its time."""
        setting = self._setting
        ahead = faults.plan(self.found.seed, setting.names, seconds=setting.seconds, kills=setting.kills,
                            harms=setting.harms, scale=setting.scale)  # fmt: skip
        begun = time.monotonic()
        behind: list[tuple[float, str, Undo]] = []
        while ahead or behind or time.monotonic() - begun < setting.seconds:
            now = time.monotonic() - begun
            behind = self._undo(behind, now)
            if ahead and ahead[0].at_s <= now:
                self._one(ahead, behind, now)
            self._house.programs.keep()
            time.sleep(PAUSE_S)

    def _one(self, ahead: list[faults.Fault], behind: list[tuple[float, str, Undo]], now: float) -> None:
        fault = ahead.pop(0)
        try:
            what, undo = self._hand.do(fault)
        except Missed:
            if self._may_come(now):
                ahead.append(fault.later(now + 1.0))
                ahead.sort()
            else:
                self._say(f"left out, nothing was there to hit: {fault}")
            return
        self.found.harms += not fault.kind.startswith("kill")
        self._say(f"{fault}: {what}")
        if undo is not nothing:
            behind.append((now + fault.lasts_s, str(fault), undo))

    def _may_come(self, now: float) -> bool:
        """Whether there may be something to hit later: not for ever, and not once all jobs have ended."""
        seconds = self._setting.seconds
        return now < seconds or (now < 3 * seconds and not self._all_ended(self._load.orders))

    def _undo(self, behind: Sequence[tuple[float, str, Undo]], now: float) -> list[tuple[float, str, Undo]]:
        for until, what, undo in behind:
            if until <= now:
                undo()
                self._say(f"over: {what}")
        return [one for one in behind if one[0] > now]

    def _heal(self) -> None:
        """What is still done to the house is undone."""
        for node in self._house.nodes.values():
            node.heal()
        self._house.store.empty()
        self._house.programs.awake()
        self._say("healed")

    # ------------------------------------------------------------ the end

    def _judge(self) -> None:
        """All jobs have ended as they must, with the right bytes; all nodes are back; the checker is silent."""
        healed = time.monotonic()
        self._customers.come_back()
        self.found.wrong += self._customers.wrong
        known = [order for order in self._load.orders if order.name in self._customers.ids]
        try:
            self._wait(lambda: self._all_ended(known), "all jobs have ended", self._setting.patience_s)
            self._wait(lambda: self._house.ready() == set(self._house.names), "all nodes are ready again", 60)
        except AssertionError as never:
            self.found.wrong.append(f"{never}; the jobs are {self._customers.states()}")
        self.found.settled_s = time.monotonic() - healed
        self._say(f"settled; CPU seconds of what runs: {self._house.programs.spent()}")
        for order in known:
            self._one_end(order)
        self.found.jobs = len(known)
        self.found.wrong += self._house.findings(settled=True)

    def _one_end(self, order: Order) -> None:
        job = self._customers.job(order.name)
        self.found.attempts += job.get("attempt") or 0
        state = job.get("state")
        if state == "FAILED" and order.ends == "SUCCEEDED" and BUDGET in (job.get("error") or ""):
            self._excused.add(order.name)
            self.found.notes.append(f"{order.name} was lost as often as it may be")
            return
        if state == "CANCELLED" and order.after in self._excused and not order.body.get("after_any"):
            self._excused.add(order.name)
            self.found.notes.append(f"{order.name} comes after {order.after}, and can not")
            return
        if state != order.ends:
            told = [event["message"] for event in self._customers.events(order.name)]
            self.found.wrong.append(f"{order.name} {job.get('id')} ended {state}, not {order.ends}: {told}")
        elif order.leaves:
            right, left = self._merges.digests.get(order.leaves, order.leaves), self._customers.left(job, order.file)
            if left != right:
                self.found.wrong.append(f"{order.name} {job.get('id')} left {left}, undisturbed it is {right}")

    def _all_ended(self, orders: Sequence[Order]) -> bool:
        states = self._customers.states()
        return all(states.get(order.name) in ENDED for order in orders)

    def _wait(self, true: Callable[[], object], what: str, patience_s: float) -> None:
        wait_until(true, self._house.programs, what, patience_s)

    def _say(self, what: str) -> None:
        line = {"after_s": round(time.monotonic() - self._begun, 2), "wall": round(time.time(), 3), "what": what}
        with self._record.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def _keep_evidence(self) -> None:
        """What is needed to see why: the events for the checker, the truth, every log, each attempt's own files."""
        try:
            if self.found.wrong:
                (self._home / "wrong.txt").write_text("\n".join(self.found.wrong) + "\n")
            for node in self._house.nodes.values():
                shutil.copytree(node.state, node.home / "state", symlinks=True,
                                ignore=shutil.ignore_patterns("cache", "*.bell"))  # fmt: skip
            self._house.database.until_ready()
            with psycopg.connect(self._house.database.url(self._house.name, SUPERUSER)) as connection:
                lines = export.lines(connection.cursor(), settled=True, scale=self._setting.scale, now=time.time())
                (self._home / "events.jsonl").write_text("\n".join(lines) + "\n")
        except Exception as broken:
            self._say(f"not all evidence could be kept: {broken!r}")
