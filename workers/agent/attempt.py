"""The life of one attempt on its node, without I/O: what it does, what was asked of it, what it has to tell."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from workers.agent.final_report import final_report
from workers.agent.messages import (
    Abort,
    AskStop,
    Bind,
    Command,
    Drop,
    Exited,
    GpusLooked,
    Kill,
    LogAcknowledged,
    LookAtGpus,
    Note,
    OverQuota,
    Publish,
    Saved,
    Snapshot,
    Snapshotted,
    Spare,
    StartJob,
    StopAsked,
    StoreFinished,
    Tailed,
)
from workers.agent.meter import Moved
from workers.agent.outcome import DISK_QUOTA, Ending, Facts
from workers.agent.phase import ALIVE, MOVING, WIRE, Phase
from workers.agent.release import Release
from workers.agent.statedir import Ref
from workers.agent.telling import is_urgent, stopping, with_report
from workers.agent.time_limit import limits
from workers.agent.unread import report_of
from workers.agent.upload_limit import Upload, UploadLimit, given_up, upload_until
from workers.agent.verdict import verdict
from workers.protocol import Answer, Launch, Meeting, Outcome

# Of these a later run may go on from a checkpoint, so the one under way is waited for; of others if they saved again.
_MAY_RESUME = (Outcome.PREEMPTED, Outcome.TIMED_OUT, Outcome.FAILED, Outcome.OOM)


@dataclass(slots=True)
class Held:
    """One attempt that this node holds. ``dropped``: the server wants nothing of it, so it ends without a report.

    ``gone``: it ran before the node's last boot, so nothing of it can still come. ``saving``: a checkpoint is on its
    way into the store, and ``next_save`` is the newest declared since; ``closing``: the end waits for it.
    ``declared``: it has declared a checkpoint, so it knows how to save.
    ``port`` is kept for its ranks to meet at, on the first of several nodes while it is ready.
    ``release``: it has ended, and its GPUs are looked at until they are free; ``unproved``: they did not answer.
    ``upload``: what is known of what is uploaded at its end, and until when.
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
    declared: bool = False
    saving: bool = False
    next_save: Saved | None = None
    closing: bool = False
    over: OverQuota | None = None
    port: int = 0
    release: Release | None = None
    unproved: bool = False
    upload: Upload = field(default_factory=Upload)

    @property
    def wire_state(self) -> str:
        """Its state in a heartbeat."""
        if self.phase in ALIVE and (self.stop is not None or self.killed):
            return "stopping"
        return WIRE[self.phase]

    @property
    def first(self) -> bool:
        """Whether it is the only part, or that of rank 0: the one whose progress and checkpoints are the job's."""
        return self.launch is None or self.launch["node_rank"] == 0

    def prepared(self) -> list[Command]:
        """All that it needs lies in place: it starts, or is ready to start with its other parts."""
        if self.phase is not Phase.PREPARING or self.launch is None:
            return []
        if self.launch["node_count"] == 1:
            self.phase = Phase.STARTING
            return [StartJob(self.ref, self.launch)]
        return [Bind(self.ref)] if self.first else self.ready(0)

    def ready(self, port: int) -> list[Command]:
        """It could start; ``port`` is kept for the ranks to meet at (0: on another node)."""
        if self.phase is Phase.PREPARING:
            self.phase, self.port = Phase.READY, port
            self.say_ready()
        return []

    def say_ready(self) -> None:
        """The server will hear that it is ready, for the first time or again."""
        self.add({"type": "ready", "port": self.port})

    def go(self, meeting: Meeting | None) -> list[Command]:
        """All parts are ready and meet there: start, if that is what it waits for.

        A port that rank 0 does not keep any more is from before a restart: the server is yet to hear of the new one.
        """
        if meeting is None or self.phase is not Phase.READY or self.launch is None:
            return []
        if self.first and meeting["port"] != self.port:
            return []
        self.phase = Phase.STARTING
        return [StartJob(self.ref, self.launch, meeting)]

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
        if self.phase in (Phase.CLAIMING, Phase.PREPARING, Phase.READY):
            outcome = {"cancel": Outcome.CANCELLED, "lost": Outcome.LOST, "time_limit": Outcome.TIMED_OUT}.get(why)
            return [Abort(self.ref), *self.finish(Ending(outcome or Outcome.PREEMPTED, "not started"))]
        for report in stopping(self.stop):
            self.add(report)
        return [AskStop(self.ref, self.stop)]

    def spare(self) -> list[Command]:
        """The server takes a preemption back: the job may run on if it still does. Other stops stay."""
        if self.stop is None or self.spared or self.killed or self.stop.why != "preempt":
            return []
        self.spared = True
        return [Spare(self.ref)]

    def kill(self, why: str, now: float, kill_s: float) -> list[Command]:
        """End it now. One that was not asked before, or was let run on since, counts as asked for ``why``.

        Once it has ended, the upload of its checkpoint is given so much longer as :mod:`upload_limit` says.
        """
        if self.phase is Phase.PUBLISHING:
            return self._hurry(why, now, kill_s)
        if self.phase not in ALIVE:
            return self.ask_stop(why, now, kill_at=now)
        if self.killed:
            return []
        self.killed = True
        if self.stop is not None and not self.spared:
            return [Kill(self.ref)]
        self.stop, self.spared = StopAsked(why, now, now), False
        return [Kill(self.ref, self.stop)]

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

    def _limits(self, kill_s: float) -> tuple[float, float] | None:
        """``(ask at, kill at)`` of ``max_duration``, once it runs."""
        if self.started_at is None or self.launch is None or self.phase not in ALIVE:
            return None
        return limits(self.launch, self.started_at, declared=self.declared, kill_s=kill_s)

    def due(self, kill_s: float) -> list[float]:
        """The times at which :meth:`pass_time` may have something to do."""
        times = [self.release.look_at] if self.release is not None else []
        if self.phase is Phase.PUBLISHING:
            times.append(self.upload.ends_at(waits=self.closing))
        if self.phase in ALIVE and not self.killed:
            limit = self._limits(kill_s)
            if limit is not None:
                times.append(limit[1] if self.stop is not None and not self.spared else limit[0])
            if self.stop is not None and self.stop.kill_at is not None and not self.spared:
                times.append(self.stop.kill_at)
        return times

    def pass_time(self, now: float, kill_s: float) -> list[Command]:
        """Enforce the grace and the time limit at ``now``; ``kill_s`` is what a job has at least after a signal."""
        if self.release is not None and self.launch is not None and self.release.looking(now):
            return [LookAtGpus(self.ref, tuple(self.launch["gpus"]))]
        if self.ending and self.phase is Phase.PUBLISHING and now >= self.upload.ends_at(waits=self.closing):
            return self._give_up(self.ending)
        if self.phase not in ALIVE or self.killed:
            return []
        limit = self._limits(kill_s)
        if limit is not None and now >= limit[1]:
            return self.kill("time_limit", now, kill_s)
        asked = self.stop if not self.spared else None
        if asked is not None and asked.kill_at is not None and now >= asked.kill_at:
            return self.kill(asked.why, now, kill_s)
        if limit is not None and now >= limit[0] and asked is None:
            return self.ask_stop("time_limit", now, kill_at=limit[1])
        return []

    # ------------------------------------------------------------ its end

    def ended(self, event: Exited, now: float, *, free_within_s: float | None) -> list[Command]:
        """Its processes are gone: see its GPUs free, judge the end, then upload what it calls for, or finish.

        ``free_within_s`` is how long the GPUs are waited for; None where nobody can look at them.
        """
        if self.phase not in ALIVE:
            return []
        if self.dropped:
            return [Drop(self.ref)]
        self.exited = event
        self.phase = Phase.PUBLISHING
        for report in report_of(event.facts.bad_lines, event.facts.first_bad):
            self.add(report)
        if free_within_s is None or self.launch is None or not self.launch["gpus"] or not event.exit.clean:
            return self._judge(event)
        self.release = Release.begun(now, free_within_s)
        return [LookAtGpus(self.ref, tuple(self.launch["gpus"]))]

    def looked(self, event: GpusLooked, now: float) -> list[Command]:
        """Its GPUs are free, or they are looked at again until the wait is over: then it goes on with what is known.

        A GPU that does not answer is judged by its checks, which the server hears of together with this end.
        """
        if self.release is None or self.exited is None:
            return []
        if (event.left or event.silent) and self.release.again(now):
            return []
        self.release = None
        self.unproved = bool(event.silent)
        if event.left:
            self.exited = replace(self.exited, exit=replace(self.exited.exit, clean=False, left=event.left))
        notes = [Note(f"{self.ref.name}: {words}") for words in (event.left, event.silent) if words]
        return [*notes, *self._judge(self.exited)]

    def _judge(self, event: Exited) -> list[Command]:
        how = verdict(event, launch=self.launch, stop=self.stop, spared=self.spared, over=self.over)
        self.ending, self.stop = how
        self.closing = self.saving and (self.ending.checkpoint or self.ending.outcome in _MAY_RESUME)
        return [] if self.closing else self._close(self.ending, event.facts)

    def _close(self, ending: Ending, facts: Facts) -> list[Command]:
        """Upload what the ending calls for, or finish."""
        checkpoint = ending.checkpoint and self.first
        if self.launch is None or not (ending.outputs or checkpoint):
            return self.finish(ending)
        wanted = Publish(
            self.ref, self.launch, outputs=ending.outputs, checkpoint=checkpoint,
            clean=ending.clean, step=facts.last_step, declared=facts.last_path,
        )  # fmt: skip
        return [wanted]

    def _hurry(self, why: str, now: float, kill_s: float) -> list[Command]:
        """The server waits no longer for its checkpoint: only so much more time is left for its upload, if any."""
        if self.ending is None or self.ending.outputs:
            return []
        before, self.upload.until = self.upload.until, min(self.upload.until, upload_until(why, now, kill_s))
        return [UploadLimit(self.ref, self.upload.until)] if self.upload.until < before else []

    def checkpoint_found(self) -> list[Command]:
        """It has left something to resume from, which is moved from now on."""
        self.upload.found = True
        return []

    def _give_up(self, ending: Ending) -> list[Command]:
        """Its checkpoint is not in the store in time: it ends without, and a later run goes on from the one before."""
        self.closing = False
        return [Abort(self.ref), *self.finish(given_up(ending, self.upload.moved))]

    def take_moved(self, event: Moved) -> list[Command]:
        """So far its files have been moved."""
        self.upload.moved = event
        if self.phase in MOVING:
            self.add(event.report())
        return []

    # ------------------------------------------------------------ checkpoints on the way

    def save(self, saved: Saved) -> list[Command]:
        """The running job declared a checkpoint: into the store with it, one at a time and the newest first."""
        if self.phase is not Phase.RUNNING or self.launch is None or not self.first:
            return []
        if self.stop is not None and not self.spared:
            return []  # at an end that was asked for the whole directory is taken
        if self.saving:
            self.next_save = saved
            return []
        self.saving = True
        return [Snapshot(self.ref, self.launch, saved.path, saved.step)]

    def snapshotted(self, event: Snapshotted) -> list[Command]:
        """The checkpoint under way is in the store, or is not to be had."""
        self.saving = False
        if event.stale:
            return [] if self.dropped else self.drop()
        if event.artifact is not None and self.phase in (Phase.RUNNING, Phase.PUBLISHING):
            self.add({"type": "checkpoint", "artifact": event.artifact, "step": event.step})
        if self.closing and self.ending is not None and self.exited is not None:
            self.closing = False
            return self._close(self.ending, self.exited.facts)
        following, self.next_save = self.next_save, None
        return self.save(following) if following is not None else []

    def over_quota(self, event: OverQuota, now: float) -> list[Command]:
        """It has filled its share of the disk: it is ended, before others can't write."""
        if self.phase not in ALIVE or self.killed:
            return []
        self.over, self.killed, self.spared = event, True, False
        self.stop = StopAsked(DISK_QUOTA, now, now)
        return [Kill(self.ref, self.stop)]

    def finish(
        self, ending: Ending, *, artifacts: tuple[str, ...] = (), checkpoint: str | None = None
    ) -> list[Command]:
        """Its final report is written down, to be delivered once the log is."""
        self.phase = Phase.FINISHED
        self.report = final_report(
            self.ref, ending, exited=self.exited, stop=self.stop, artifacts=artifacts, checkpoint=checkpoint
        )
        if self.exited is None:
            self.log_done = True
        self._queue_report()
        return [StoreFinished(self.ref, self.report)]

    # ------------------------------------------------------------ what is to be told

    def add(self, report: dict[str, Any]) -> None:
        """``report`` will be told, as :func:`with_report` has it."""
        self.queue = with_report(self.queue, {"attempt": self.ref.attempt, "epoch": self.ref.epoch, **report})

    def tailed(self, event: Tailed) -> list[Command]:
        """Take in news from its files. Progress and metrics are rank 0's alone: others would tell the same again."""
        for report in event.reports if self.first else ():
            self.add(report)
        self.events_offset = max(self.events_offset, event.events_offset)
        if event.log is not None and not self.log_waiting:
            self.log_waiting = True
            self.add({"type": "logs", "offset": event.log[0], "text": event.log[1]})
        if event.log_done and not self.log_waiting:
            self.log_done = True
            self._queue_report()
        self.declared = self.declared or event.saved is not None
        return self.save(event.saved) if event.saved is not None else []

    def _queue_report(self) -> None:
        """The final report goes out last, when the log has been delivered."""
        if self.report is not None and self.log_done and not any(r["type"] == "finished" for r in self.queue):
            self.queue.append(self.report)

    @property
    def urgent(self) -> bool:
        """Whether something waits that should be told at once."""
        return is_urgent(self.queue, alive=self.phase in ALIVE)

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
