"""The hand that does the faults of a plan to a house, and undoes them."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable
from itertools import combinations

import psutil

from tests.chaos_processes.database import FAST, IMMEDIATE
from tests.chaos_processes.faults import JUMPS_S, Fault
from tests.chaos_processes.house import STANDBY, House
from tests.chaos_processes.link import DOWN, UP
from tests.chaos_processes.node import Node
from tests.chaos_processes.programs import Program

HOLDS = {"hold up": (UP,), "hold down": (DOWN,), "hold both": (UP, DOWN)}
Undo = Callable[[], None]


def nothing() -> None:
    """There is nothing to undo."""


class Missed(Exception):
    """What the fault was meant for is not there just now."""


class Hand:
    """``kills`` counts what was really killed: programs, jobs, and nodes as one each."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.kills = 0

    def do(self, fault: Fault) -> tuple[str, Undo]:
        """It has happened; what exactly, and how to end it. Raises :class:`Missed` where it could not."""
        verb, _, what = fault.kind.partition(" ")
        if fault.kind in HOLDS:
            return self._wire(fault, lambda node: node.hold(HOLDS[fault.kind]))
        deed = getattr(self, f"_{verb}", None)
        if deed is None:
            raise ValueError(f"no hand does {fault.kind}")
        return deed(fault, what) if verb in ("kill", "stop", "fill") else deed(fault)

    # ------------------------------------------------------------ kill -9

    def _kill(self, fault: Fault, what: str) -> tuple[str, Undo]:
        if what == "job":
            node, leader = self._a_job(fault)
            leader.kill()
            self.kills += 1
            return f"job process {leader.pid} on {node.name}", nothing
        if what == "node":
            count = self._node(fault).die(fault.lasts_s)
            if not count:
                raise Missed
            self.kills += 1
            return f"{count} processes", nothing
        program = self._program(fault, what)
        if not program.kill(fault.lasts_s):
            raise Missed
        self.kills += 1
        return f"process {program.process.pid if program.process else 0}", nothing

    # ------------------------------------------------------------ SIGSTOP

    def _stop(self, fault: Fault, what: str) -> tuple[str, Undo]:
        if what == "job":
            node, leader = self._a_job(fault)
            leader.suspend()

            def resume() -> None:
                with contextlib.suppress(psutil.Error):
                    leader.resume()

            return f"job process {leader.pid} on {node.name}", resume
        program = self._program(fault, what)
        if not program.runs or program.process is None:
            raise Missed
        stopped = program.process

        def go_on() -> None:
            if program.process is stopped:
                program.send(signal.SIGCONT)

        program.send(signal.SIGSTOP)
        return f"process {stopped.pid}", go_on

    # ------------------------------------------------------------ wires

    def _wire(self, fault: Fault, deed: Callable[[Node], object]) -> tuple[str, Undo]:
        node = self._node(fault)
        deed(node)
        return "its wires to web and broker", node.mend

    def _cut(self, fault: Fault) -> tuple[str, Undo]:
        return self._wire(fault, lambda node: node.cut())

    def _slow(self, fault: Fault) -> tuple[str, Undo]:
        return self._wire(fault, lambda node: node.delay(0.1 + 0.4 * fault.lot))

    def _part(self, fault: Fault) -> tuple[str, Undo]:
        """Two nodes that work on one job."""
        network = self._house.network
        if network is None:
            return "left out: no network of hosts could be made here", nothing
        one, other = self._two_of_a_gang(fault)
        network.part(one, other)
        return f"{one} and {other}", lambda: network.rejoin(one, other)

    # ------------------------------------------------------------ broker, database, disks, clocks

    def _flush(self, fault: Fault) -> tuple[str, Undo]:
        try:
            with socket.create_connection(("127.0.0.1", self._house.broker_port), timeout=2) as broker:
                broker.sendall(b"FLUSHALL\r\n")
                said = broker.recv(100)
        except OSError as away:
            raise Missed from away
        return f"it said {said!r}", nothing

    def _restart(self, fault: Fault) -> tuple[str, Undo]:
        self._house.database.stop(FAST)
        return "fast shutdown", self._house.database.start

    def _crash(self, fault: Fault) -> tuple[str, Undo]:
        self._house.database.stop(IMMEDIATE)
        return "immediate shutdown", self._house.database.start

    def _fill(self, fault: Fault, what: str) -> tuple[str, Undo]:
        disk = self._node(fault).disk if what == "node" else self._house.store
        if not disk.own:
            return "left out: no file system could be mounted here", nothing
        disk.fill()
        return f"{disk.path} is full", disk.empty

    def _jump(self, fault: Fault) -> tuple[str, Undo]:
        node, seconds = self._node(fault), JUMPS_S[int(fault.lot * len(JUMPS_S))]
        node.jump(seconds)
        return f"by {seconds:+.0f} s", lambda: node.jump(0.0)

    # ------------------------------------------------------------ whom

    def _node(self, fault: Fault) -> Node:
        return self._house.nodes[fault.node]

    def _program(self, fault: Fault, what: str) -> Program:
        if what == "scheduler" and fault.lot < 0.5:
            what = STANDBY
        return self._house.programs.all[f"{what}-{fault.node}" if what in ("agent", "keeper") else what]

    def _two_of_a_gang(self, fault: Fault) -> tuple[str, str]:
        """Of all pairs of nodes that work on one attempt just now."""
        at_work = {node.name: set(node.at_work()) for node in self._house.nodes.values()}
        pairs = [(one, other) for one, other in combinations(sorted(at_work), 2) if at_work[one] & at_work[other]]
        if not pairs:
            raise Missed
        return pairs[int(fault.lot * len(pairs))]

    def _a_job(self, fault: Fault) -> tuple[Node, psutil.Process]:
        """One of all that run, so that the fault is not in vain where its node has none."""
        running = [(node, leader) for node in self._house.nodes.values() for leader in node.jobs()]
        if not running:
            raise Missed
        return running[int(fault.lot * len(running))]
