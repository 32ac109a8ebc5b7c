"""A machine in virtual time, for tests: no clock, no file, no socket."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from tests.workers.agent.server import launch_of
from workers.agent import messages as m
from workers.agent.attempt import Held
from workers.agent.machine import Machine
from workers.agent.outcome import Exit, Facts
from workers.agent.phase import Phase
from workers.agent.statedir import Ref
from workers.protocol import Timings

T = Timings()
REF = Ref("a1", 1)
SILENT = m.Failure(m.FailureKind.SILENT, "ReadTimeout")
REFUSED = m.Failure(m.FailureKind.REFUSED, "connection refused")
C = TypeVar("C")


class World:
    """A machine with a clock of its own; remembers the last commands and how often each kind came."""

    def __init__(
        self, found: list[Held] | None = None, deadline: float = 0.0, outage_grace_s: float = math.inf
    ) -> None:
        self.machine = Machine(timings=T, deadline=deadline, found=found or [], outage_grace_s=outage_grace_s)
        self.now = 1000.0
        self.last: list[m.Command] = []
        self.ever: list[m.Command] = []

    def tell(self, event: m.Event) -> list[m.Command]:
        self.last = self.machine.handle(event, self.now)
        self.ever += self.last
        return self.last

    def pass_to(self, seconds: float) -> None:
        """Let time pass up to ``seconds`` after the start (at 1000), waking whenever the machine wants to."""
        end = 1000.0 + seconds
        while self.now < end:
            self.now = min(end, self.now + max(0.001, self.machine.next_wake(self.now)))
            self.tell(m.Tick())

    def count(self, kind: type[C]) -> list[C]:
        return [c for c in self.ever if isinstance(c, kind)]

    def registered(self, kill: tuple[str, ...] = ()) -> World:
        self.tell(m.Tick())
        timings = {name: getattr(T, name) for name in T.__dataclass_fields__}
        reply: Any = {"adopt": [], "kill": list(kill), **timings}
        self.tell(m.RegisterDone(self.now, reply))
        return self

    def beat(
        self, *desired: dict[str, Any], answers: list[dict[str, Any]] | None = None, sent: float | None = None
    ) -> list[m.Command]:
        """The call under way is answered; by default every report in it is taken."""
        assert self.machine.flight is not None
        if answers is None:
            answers = [{"n": n, "ok": True} for n in self.machine.flight.reports]
        reply: Any = {"desired": list(desired), "canary": [], "answers": answers}
        return self.tell(m.HeartbeatDone(self.now if sent is None else sent, reply))

    def running(self, **launch: Any) -> World:
        """Registered, claimed and started one attempt at the current time."""
        self.registered()
        self.beat(run())
        self.tell(m.Claimed(REF, launch_of(**launch)))  # type: ignore[arg-type]
        self.tell(m.Prepared(REF))
        self.tell(m.Born(REF, 42, self.now))
        self.beat(run())
        return self

    def waiting(self, rank: int = 0, port: int = 41000) -> World:
        """Registered, claimed and ready one part of an attempt on two nodes; the server has heard of it."""
        self.registered()
        self.beat(run())
        self.tell(m.Claimed(REF, launch_of(node_count=2, node_rank=rank)))  # type: ignore[arg-type]
        self.tell(m.Prepared(REF))
        if rank == 0:
            self.tell(m.Bound(REF, port))
        self.beat(run())
        return self

    def together(self, rank: int = 0) -> World:
        """Like :meth:`waiting`, and all parts were told to go and run."""
        self.waiting(rank)
        ring(self)
        self.beat(go())
        self.tell(m.Born(REF, 42, self.now))
        self.beat(go())
        return self

    def ends(self, end: Exit, facts: Facts | None = None) -> list[m.Command]:
        return self.tell(m.Exited(REF, end, facts or Facts()))


def run(ref: Ref = REF) -> dict[str, Any]:
    return {"attempt": ref.attempt, "epoch": ref.epoch, "action": "run", "grace_s": 120.0}


def go(port: int = 41000) -> dict[str, Any]:
    return {**run(), "go": {"address": "n7", "port": port}}


def stop(why: str, action: str = "stop", grace_s: float = 120.0) -> dict[str, Any]:
    return {"attempt": "a1", "epoch": 1, "action": action, "grace_s": grace_s, "why": why}


def of(commands: list[m.Command], kind: type[C]) -> list[C]:
    return [c for c in commands if isinstance(c, kind)]


def ring(world: World) -> list[m.Command]:
    return world.tell(m.BellRang())


def silence(world: World, seconds: float) -> None:
    """Every call from now on times out."""
    end = world.now + seconds
    if world.machine.flight is None:
        ring(world)
    while world.now + T.retry_s <= end:
        world.now += T.retry_s
        world.tell(m.CallFailed(SILENT))
    world.pass_to(end - 1000.0)


def drive(world: World, seconds: float) -> None:
    """Time passes, and the server answers every heartbeat."""
    while world.now < 1000.0 + seconds:
        if world.machine.flight is not None:
            world.beat(run())
        world.pass_to(min(seconds, world.now - 1000.0 + max(0.001, world.machine.next_wake(world.now))))


def finished(world: World) -> World:
    """The job has ended and its log is delivered."""
    world.ends(Exit(0))
    world.tell(m.Tailed(REF, log_done=True))
    return world


def left_by_another(phase: Phase, **more: Any) -> Held:
    return Held(REF, phase, launch=launch_of(), **more)  # type: ignore[arg-type]
