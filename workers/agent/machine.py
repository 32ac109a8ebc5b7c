"""The agent's decisions, without I/O: events in, commands out, time as an argument (boot-clock seconds).

Registration and heartbeats, the lease and the fence, the server's desired set, and when to look or to tell. What
happens to one attempt is in ``attempt.py``. Nothing here reads a clock, a file or a socket, so a test can live
through an hour in a millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from workers.agent import messages as m
from workers.agent.attempt import Held
from workers.agent.fence import FenceClock
from workers.agent.outcome import Ending
from workers.agent.phase import LEASED, Phase
from workers.agent.refusals import Refusals
from workers.agent.statedir import Ref
from workers.agent.telling import as_told
from workers.protocol import Answer, Desired, Outcome, Timings

MAX_REPORTS = 400
MAX_LOGS_IN_ONE = 8
FROM_EVENTS = ("progress", "metric", "checkpoint", "checkpoint_refused")


@dataclass(slots=True)
class Flight:
    """The call under way (there is one at a time) and the reports it carries, by number."""

    register: bool
    health: bool = False
    held: frozenset[Ref] = frozenset()
    draining: bool = False
    reports: dict[int, tuple[Ref, dict[str, Any]]] = field(default_factory=dict)


class Machine:
    """The state of one node's agent. ``deadline`` is the lease an agent before this one left (0: none).

    ``sees_gpus``: somebody carries out :class:`LookAtGpus`, so that a job's GPUs are seen free before its end is told.
    ``outage_grace_s``: refusals pause the fence no longer than that, whatever the server says.
    """

    def __init__(
        self, *, timings: Timings, deadline: float, found: Iterable[Held] = (), sees_gpus: bool = False,
        outage_grace_s: float = math.inf,
    ) -> None:  # fmt: skip
        self.timings = timings
        self.sees_gpus = sees_gpus
        self.clock = FenceClock(deadline, most_s=outage_grace_s)
        self.attempts: dict[Ref, Held] = {held.ref: held for held in found}
        self.refusals = Refusals()
        self.registered = self.draining = self.left = self.told_draining = False
        self.leave_at = math.inf
        self.flight: Flight | None = None
        self.seq = 0
        self.try_at = -math.inf  # the next registration or repeated heartbeat
        self.health_at = -math.inf
        self.told_at = -math.inf
        self.look = False
        self.handlers: dict[type, Callable[[Any, float], list[m.Command]]] = {
            m.Tick: lambda _event, _now: [],
            m.RegisterDone: self._register_done,
            m.HeartbeatDone: self._heartbeat_done,
            m.CallFailed: self._call_failed,
            m.Claimed: self._claimed,
            m.ClaimFailed: self._claim_failed,
            m.Prepared: lambda event, _now: self._of(event.ref, Held.prepared),
            m.Bound: lambda event, _now: self._of(event.ref, lambda held: held.ready(event.port)),
            m.PrepareFailed: self._prepare_failed,
            m.Born: self._born,
            m.Exited: self._exited,
            m.GpusLooked: lambda event, now: self._of(event.ref, lambda held: held.looked(event, now)),
            m.Tailed: self._tailed,
            m.OverQuota: lambda event, now: self._of(event.ref, lambda held: held.over_quota(event, now)),
            m.Snapshotted: self._snapshotted,
            m.CheckpointFound: lambda event, _now: self._of(event.ref, Held.checkpoint_found),
            m.Moved: lambda event, _now: self._of(event.ref, lambda held: held.take_moved(event)),
            m.Published: self._uploaded,
            m.PublishFailed: self._uploaded,
            m.BellRang: self._bell,
            m.Terminate: self._terminate,
        }

    # ------------------------------------------------------------ in and out

    def handle(self, event: m.Event, now: float) -> list[m.Command]:
        """What to do about ``event`` and the time ``now``; the commands are to be carried out in order."""
        if self.left:
            return []
        commands = self.handlers[type(event)](event, now)
        commands += self._pass_time(now)
        for command in commands:
            if isinstance(command, m.Drop):
                self.attempts.pop(command.ref, None)
                self.refusals.forget(command.ref)
        commands += self._call(now)
        return commands + self._leave(now)

    def next_wake(self, now: float) -> float:
        """Seconds from ``now`` until time alone may call for something (at most one heartbeat)."""
        due = [now + self.timings.heartbeat_s, self.leave_at]
        if any(held.phase in LEASED for held in self.attempts.values()) and not self.clock.over(now):
            due.append(self.clock.deadline)
        for held in self.attempts.values():
            due += held.due(self.timings.kill_s)
        if self.flight is None:
            due.append(max(self.try_at, min(self.health_at, self._tell_at())) if self.registered else self.try_at)
        return max(0.0, min(due) - now)

    @property
    def report_s(self) -> float:
        """The least time between two messages that carry only progress, metrics or log text: 1 s as shipped."""
        return self.timings.heartbeat_s / 10

    def _of(self, ref: Ref, act: Callable[[Held], list[m.Command]]) -> list[m.Command]:
        held = self.attempts.get(ref)
        return act(held) if held is not None else []

    # ------------------------------------------------------------ time

    def _pass_time(self, now: float) -> list[m.Command]:
        commands: list[m.Command] = []
        if self.clock.over(now):
            for held in list(self.attempts.values()):
                if held.phase in LEASED:
                    commands += held.ask_stop("lost", now, kill_at=now + self.timings.kill_s)
        for held in list(self.attempts.values()):
            commands += held.pass_time(now, self.timings.kill_s)
        return commands

    def _leave(self, now: float) -> list[m.Command]:
        done = not self.attempts and self.flight is None and self.told_draining
        if not self.draining or not (done or now >= self.leave_at):
            return []
        self.left = True
        return [m.Leave(stop_keeper=True)]

    # ------------------------------------------------------------ calls to the server

    def _tell_at(self) -> float:
        if self.look or any(held.urgent for held in self.attempts.values()):
            return -math.inf
        waiting = any(held.queue for held in self.attempts.values())
        return self.told_at + self.report_s if waiting else math.inf

    def _call(self, now: float) -> list[m.Command]:
        """The next call, when one is due and none is under way."""
        if self.flight is not None or now < self.try_at:
            return []
        if not self.registered:
            # What is not named now the server takes for lost: a claim that is answered later comes too late.
            self.attempts = {ref: held for ref, held in self.attempts.items() if held.phase is not Phase.CLAIMING}
            self.flight = Flight(register=True)
            self.told_at = now
            self.seq += 1
            return [m.SendRegister(tuple(self._registration()), self.seq)]
        health = now >= self.health_at or self._failure_to_tell()
        if not health and now < self._tell_at():
            return []
        self.flight = Flight(register=False, health=health, held=frozenset(self._reported()), draining=self.draining)
        self._load(self.flight)
        self.seq += 1
        self.look = False
        self.told_at = now
        attempts = tuple(
            {"attempt": ref.attempt, "epoch": ref.epoch, "state": self.attempts[ref].wire_state}
            for ref in sorted(self._reported())
        )
        reports = tuple(as_told(n, report, now) for n, (_, report) in self.flight.reports.items())
        return [m.SendHeartbeat(self.seq, health, self.draining, attempts, reports, self.timings.retry_s)]

    def _failure_to_tell(self) -> bool:
        """A job's failure goes out with a look at the GPUs, which may be at fault; so does an end on silent ones."""
        ends = [(held, r) for held in self.attempts.values() for r in held.queue if r["type"] == "finished"]
        return any(held.unproved or r["outcome"] == Outcome.FAILED for held, r in ends)

    def _reported(self) -> list[Ref]:
        return [ref for ref, held in self.attempts.items() if held.phase is not Phase.CLAIMING and not held.dropped]

    def _registration(self) -> Iterable[dict[str, Any]]:
        """``pid_alive`` is true as long as something of the attempt is still to come: a process, or its result."""
        for ref in sorted(self._reported()):
            yield {"attempt": ref.attempt, "epoch": ref.epoch, "pid_alive": not self.attempts[ref].gone}

    def _load(self, flight: Flight) -> None:
        logs = 0
        for ref in sorted(self._reported()):
            for report in self.attempts[ref].queue:
                logs += report["type"] == "logs"
                if len(flight.reports) < MAX_REPORTS and (report["type"] != "logs" or logs <= MAX_LOGS_IN_ONE):
                    flight.reports[len(flight.reports)] = (ref, report)

    def _lease(self) -> m.WriteLease:
        return m.WriteLease(self.clock.deadline, self.timings.kill_s)

    def _register_done(self, event: m.RegisterDone, now: float) -> list[m.Command]:
        self.flight = None
        self.try_at = now + self.timings.retry_s  # kept when the reply turns out to be nonsense
        reply = event.reply
        said = dict(reply)
        names = [name for name in Timings.__dataclass_fields__ if name in said]
        self.timings = Timings(**{name: float(str(said[name])) for name in names})
        self.registered = True
        self.clock = self.clock.acknowledged(event.sent_at, self.timings)
        self.try_at = -math.inf
        self.health_at = now
        commands: list[m.Command] = [self._lease()]
        for held in list(self.attempts.values()):
            if held.ref.attempt in reply["kill"]:
                commands += held.drop()
            elif held.phase is Phase.PREPARING and held.launch is not None:
                commands.append(m.Prepare(held.ref, held.launch))
            elif held.phase is Phase.READY:
                held.say_ready()
        return commands

    def _heartbeat_done(self, event: m.HeartbeatDone, now: float) -> list[m.Command]:
        flight, self.flight = self.flight, None
        self.clock = self.clock.acknowledged(event.sent_at, self.timings)
        self.try_at = -math.inf
        commands: list[m.Command] = [self._lease()]
        if flight is None:
            return commands
        if flight.health:
            self.health_at = event.sent_at + self.timings.heartbeat_s
        self.told_draining |= flight.draining
        answers = event.reply.get("answers", [])
        for answer in answers:
            commands += self._answer(flight, answer)
        if len(answers) < len(flight.reports):
            self.try_at = now + self.timings.retry_s  # the rest is told again, but not in a tight loop
        for held in self.attempts.values():
            commands += self._keep_offset(held)
        gone = {c.ref for c in commands if isinstance(c, m.Drop)}
        return commands + self._desired(flight, event.reply.get("desired", []), gone=gone, now=now)

    def _answer(self, flight: Flight, answer: Answer) -> list[m.Command]:
        ref, report = flight.reports.get(answer.get("n", -1), (None, None))
        if ref is None or report is None:
            return []
        commands = self._of(ref, lambda held: held.answered(report, answer))
        if not answer.get("ok"):
            said = f"{answer.get('code')}: {answer.get('message')}"
            commands.append(m.Note(f"{ref.name}: the server refused {report['type']}: {said}"))
        return commands

    def _keep_offset(self, held: Held) -> list[m.Command]:
        told = not any(report["type"] in FROM_EVENTS for report in held.queue)
        if not told or held.saving or held.dropped or held.events_kept == held.events_offset:
            return []
        held.events_kept = held.events_offset
        return [m.KeepEventsOffset(held.ref, held.events_offset)]

    def _call_failed(self, event: m.CallFailed, now: float) -> list[m.Command]:
        flight, self.flight = self.flight, None
        failure = event.failure
        commands: list[m.Command] = []
        if failure.kind is m.FailureKind.REFUSED:
            self.clock = self.clock.refused(now, self.timings)
            self.try_at = now + self.timings.retry_s
            commands.append(self._lease())
        elif failure.kind is m.FailureKind.SILENT:
            self.clock = self.clock.silent()
            self.try_at = max(now, self.told_at + self.timings.retry_s)  # a time-out was the wait already
        elif failure.status == 409 and self.registered:
            self.registered = False
            self.try_at = now + self.timings.retry_s / 10
        else:
            self.clock = self.clock.silent()
            self.try_at = now + self.timings.retry_s
        if flight is not None and not flight.register:
            self.look = True
            self.told_draining |= self.draining and not self.attempts
        if self.draining and not self.attempts:
            self.told_draining = True  # nothing is at stake: an absent server must not hold the exit up
        return [*commands, m.Note(f"{'the server answered' if failure.status else 'no answer'}: {failure.message}")]

    # ------------------------------------------------------------ the desired set

    def _desired(self, flight: Flight, wanted: Iterable[Desired], *, gone: set[Ref], now: float) -> list[m.Command]:
        """Bring what the node holds to what the server wants; held and not wanted any more is dropped."""
        commands: list[m.Command] = []
        seen: set[Ref] = set()
        for item in wanted:
            ref = Ref(str(item["attempt"]), int(item["epoch"]))
            seen.add(ref)
            if (held := self.attempts.get(ref)) is None and ref not in gone and item["action"] != "run":
                held = self.attempts[ref] = Held(ref, Phase.CLAIMING)  # nothing of it is here: that is reported
            if held is None:
                if item["action"] == "run" and not self.draining and ref not in gone and not self.clock.over(now):
                    self.attempts[ref] = Held(ref, Phase.CLAIMING)
                    commands.append(m.Claim(ref))
            elif item["action"] == "run":
                commands += [*held.spare(), *held.go(item.get("go"))]
            elif item["action"] == "stop":
                why = item.get("why") or "preempt"
                # At a preemption's end the server decides: kill, or let it run on.
                kill_at = None if why == "preempt" else now + float(item.get("grace_s", self.timings.grace_s))
                commands += held.ask_stop(why, now, kill_at=kill_at)
            else:
                commands += held.kill(item.get("why") or "lost", now, self.timings.kill_s)
        for ref in sorted(flight.held - seen - gone):
            if (held := self.attempts.get(ref)) is not None and not held.dropped and held.report is None:
                commands += [m.Note(f"{ref.name}: no longer wanted here"), *held.drop()]
        return commands

    # ------------------------------------------------------------ attempts

    def _claimed(self, event: m.Claimed, now: float) -> list[m.Command]:
        held = self.attempts.get(event.ref)
        if held is None or held.phase is not Phase.CLAIMING:
            return []
        held.launch = event.launch
        held.phase = Phase.PREPARING
        return [m.Prepare(event.ref, event.launch)]

    def _claim_failed(self, event: m.ClaimFailed, now: float) -> list[m.Command]:
        """Forget it: if it is still wanted the next look says so, and the claim is made again."""
        held = self.attempts.get(event.ref)
        if held is None or held.phase is not Phase.CLAIMING:
            return []
        del self.attempts[event.ref]
        self.look = self.look or not event.failure.final
        if self.look:
            self.try_at = max(self.try_at, now + self.timings.retry_s)
        return [m.Note(f"{event.ref.name}: claim failed: {event.failure.message}")]

    def _prepare_failed(self, event: m.PrepareFailed, now: float) -> list[m.Command]:
        held = self.attempts.get(event.ref)
        if held is None or held.phase is not Phase.PREPARING:
            return []
        outcome = Outcome.LOST if event.retryable else Outcome.FAILED
        return held.finish(Ending(outcome, "inputs", event.error))

    def _born(self, event: m.Born, now: float) -> list[m.Command]:
        held = self.attempts.get(event.ref)
        if held is None or held.phase is not Phase.STARTING:
            return []
        held.phase = Phase.RUNNING
        held.started_at = event.at
        held.add({"type": "started", "pid": event.pid})
        return []

    def _exited(self, event: m.Exited, now: float) -> list[m.Command]:
        within_s = self.timings.kill_s if self.sees_gpus else None
        return self._of(event.ref, lambda held: held.ended(event, now, free_within_s=within_s))

    def _tailed(self, event: m.Tailed, now: float) -> list[m.Command]:
        held = self.attempts.get(event.ref)
        if held is None or held.dropped:
            return []
        self.refusals.tailed(held, event)
        return held.tailed(event)

    def _snapshotted(self, event: m.Snapshotted, now: float) -> list[m.Command]:
        held = self.attempts.get(event.ref)
        if held is None:
            return []
        self.refusals.snapshotted(held, event)
        commands = held.snapshotted(event)
        trouble = f"{event.ref.name}: a checkpoint on the way was not taken: {event.error}"
        return [m.Note(trouble), *commands] if event.error else commands

    def _uploaded(self, event: m.Published | m.PublishFailed, now: float) -> list[m.Command]:
        """Refused outputs make a success a failure; a refused checkpoint only costs the work since the last one."""
        held = self.attempts.get(event.ref)
        if held is None or held.phase is not Phase.PUBLISHING or held.ending is None:
            return []
        ending = self.refusals.ending(held, held.ending, event)
        if isinstance(event, m.Published):
            return held.finish(ending, artifacts=event.artifacts, checkpoint=event.checkpoint)
        return held.drop() if event.stale else held.finish(ending)

    # ------------------------------------------------------------ from outside

    def _bell(self, event: m.BellRang, now: float) -> list[m.Command]:
        self.look = True
        return []

    def _terminate(self, event: m.Terminate, now: float) -> list[m.Command]:
        if not event.drain:
            self.left = True
            return [m.Leave(stop_keeper=False)]
        if self.draining:
            return []
        self.draining = self.look = True
        self.leave_at = now + self.timings.grace_s + self.timings.lease_s
        commands: list[m.Command] = []
        for held in list(self.attempts.values()):
            if held.phase is Phase.CLAIMING:
                del self.attempts[held.ref]
            elif held.stop is None or held.spared:
                commands += held.ask_stop("drain", now, kill_at=now + self.timings.grace_s)
        return commands
