"""A node: the agent's real machine, and a faithful double of its loop, its keeper and its disk on virtual time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.chaos.process import Directory, Process
from tests.chaos.transfer import fetched, sent
from workers.agent import messages as m
from workers.agent.attempt import Held
from workers.agent.machine import Machine
from workers.agent.messages import Failure, FailureKind, Saved
from workers.agent.outcome import Exit
from workers.agent.phase import ALIVE, Phase
from workers.agent.statedir import Ref
from workers.protocol import Timings

if TYPE_CHECKING:
    from tests.chaos.house import House

BACK_S = 60.0
POLL_S = 2.0


class Node:
    """One node of the house. ``agent`` None: it is down; the keeper and the jobs live on without it."""

    def __init__(self, house: House, name: str, gpus: int, rack: str) -> None:
        self.house, self.name, self.gpus, self.rack = house, name, gpus, rack
        self.boots, self.powered, self.life = 0, True, 0
        self.agent: Machine | None = None
        self.disk: dict[Ref, Directory] = {}
        self.jobs: dict[Ref, Process] = {}
        self.lease: m.WriteLease | None = None
        self.sick: dict[int, dict[str, Any]] = {}
        self.to_test: list[str] = []
        self.log_at: dict[Ref, int | None] = {}
        self.polls: set[Ref] = set()
        self.aborted: set[Ref] = set()
        self.working: set[tuple[str, Ref]] = set()
        self.ports = 20_000

    @property
    def boot_id(self) -> str:
        return f"boot-{self.name}-{self.boots}"

    # ------------------------------------------------------------ its programs come and go

    def start_agent(self) -> None:
        """An agent runs; it finds what is on the disk."""
        if self.agent is not None or not self.powered:
            return
        self.life += 1
        self.log_at, self.polls, self.aborted, self.working = {}, set(), set(), set()
        deadline = self.lease.deadline if self.lease is not None else 0.0
        self.agent = Machine(timings=Timings(), deadline=deadline, found=self._found(), sees_gpus=True)
        self.agent.seq = round(self.house.clock.boot * 1000)
        for held in list(self.agent.attempts.values()):
            self._watch(held.ref)
        self.feed(m.Tick())

    def _found(self) -> list[Held]:
        """The attempts as ``Processes.found`` finds them."""
        found = []
        for ref, on_disk in sorted(self.disk.items()):
            if on_disk.launch is None and on_disk.report is None:
                del self.disk[ref]
                continue
            one = Held(ref, Phase.PREPARING, launch=on_disk.launch, stop=on_disk.stop)
            if on_disk.report is not None:
                one.phase, one.report = Phase.FINISHED, on_disk.report
            elif on_disk.born is not None and on_disk.born[2] == self.boot_id:
                one.phase, one.started_at = Phase.RUNNING, on_disk.born[1]
                one.add({"type": "started", "pid": on_disk.born[0]})
            elif on_disk.born is not None or on_disk.status is not None:
                one.phase, one.gone = Phase.STARTING, on_disk.status is None
            elif on_disk.told_to_start:
                one.phase = Phase.STARTING
            if on_disk.upload_until is not None and on_disk.upload_until[1] == self.boot_id:
                one.upload.until = on_disk.upload_until[0]
            one.events_offset = one.events_kept = on_disk.kept
            found.append(one)
        return found

    def kill_agent(self) -> None:
        """The agent is gone; nobody is told."""
        self.agent, self.life = None, self.life + 1

    def kill_keeper(self) -> None:
        """The keeper is gone and takes its jobs along; the next one writes down that it was so."""
        for job in list(self.jobs.values()):
            job.kill("keeper")

    def cut_power(self) -> None:
        """Everything stops at once; the disk keeps what was written, the next boot has another id."""
        self.kill_agent()
        self.powered, self.lease = False, None
        for job in list(self.jobs.values()):
            job.alive = False
            self.house.tell("died", job=job.launch["job"], epoch=job.ref.epoch, pid=job.pid)
        self.jobs.clear()

    def restore_power(self) -> None:
        """The node boots; its keeper finds what the one before was told to start, and a lease of another boot."""
        if not self.powered:
            self.powered, self.boots = True, self.boots + 1
            for on_disk in self.disk.values():
                if on_disk.told_to_start and on_disk.born is None and on_disk.status is None:
                    on_disk.status = Exit(None, None, "fence", "the lease is over")
            self.start_agent()

    # ------------------------------------------------------------ the loop

    def feed(self, event: m.Event) -> None:
        """The machine hears of it, and what it orders is done."""
        if self.agent is None:
            return
        for command in self.agent.handle(event, self.house.clock.boot):
            if self.agent is None:
                return
            getattr(self, f"_do_{type(command).__name__.lower()}")(command)
        if self.agent is not None:
            if self.agent.left:
                self.kill_agent()
                self.house.clock.after(BACK_S, self.start_agent)  # whoever asked it to leave starts it again
                return
            self.later(self.agent.next_wake(self.house.clock.boot), lambda: self.feed(m.Tick()), once="wake")

    def later(self, seconds: float, act: Callable[[], None], *, once: str = "") -> None:
        """``act`` in so many seconds, unless this agent is gone by then; of those with one name only the newest."""
        life = self.life
        if once:
            self.wakes = getattr(self, "wakes", 0) + 1
        number = getattr(self, "wakes", 0)

        def due() -> None:
            if self.life == life and (not once or number == self.wakes):
                act()

        self.house.clock.after(seconds, due)

    def call(
        self, serve: Callable[[], Any], *, timeout_s: float, done: Callable[[Any], None], failed: Callable[..., None]
    ) -> None:
        """Ask the server; the answer counts only while this agent lives."""
        life = self.life

        def if_alive(tell: Callable[[Any], None]) -> Callable[[Any], None]:
            return lambda value: tell(value) if self.life == life else None

        self.house.network.call(self.name, serve, timeout_s=timeout_s, done=if_alive(done), failed=if_alive(failed))

    def _spoken(self, event: str, sent: float, **more: Any) -> None:
        self.house.tell(event, node=self.name, sent=round(sent, 4), **more)

    # ------------------------------------------------------------ calls

    def _do_sendregister(self, command: m.SendRegister) -> None:
        body = {**self.house.description(self, command.attempts), "seq": command.seq}
        self._say("register", body, Timings().retry_s, lambda sent, reply: m.RegisterDone(sent, reply), checked=False)

    def _do_sendheartbeat(self, command: m.SendHeartbeat) -> None:
        body = {
            "boot_id": self.boot_id, "seq": command.seq, "draining": command.draining, "disk_low": False,
            "attempts": list(command.attempts), "reports": list(command.reports),
            "gpus": self._samples() if command.health else None,
        }  # fmt: skip

        def done(sent: float, reply: Any) -> m.Event:
            self.to_test = list(reply.get("canary", []))
            return m.HeartbeatDone(sent, reply)

        self._say("heartbeat", body, command.timeout_s, done, checked=command.health)

    def _say(
        self, what: str, body: Any, timeout_s: float, done: Callable[[float, Any], m.Event], *, checked: bool
    ) -> None:
        sent = self.house.clock.boot
        self.house.tell("sent", node=self.name, checked=checked)

        def heard(reply: Any) -> None:
            self._spoken("answered", sent)
            self.feed(done(sent, reply))

        def failed(failure: Failure) -> None:
            self._spoken("failed", sent, refused=failure.kind is FailureKind.REFUSED)
            self.feed(m.CallFailed(failure))

        self.call(lambda: self.house.server.node_call(what, self.name, body), timeout_s=timeout_s, done=heard,
                  failed=failed)  # fmt: skip

    def _samples(self) -> list[dict[str, Any]]:
        found = []
        for index in range(self.gpus):
            uuid = f"GPU-{self.name}-{index}"
            row = {"uuid": uuid, "utilization": 1.0, "temperature_c": 50.0, "temperature_limit_c": 95.0,
                   "memory_mib": self.house.memory_mib, "ecc": 0, **self.sick.get(index, {})}  # fmt: skip
            if uuid in self.to_test and index not in self.sick:
                row["canary"] = {"passed": True, "detail": "right"}
            found.append(row)
        return found

    def _do_claim(self, command: m.Claim) -> None:
        ref = command.ref

        def done(launch: Any) -> None:
            self.disk.setdefault(ref, Directory()).launch = launch
            self.feed(m.Claimed(ref, launch))

        self.call(lambda: self.house.server.claim(self.name, ref), timeout_s=9.0, done=done,
                  failed=lambda failure: self.feed(m.ClaimFailed(ref, failure)))  # fmt: skip

    # ------------------------------------------------------------ transfers

    def transfer(
        self, what: str, ref: Ref, serve: Callable[[], Any], done: Callable[[Any], m.Event],
        refused: Callable[[Failure], m.Event],
    ) -> None:  # fmt: skip
        """Bytes are moved by ``serve``, again and again until it works, is refused for good or is aborted."""
        if (what, ref) in self.working:
            return
        self.working.add((what, ref))

        def over(event: m.Event) -> None:
            self.working.discard((what, ref))
            self.feed(event)

        def failed(failure: Failure) -> None:
            if ref in self.aborted:
                self.working.discard((what, ref))
            elif failure.final or failure.stale:
                over(refused(failure))
            else:
                self.later(2.0 + 5 * self.house.dice.random(), attempt)

        def attempt() -> None:
            if ref in self.aborted:
                self.working.discard((what, ref))
                return
            self.call(serve, timeout_s=30.0, done=lambda value: over(done(value)), failed=failed)

        self.later(0.2 + 2 * self.house.dice.random(), attempt)

    def _do_prepare(self, command: m.Prepare) -> None:
        ref, launch = command.ref, command.launch

        def done(saved: tuple[int, str] | None) -> m.Event:
            if (on_disk := self.disk.get(ref)) is not None:  # else it was dropped meanwhile
                on_disk.checkpoint = saved
            return m.Prepared(ref)

        def refused(failure: Failure) -> m.Event:
            return m.PrepareFailed(ref, failure.message, retryable=failure.stale)

        self.transfer("prepare", ref, lambda: fetched(self.house, self.name, ref, launch), done, refused)

    def _do_publish(self, command: m.Publish) -> None:
        ref, on_disk = command.ref, self.disk[command.ref]
        saved = on_disk.checkpoint if command.checkpoint and (command.clean or on_disk.declared) else None

        def serve() -> tuple[tuple[str, ...], str | None]:
            made = sent(self.house, self.name, ref, output=on_disk.output) if command.outputs else None
            kept = sent(self.house, self.name, ref, saved=saved) if saved is not None else None
            return ((made,) if made else ()), kept

        def refused(failure: Failure) -> m.Event:
            return m.PublishFailed(ref, failure.message, failure.stale)

        if saved is not None:
            self.later(0.05, lambda: self.feed(m.CheckpointFound(ref)))
        self.transfer("publish", ref, serve, lambda made: m.Published(ref, *made), refused)

    def _do_snapshot(self, command: m.Snapshot) -> None:
        ref, saved = command.ref, self.disk[command.ref].checkpoint
        assert saved is not None

        def refused(failure: Failure) -> m.Event:
            return m.Snapshotted(ref, None, 0, failure.message, failure.stale)

        def serve() -> str:
            return sent(self.house, self.name, ref, saved=saved)

        self.transfer("snapshot", ref, serve, lambda made: m.Snapshotted(ref, made, saved[0]), refused)

    def _do_abort(self, command: m.Abort) -> None:
        self.aborted.add(command.ref)

    # ------------------------------------------------------------ jobs and the keeper

    def _do_lookatgpus(self, command: m.LookAtGpus) -> None:
        """Now and then the memory of a job outlives its processes for a look or two."""
        left = "GPU memory" if self.house.dice.random() < 0.2 else ""
        self.later(0.05, lambda: self.feed(m.GpusLooked(command.ref, left)))

    def _do_bind(self, command: m.Bind) -> None:
        on_disk = self.disk[command.ref]
        self.ports += not on_disk.port
        on_disk.port = on_disk.port or self.ports
        self.later(0.01, lambda: self.feed(m.Bound(command.ref, on_disk.port)))

    def _do_startjob(self, command: m.StartJob) -> None:
        ref = command.ref
        self.disk[ref].told_to_start = True
        self._watch(ref)
        boots = self.boots

        def begin() -> None:
            on_disk = self.disk.get(ref)
            if not self.powered or self.boots != boots or on_disk is None or on_disk.born or on_disk.status:
                return
            if self._fenced():  # a keeper without a lease starts nothing
                on_disk.status = Exit(None, None, "fence", "the lease is over")
                return
            pid = next(self.house.pids)
            on_disk.born = (pid, self.house.clock.boot, self.boot_id)
            self.jobs[ref] = Process(self, ref, on_disk, pid)

        self.house.clock.after(0.05 + self.house.dice.random(), begin)

    def _fenced(self) -> bool:
        return self.lease is None or self.house.clock.boot >= self.lease.deadline

    def buried(self, ref: Ref, how: Exit) -> None:
        """The keeper writes down how the process ended."""
        self.jobs.pop(ref, None)
        if ref in self.disk:
            self.disk[ref].status = dataclasses.replace(how, at=self.house.clock.boot)

    def _do_writelease(self, command: m.WriteLease) -> None:
        self.lease = command
        boots = self.boots

        def look() -> None:
            if self.boots != boots or not self.powered or self.lease is None or not self._fenced():
                return
            for job in list(self.jobs.values()):
                job.term()
            self.house.clock.after(self.lease.kill_s, kill)

        def kill() -> None:
            if self.boots == boots and self._fenced():
                for job in list(self.jobs.values()):
                    job.kill("fence")

        self.house.clock.after(command.deadline - self.house.clock.boot, look)

    def _record(self, ref: Ref, stop: m.StopAsked) -> None:
        on_disk = self.disk[ref]
        on_disk.stop = dataclasses.replace(stop, events_offset=len(on_disk.events))

    def _do_askstop(self, command: m.AskStop) -> None:
        self._record(command.ref, command.stop)
        if command.ref in self.jobs:
            self.jobs[command.ref].term()

    def _do_spare(self, command: m.Spare) -> None:
        """The preempt file is removed; the signal can't be taken back."""

    def _do_kill(self, command: m.Kill) -> None:
        if command.stop is not None and command.ref in self.disk:
            self._record(command.ref, command.stop)
        if command.ref in self.jobs:
            self.jobs[command.ref].kill()
        elif (on_disk := self.disk.get(command.ref)) is not None and on_disk.born is None:
            on_disk.status = on_disk.status or Exit(None, 9, "kill", at=self.house.clock.boot)

    def _do_storefinished(self, command: m.StoreFinished) -> None:
        self.disk.setdefault(command.ref, Directory()).report = command.report
        self._watch(command.ref)

    def _do_keepeventsoffset(self, command: m.KeepEventsOffset) -> None:
        self.disk[command.ref].kept = command.offset

    def _do_uploadlimit(self, command: m.UploadLimit) -> None:
        self.disk[command.ref].upload_until = (command.until, self.boot_id)

    def _do_logacknowledged(self, command: m.LogAcknowledged) -> None:
        self.log_at[command.ref] = command.next

    def _do_drop(self, command: m.Drop) -> None:
        if command.ref in self.jobs:
            self.jobs[command.ref].kill()
        self.disk.pop(command.ref, None)
        self.aborted.add(command.ref)

    def _do_note(self, command: m.Note) -> None:
        """For an operator to read."""

    def _do_leave(self, command: m.Leave) -> None:
        """``feed`` sees that it has left."""

    # ------------------------------------------------------------ looking at files

    def _watch(self, ref: Ref) -> None:
        if ref not in self.polls:
            self.polls.add(ref)
            self.later(POLL_S * self.house.dice.random(), lambda: self._look(ref))

    def _look(self, ref: Ref) -> None:
        """Tell the machine what is new of the attempt, as ``Lookout.news`` does."""
        held = self.agent.attempts.get(ref) if self.agent is not None else None
        on_disk = self.disk.get(ref)
        if held is None or on_disk is None:
            self.polls.discard(ref)
            return
        if held.phase is Phase.STARTING and on_disk.born is not None and on_disk.born[2] == self.boot_id:
            self.feed(m.Born(ref, on_disk.born[0], on_disk.born[1]))
        if held.phase in ALIVE and on_disk.status is not None:
            self.feed(m.Exited(ref, on_disk.status, on_disk.facts()))
        if held.phase in (Phase.RUNNING, Phase.PUBLISHING, Phase.FINISHED) and not held.log_done:
            self.feed(self._tailed(held, on_disk))
        self.later(POLL_S, lambda: self._look(ref))

    def _tailed(self, held: Held, on_disk: Directory) -> m.Tailed:
        fresh = on_disk.events[held.events_offset :]
        first = held.launch is None or held.launch["node_rank"] == 0
        reports = tuple(e for e in fresh if isinstance(e, dict) and first)
        saved = next((e for e in reversed(fresh) if isinstance(e, Saved)), None)
        at = self.log_at.get(held.ref, 0)
        rest = on_disk.text[at:] if at is not None else ""
        chunk = (at, rest) if rest and at is not None and not held.log_waiting else None
        done = held.phase is not Phase.RUNNING and not held.log_waiting and not rest
        return m.Tailed(held.ref, reports, len(on_disk.events), chunk, done, saved)
