"""The agent's loop: feeds the machine what happened and does what it says. The only place that catches all."""

from __future__ import annotations

import json
import logging
import os
import queue
import select
import shutil
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from workers.agent import launch as launching
from workers.agent import messages as m
from workers.agent import tmp_link
from workers.agent.client import Api, CallFailed
from workers.agent.devices import Devices
from workers.agent.devices_checkup import Checkup
from workers.agent.devices_release import Departures
from workers.agent.interface import interface_of
from workers.agent.lookout import Lookout
from workers.agent.machine import Machine
from workers.agent.meeting import KeptPorts, alone
from workers.agent.outcome import Exit, Facts
from workers.agent.phase import ALIVE
from workers.agent.processes import Processes, prune_cache
from workers.agent.settings import Settings, as_labels
from workers.agent.statedir import Ref, StateDir, boot_id, boottime, open_bell, read_json, write_json
from workers.agent.transfers import AT_ONCE, Transfers
from workers.protocol import PROTOCOL_VERSION, Launch, Timings

log = logging.getLogger("emep.agent")
VERSION = "0.1.0"
POLL_S = 0.2
KEEPER_CHECK_S = 1.0
LOOK_S = 1.0  # a driver that takes longer to answer hangs


@dataclass(slots=True)
class Watch:
    """When things were last looked at (boot clock)."""

    files: float = float("-inf")
    keeper: float = float("-inf")
    busy: frozenset[str] = field(default_factory=frozenset)


class Loop:
    """One agent at work. ``node`` are the node's own facts from the devices' file, where it has some."""

    def __init__(self, settings: Settings, devices: Devices, *, node: dict[str, Any], token: str) -> None:
        self.settings = settings
        self.devices = devices
        self.node = node
        self.state = StateDir(settings.state)
        self.processes = Processes(
            self.state, guard=settings.guard, starts_keeper=settings.keeper == "start", cgroup=settings.cgroup
        )
        self.api = Api(settings.server, token)
        self.bytes_api = Api(settings.server, token, connections=AT_ONCE + 1)
        self.events: queue.SimpleQueue[m.Event] = queue.SimpleQueue()
        self.inventory = devices.inventory()
        self.checkup = Checkup(devices, [gpu["uuid"] for gpu in self.inventory])
        self.departures = Departures(devices, self.state, deadline_s=LOOK_S)
        self.boots = 0
        self.transfers = Transfers(
            self.state, self.bytes_api, self.departures, timings=lambda: self.machine.timings,
            disk_bytes=settings.job_disk_bytes, later=self._thread, post=self.post,
        )  # fmt: skip
        self.lookout = Lookout(
            self.state, self.processes, disk_bytes=settings.job_disk_bytes, clock=boottime, later=self._thread,
            post=self.post,
        )  # fmt: skip
        self.ports = KeptPorts()
        self.watch = Watch()
        self.left = False
        self.boot = boot_id()
        lease = read_json(self.state.lease) or {}
        deadline = float(lease.get("deadline", 0.0)) if lease.get("boot_id") == self.boot else 0.0
        self.machine = Machine(
            timings=Timings(), deadline=deadline, found=self.processes.found(), sees_gpus=True,
            outage_grace_s=self.settings.outage_grace_s,
        )  # fmt: skip
        # Above whatever an agent before this one has sent: a message of its that comes late is known to be old.
        self.machine.seq = round(boottime() * 1000)
        self.deeds: dict[type, Callable[[Any], None]] = {
            m.SendRegister: self._send_register, m.SendHeartbeat: self._send_heartbeat,
            m.WriteLease: self._write_lease, m.Claim: self._claim, m.Prepare: self.transfers.prepare,
            m.Abort: self._abort, m.Bind: self._bind, m.StartJob: self._start_job, m.AskStop: self._ask_stop,
            m.Spare: self._spare, m.Kill: self._kill, m.LookAtGpus: self._look_at_gpus,
            m.Publish: self.transfers.publish, m.Snapshot: self.transfers.snapshot,
            m.StoreFinished: self._store_finished, m.UploadLimit: self._keep_upload_limit,
            m.KeepEventsOffset: self._keep_events_offset, m.LogAcknowledged: self._log_acknowledged, m.Drop: self._drop,
            m.Note: lambda c: log.info("%s", c.text), m.Leave: self._leave,
        }  # fmt: skip

    # ------------------------------------------------------------ the loop

    def run(self) -> None:
        """Work until told to leave; an error of ours is logged, and the loop goes on."""
        self._thread(self._hear_keeper)
        self._thread(lambda: shutil.rmtree(self.state.root / "trash", ignore_errors=True))
        while not self.left:
            try:
                wait = min(POLL_S, self.machine.next_wake(boottime()))
                try:
                    event: m.Event = self.events.get(timeout=max(0.001, wait))
                except queue.Empty:
                    event = m.Tick()
                self.feed(event)
                self._look(boottime())
            except Exception:
                log.exception("the agent's loop stumbled and goes on")
                time.sleep(POLL_S)

    def feed(self, event: m.Event) -> None:
        """Tell the machine and carry out what it answers; a command that fails takes none of the others along."""
        for command in self.machine.handle(event, boottime()):
            try:
                self.deeds[type(command)](command)
            except OSError as problem:  # a full or failing disk: said in a line, as often as it stands in the way
                log.warning("the agent could not do %s (%s) and goes on", type(command).__name__, problem)
            except Exception:
                log.exception("the agent stumbled over %s and goes on", type(command).__name__)
        busy = frozenset(
            uuid
            for held in self.machine.attempts.values()
            if held.phase in ALIVE and held.launch is not None
            for uuid in held.launch["gpus"]
        )
        if busy != self.watch.busy:
            self.watch.busy = busy
            self.checkup.note_busy(busy)

    def post(self, event: m.Event) -> None:
        """Put ``event`` in line; may be called from any thread and from a signal handler."""
        self.events.put(event)

    def _thread(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception:
                log.exception("a thread of the agent died")

        threading.Thread(target=guarded, daemon=True).start()

    def _hear_keeper(self) -> None:
        bell = open_bell(self.state.agent_bell)
        while not self.left:
            if select.select([bell], [], [], 1.0)[0]:
                os.read(bell, 4096)
                self.watch.files = float("-inf")
                self.post(m.Tick())

    # ------------------------------------------------------------ looking at files

    def _look(self, now: float) -> None:
        # Half a kill: what the server has had killed is gone within a whole one, by whichever of the two.
        hung = self.processes.end_hung_keeper(after_s=self.machine.timings.kill_s / 2)
        if hung:
            log.error("%s", hung)
        if now - self.watch.keeper >= KEEPER_CHECK_S:
            self.watch.keeper = now
            if self.processes.ensure_keeper():
                log.info("started a keeper")
        if now - self.watch.files < min(POLL_S, self.machine.report_s):
            return
        self.watch.files = now
        for held in list(self.machine.attempts.values()):
            for event in self.lookout.news(held, now, every_s=self.machine.report_s):
                self.feed(event)

    # ------------------------------------------------------------ calls

    def _address(self) -> str:
        """Where other nodes reach this one."""
        return self.settings.address or socket.gethostname()

    def _send_register(self, command: m.SendRegister) -> None:
        boots = self.devices.boots()
        if boots != self.boots:  # simulated: the script has rebooted the node, and nothing of a job has survived
            self.inventory = self.devices.inventory()
            self.checkup.look_anew([gpu["uuid"] for gpu in self.inventory])
        alive = [
            {**a, "pid_alive": a["pid_alive"] and boots == self.boots,
             "runs": boots == self.boots and self.processes.runs(Ref(a["attempt"], a["epoch"]))}
            for a in command.attempts
        ]  # fmt: skip
        gpus = [dict(gpu) for gpu in self.inventory]
        bandwidth = self.settings.bandwidth
        body = {
            "boot_id": self._boot_id(), "seq": command.seq, "protocol": PROTOCOL_VERSION, "agent_version": VERSION,
            "address": self._address(),
            "rack_id": self.settings.rack or str(self.node.get("rack_id") or ""),
            "network_bandwidth_gbps": float(
                bandwidth if bandwidth is not None else self.node.get("network_bandwidth_gbps") or 0
            ),
            "labels": {**as_labels(self.node.get("labels") or {}), **self.settings.labels},
            "simulated": self.devices.simulated, "left_out": self.devices.left_out(), "gpus": gpus, "attempts": alive,
        }  # fmt: skip
        timeout = self.machine.timings.retry_s

        def call() -> m.Event:
            sent_at = boottime()
            reply = self.api.register(body, timeout_s=timeout)
            self.boots = boots
            return m.RegisterDone(sent_at, reply)

        self._call(call, m.CallFailed)

    def _boot_id(self) -> str:
        """The host's boot, and how often a script has rebooted the simulated node since."""
        boots = self.devices.boots()
        return f"{self.boot}-{boots}" if boots else self.boot

    def _send_heartbeat(self, command: m.SendHeartbeat) -> None:
        body = {
            "boot_id": self._boot_id(), "seq": command.seq, "draining": command.draining,
            "disk_low": shutil.disk_usage(self.state.root).free < self.settings.disk_low_bytes,
            "attempts": list(command.attempts), "reports": list(command.reports),
        }  # fmt: skip

        def call() -> m.Event:
            samples = (
                self.checkup.collect(min(LOOK_S, self.machine.timings.heartbeat_s / 3)) if command.health else None
            )
            sent_at = boottime()
            reply = self.api.heartbeat({**body, "gpus": samples}, timeout_s=command.timeout_s)
            self.checkup.heard(samples, reply.get("canary", []))
            return m.HeartbeatDone(sent_at, reply)

        self._call(call, m.CallFailed)

    def _claim(self, command: m.Claim) -> None:
        ref = command.ref

        def call() -> m.Event:
            if Ref.parse(ref.name) != ref:
                return _unusable(ref, "its name can't be a directory's")
            launch = self.bytes_api.claim(ref.attempt, ref.epoch)
            missing = sorted(Launch.__required_keys__ - launch.keys())
            if missing:
                return _unusable(ref, f"the launch document lacks {', '.join(missing)}")
            self.state.of(ref).mkdir(mode=0o755, exist_ok=True)
            write_json(self.state.of(ref) / "launch.json", launch)
            return m.Claimed(ref, launch)

        self._call(call, lambda failure: m.ClaimFailed(ref, failure))

    def _call(self, call: Callable[[], m.Event], failed: Callable[[m.Failure], m.Event]) -> None:
        """Make ``call`` in a thread; whatever becomes of it, exactly one event follows."""

        def work() -> None:
            try:
                event = call()
            except CallFailed as problem:
                event = failed(problem.failure)
            except Exception as problem:
                log.exception("a call crashed")
                event = failed(m.Failure(m.FailureKind.SILENT, f"the agent's own error: {problem}"))
            self.post(event)

        self._thread(work)

    def _write_lease(self, command: m.WriteLease) -> None:
        write_json(self.state.lease, {**asdict(command), "boot_id": self.boot})

    def _look_at_gpus(self, command: m.LookAtGpus) -> None:
        self._call(
            lambda: self.departures.look(command), lambda failure: m.GpusLooked(command.ref, silent=failure.message)
        )

    def _abort(self, command: m.Abort) -> None:
        self.transfers.abort(command.ref)
        self.ports.release(command.ref)

    # ------------------------------------------------------------ jobs

    def _bind(self, command: m.Bind) -> None:
        try:
            port = self.ports.bind(command.ref, self.state.of(command.ref))
        except OSError as problem:
            self.feed(m.PrepareFailed(command.ref, f"its ranks can't meet here: {problem}", retryable=True))
            return
        self.feed(m.Bound(command.ref, port))

    def _start_job(self, command: m.StartJob) -> None:
        ref, launch = command.ref, command.launch
        directory = self.state.of(ref)
        cores = os.cpu_count() or 1
        share = max(1, len(launch["gpus"])) / max(1, len(self.inventory))
        tmp_link.make(directory / "work" / "scratch")
        try:
            spec = launching.build(
                launch, directory, environment=os.environ, wall_now=time.time(),
                meeting=command.meeting or alone(), threads=int(cores * share), run_as=self.settings.run_as,
                memory_bytes=self.settings.job_memory_bytes, disk_bytes=self.settings.job_disk_bytes,
                interface=interface_of(self._address()),
            )  # fmt: skip
            launching.write(directory, launch, spec)
        except (KeyError, OSError, TypeError, ValueError) as problem:
            self.feed(m.Exited(ref, Exit(cause="exec", error=f"it can't be started: {problem}"), Facts()))
            return
        finally:
            self.ports.release(ref)
        self.processes.start(ref)

    def _ask_stop(self, command: m.AskStop) -> None:
        self._record(command.ref, command.stop)
        (self.state.of(command.ref) / "preempt").write_text(json.dumps({"why": command.stop.why}), encoding="utf-8")
        self.processes.term(command.ref)

    def _kill(self, command: m.Kill) -> None:
        if command.stop is not None:
            self._record(command.ref, command.stop)
        self.processes.kill(command.ref)

    def _record(self, ref: Ref, stop: m.StopAsked) -> None:
        events = self.state.of(ref) / "events.jsonl"
        offset = events.stat().st_size if events.exists() else 0
        write_json(self.state.of(ref) / "stop.json", {**asdict(stop), "events_offset": offset})

    def _spare(self, command: m.Spare) -> None:
        (self.state.of(command.ref) / "preempt").unlink(missing_ok=True)

    def _store_finished(self, command: m.StoreFinished) -> None:
        self.state.of(command.ref).mkdir(mode=0o755, exist_ok=True)
        write_json(self.state.of(command.ref) / "report.json", command.report)

    def _keep_events_offset(self, command: m.KeepEventsOffset) -> None:
        write_json(self.state.of(command.ref) / "tail.json", {"events_offset": command.offset})

    def _keep_upload_limit(self, command: m.UploadLimit) -> None:
        write_json(self.state.of(command.ref) / "upload.json", {"until": command.until, "boot_id": self.boot})

    def _log_acknowledged(self, command: m.LogAcknowledged) -> None:
        self.lookout.acknowledged(command.ref, command.next)
        self.watch.files = float("-inf")

    def _drop(self, command: m.Drop) -> None:
        self.lookout.forget(command.ref)
        self.ports.release(command.ref)
        self.transfers.forget(command.ref)
        rest = self.processes.discard(command.ref)

        def remove() -> None:
            if rest is not None:
                shutil.rmtree(rest, ignore_errors=True)
            prune_cache(self.state.cache, keep_bytes=self.settings.cache_bytes)

        self._thread(remove)

    def _leave(self, command: m.Leave) -> None:
        self.left = True
        self.transfers.leave()
        if command.stop_keeper:
            self.processes.stop_keeper()
        self.devices.close()


def _unusable(ref: Ref, why: str) -> m.ClaimFailed:
    return m.ClaimFailed(ref, m.Failure(m.FailureKind.STATUS, why, status=422))
