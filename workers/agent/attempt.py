"""The life of one attempt on its node, without I/O: what it does, what was asked of it, what it has to tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from workers.agent.messages import (
    Abort,
    AskStop,
    Command,
    Drop,
    Exited,
    Kill,
    LogAcknowledged,
    Publish,
    Spare,
    StopAsked,
    StoreFinished,
    Tailed,
)
from workers.agent.outcome import Ending, decide
from workers.agent.statedir import Ref
from workers.protocol import Answer, Launch, Outcome

MAX_QUEUE = 2000


class Phase(StrEnum):
    """Where it stands. ``STARTING``: the keeper was told; ``FINISHED``: only its report is left to deliver."""

    CLAIMING = "claiming"
    PREPARING = "preparing"
    STARTING = "starting"
    RUNNING = "running"
    PUBLISHING = "publishing"
    FINISHED = "finished"


ALIVE = (Phase.STARTING, Phase.RUNNING)
_WIRE = {
    Phase.PREPARING: "claimed",
    Phase.STARTING: "claimed",
    Phase.RUNNING: "running",
    Phase.PUBLISHING: "uploading",
    Phase.FINISHED: "finished",
}


@dataclass(slots=True)
class Held:
    """One attempt that this node holds. ``dropped``: the server wants nothing of it, so it ends without a report.

    ``gone``: it ran before the node's last boot, so nothing of it can still come.
    """

    ref: Ref
    phase: Phase
    launch: Launch | None = None
    started_at: float | None = None
    stop: StopAsked | None = None
    spared: bool = False
    killed: bool = False
    dropped: bool = False
    gone: bool = False
    ending: Ending | None = None
    exited: Exited | None = None
    report: dict[str, Any] | None = None
    queue: list[dict[str, Any]] = field(default_factory=list)
    log_done: bool = False
    log_waiting: bool = False
    events_offset: int = 0
    events_kept: int = 0

    @property
    def wire_state(self) -> str:
        """Its state in a heartbeat."""
        if self.phase in ALIVE and (self.stop is not None or self.killed):
            return "stopping"
        return _WIRE[self.phase]

    # ------------------------------------------------------------ what is asked of it

    def ask_stop(self, why: str, now: float, *, kill_at: float | None) -> list[Command]:
        """It was asked to stop for ``why``; asked again for the same, nothing. ``kill_at`` None: somebody else says.

        One that has not started yet is finished at once: there is nothing to save.
        """
        if self.dropped or self.killed or self.phase in (Phase.PUBLISHING, Phase.FINISHED):
            return []
        if self.stop is not None and self.stop.why == why and not self.spared:
            return []
        self.spared = False
        self.stop = StopAsked(why, now, kill_at)
        if self.phase in (Phase.CLAIMING, Phase.PREPARING):
            outcome = {"cancel": Outcome.CANCELLED, "lost": Outcome.LOST, "time_limit": Outcome.TIMED_OUT}.get(why)
            return [Abort(self.ref), *self.finish(Ending(outcome or Outcome.PREEMPTED, "not started"))]
        return [AskStop(self.ref, self.stop)]

    def spare(self) -> list[Command]:
        """The server takes a preemption back: the job may run on if it still does. Other stops stay."""
        if self.stop is None or self.spared or self.killed or self.stop.why != "preempt":
            return []
        self.spared = True
        return [Spare(self.ref)]

    def kill(self, why: str, now: float) -> list[Command]:
        """End it now. A job that was not asked before counts as asked for ``why``."""
        if self.phase not in ALIVE:
            return self.ask_stop(why, now, kill_at=now)
        if self.killed:
            return []
        self.killed = True
        if self.stop is None:
            self.stop = StopAsked(why, now, now)
        return [Kill(self.ref)]

    def drop(self) -> list[Command]:
        """The server wants nothing more of it: gone at once, or as soon as its processes are."""
        self.dropped = True
        if self.phase not in ALIVE:
            return [Abort(self.ref), Drop(self.ref)]
        if self.killed:
            return []
        self.killed = True
        return [Kill(self.ref)]

    # ------------------------------------------------------------ time

    def limits(self) -> tuple[float, float] | None:
        """``(ask at, kill at)`` of ``max_duration``, once it runs.

        The checkpoint is asked for a grace before the end, but never before half of the time: a short job would
        otherwise be stopped at its start.
        """
        if self.started_at is None or self.launch is None or self.phase not in ALIVE:
            return None
        whole = self.launch["remaining_s"]
        return self.started_at + whole - min(self.launch["grace_s"], whole / 2), self.started_at + whole

    def due(self) -> list[float]:
        """The times at which :meth:`pass_time` may have something to do."""
        times: list[float] = []
        if self.phase in ALIVE and not self.killed:
            limits = self.limits()
            if limits is not None:
                times.append(limits[1] if self.stop is not None and not self.spared else limits[0])
            if self.stop is not None and self.stop.kill_at is not None and not self.spared:
                times.append(self.stop.kill_at)
        return times

    def pass_time(self, now: float) -> list[Command]:
        """Enforce the grace and the time limit at ``now``."""
        if self.phase not in ALIVE or self.killed:
            return []
        limits = self.limits()
        if limits is not None and now >= limits[1]:
            return self.kill("time_limit", now)
        asked = self.stop if not self.spared else None
        if asked is not None and asked.kill_at is not None and now >= asked.kill_at:
            return self.kill(asked.why, now)
        if limits is not None and now >= limits[0] and asked is None:
            return self.ask_stop("time_limit", now, kill_at=limits[1])
        return []

    # ------------------------------------------------------------ its end

    def ended(self, event: Exited) -> list[Command]:
        """Its processes are gone: judge the end, then upload what it calls for, or finish."""
        if self.phase not in ALIVE:
            return []
        if self.dropped:
            return [Drop(self.ref)]
        self.exited = event
        asked = self.stop.why if self.stop is not None else None
        if self.spared and event.exit.exit_code == 0:
            asked = None  # it was let run on and came to its end
        self.ending = decide(event.exit, event.facts, asked=asked)
        if self.launch is None or not (self.ending.outputs or self.ending.checkpoint):
            return self.finish(self.ending)
        self.phase = Phase.PUBLISHING
        ending = self.ending
        return [
            Publish(
                self.ref, self.launch, outputs=ending.outputs, checkpoint=ending.checkpoint,
                clean=ending.clean, step=event.facts.last_step,
            )
        ]  # fmt: skip

    def finish(
        self, ending: Ending, *, artifacts: tuple[str, ...] = (), checkpoint: str | None = None
    ) -> list[Command]:
        """Its final report is written down, to be delivered once the log is."""
        self.phase = Phase.FINISHED
        end = self.exited.exit if self.exited is not None else None
        why = self.stop.why if self.stop is not None else ("lost" if ending.outcome is Outcome.LOST else None)
        if ending.outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.OOM):
            why = None
        report: dict[str, Any] = {
            "attempt": self.ref.attempt, "epoch": self.ref.epoch, "type": "finished",
            "outcome": str(ending.outcome), "exit_code": _exit_code(end.exit_code, end.signal) if end else None,
            "error": ending.error[:2000], "artifacts": list(artifacts), "checkpoint": checkpoint,
            "why": why, "detail": ending.detail[:500],
            "step": (self.exited.facts.last_step if self.exited is not None else None) or 0,
        }  # fmt: skip
        if end is not None and not end.clean:
            report["gpus_clean"] = False
            report["detail"] = f"processes that could not be killed: {list(end.survivors)[:20]}"
        self.report = report
        if end is None:
            self.log_done = True
        commands: list[Command] = [StoreFinished(self.ref, report)]
        self._queue_report()
        return commands

    # ------------------------------------------------------------ what is to be told

    def add(self, report: dict[str, Any]) -> None:
        """``report`` will be told; a newer progress replaces the one before it."""
        if report["type"] == "progress":
            self.queue = [r for r in self.queue if r["type"] != "progress"]
        self.queue.append({"attempt": self.ref.attempt, "epoch": self.ref.epoch, **report})
        if len(self.queue) > MAX_QUEUE:
            oldest = next((i for i, r in enumerate(self.queue) if r["type"] == "metric"), None)
            if oldest is not None:
                del self.queue[oldest]

    def tailed(self, event: Tailed) -> None:
        """Take in news from its files."""
        for report in event.reports:
            self.add(report)
        self.events_offset = max(self.events_offset, event.events_offset)
        if event.log is not None and not self.log_waiting:
            self.log_waiting = True
            self.add({"type": "logs", "offset": event.log[0], "text": event.log[1]})
        if event.log_done and not self.log_waiting:
            self.log_done = True
            self._queue_report()

    def _queue_report(self) -> None:
        """The final report goes out last, when the log has been delivered."""
        if self.report is not None and self.log_done and not any(r["type"] == "finished" for r in self.queue):
            self.queue.append(self.report)

    @property
    def urgent(self) -> bool:
        """Whether something waits that should be told at once."""
        return any(
            r["type"] in ("started", "finished") or (r["type"] == "logs" and self.phase not in ALIVE)
            for r in self.queue
        )

    def answered(self, report: dict[str, Any], answer: Answer) -> list[Command]:
        """The server has taken or refused ``report``; a stale one ends the attempt, the final one closes it."""
        code = answer.get("code", "")
        if not answer.get("ok") and code in ("stale_epoch", "unknown_attempt"):
            return [] if self.dropped else self.drop()
        if report["type"] == "finished":
            if not answer.get("ok") and report["outcome"] != Outcome.LOST:
                return self._simpler(report, answer.get("message", code))
            return self.drop()
        self.queue = [r for r in self.queue if r is not report]
        commands: list[Command] = []
        if report["type"] == "logs":
            self.log_waiting = False
            end = report["offset"] + len(report["text"].encode())
            commands.append(LogAcknowledged(self.ref, answer.get("next", end) if answer.get("ok") else None))
        return commands

    def _simpler(self, report: dict[str, Any], message: str) -> list[Command]:
        """The server can't take the final report: say at least that this run is over, so that it doesn't wait."""
        self.queue = [r for r in self.queue if r is not report]
        refused = Ending(Outcome.LOST, "report refused", f"the server refused the final report: {message}")
        return self.finish(refused)


def _exit_code(exit_code: int | None, signal: int | None) -> int | None:
    """One number: a signal is 128 + its number, as shells write it."""
    return 128 + signal if signal is not None else exit_code
