"""What the agent's machine is told and what it answers: events in, commands out. Values only.

``loop.py`` turns the world into events and commands into deeds; every ``sent_at`` and ``at`` is boot-clock seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workers.agent.failure import Failure as Failure
from workers.agent.failure import FailureKind as FailureKind
from workers.agent.meter import Moved as Moved
from workers.agent.outcome import Exit, Facts
from workers.agent.statedir import Ref
from workers.agent.upload_limit import CheckpointFound as CheckpointFound
from workers.agent.upload_limit import UploadLimit as UploadLimit
from workers.protocol import HeartbeatReply, Launch, Meeting, Registered


@dataclass(frozen=True, slots=True)
class StopAsked:
    """That a stop was asked for: kept on disk, so that an agent restarted since knows why the job ended."""

    why: str
    at: float
    kill_at: float | None
    events_offset: int = 0


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that a job declares complete: ``path`` below its checkpoint directory, ``.`` for all of it."""

    path: str
    step: int | None


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class RegisterDone:
    sent_at: float
    reply: Registered


@dataclass(frozen=True, slots=True)
class HeartbeatDone:
    sent_at: float
    reply: HeartbeatReply


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A registration or heartbeat failed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Claimed:
    ref: Ref
    launch: Launch


@dataclass(frozen=True, slots=True)
class ClaimFailed:
    ref: Ref
    failure: Failure


@dataclass(frozen=True, slots=True)
class Prepared:
    """Inputs and checkpoint lie in place; the job may start."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Bound:
    """``port`` is kept for the ranks of an attempt on several nodes to meet at."""

    ref: Ref
    port: int


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """``retryable``: the node's trouble (full disk), so the job should run elsewhere; else the job can't run."""

    ref: Ref
    error: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Born:
    """The keeper started the process, at ``at``."""

    ref: Ref
    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class Exited:
    """The leader has ended and what it left was killed. ``stop`` is what was on record when it ended."""

    ref: Ref
    exit: Exit
    facts: Facts


@dataclass(frozen=True, slots=True)
class GpusLooked:
    """What is still on the GPUs of an ended attempt, in words (``left``), and which did not answer (``silent``)."""

    ref: Ref
    left: str = ""
    silent: str = ""


@dataclass(frozen=True, slots=True)
class Tailed:
    """News of a job's files: reports in order, the next log chunk, and whether the log is at its end.

    ``saved`` is the newest checkpoint that was declared since the last time.
    """

    ref: Ref
    reports: tuple[dict[str, Any], ...] = ()
    events_offset: int = 0
    log: tuple[int, str] | None = None
    log_done: bool = False
    saved: Saved | None = None


@dataclass(frozen=True, slots=True)
class OverQuota:
    """The job has ``used`` more bytes of the disk than the node's ``limit`` for one, ``inputs`` of them its inputs."""

    ref: Ref
    used: int
    limit: int
    inputs: int = 0


@dataclass(frozen=True, slots=True)
class Snapshotted:
    """A checkpoint of a running job is in the store as ``artifact``, or could not be taken (None: ``error``).

    ``gone``: the job has removed or replaced it meanwhile, or it never was there; ``own``: the node's own trouble.
    """

    ref: Ref
    artifact: str | None
    step: int
    error: str = ""
    stale: bool = False
    gone: bool = False
    own: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    ref: Ref
    artifacts: tuple[str, ...] = ()
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """The server refused for good; ``stale``: it is no longer this node's attempt."""

    ref: Ref
    error: str
    stale: bool


@dataclass(frozen=True, slots=True)
class BellRang:
    """Somebody says there is news; it may be a lie, so it only makes the node look."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """The agent was asked to end: ``drain`` its jobs first, or leave them to the keeper."""

    drain: bool


Event = (
    Tick | RegisterDone | HeartbeatDone | CallFailed | Claimed | ClaimFailed | Prepared | Bound | PrepareFailed | Born
    | Exited | GpusLooked | Tailed | OverQuota | Snapshotted | CheckpointFound | Moved | Published | PublishFailed
    | BellRang | Terminate
)  # fmt: skip


# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class SendRegister:
    attempts: tuple[dict[str, Any], ...]
    seq: int = 0


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """``health``: put a fresh look at the GPUs into it. ``timeout_s`` is the whole call's."""

    seq: int
    health: bool
    draining: bool
    attempts: tuple[dict[str, Any], ...]
    reports: tuple[dict[str, Any], ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Let the keeper run jobs until ``deadline``."""

    deadline: float
    kill_s: float


@dataclass(frozen=True, slots=True)
class Claim:
    ref: Ref


@dataclass(frozen=True, slots=True)
class Prepare:
    ref: Ref
    launch: Launch


@dataclass(frozen=True, slots=True)
class Abort:
    """Whatever is under way for it (download, upload) should stop, and no port is kept for it."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Bind:
    """Keep a port for the ranks of an attempt on several nodes, until StartJob, Abort or Drop."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class StartJob:
    """``meeting`` is where its ranks meet; None when this node has all of them."""

    ref: Ref
    launch: Launch
    meeting: Meeting | None = None


@dataclass(frozen=True, slots=True)
class AskStop:
    """Put the stop on record, show the preempt file, and send SIGTERM to the leader."""

    ref: Ref
    stop: StopAsked


@dataclass(frozen=True, slots=True)
class Spare:
    """The stop is taken back: remove the preempt file."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to all of it. ``stop`` is put on record before, where none was asked for until now."""

    ref: Ref
    stop: StopAsked | None = None


@dataclass(frozen=True, slots=True)
class LookAtGpus:
    """Compare what is on these GPUs with what was on them before the job; one :class:`GpusLooked` follows."""

    ref: Ref
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Upload the announced outputs, or the checkpoint directory (``clean``: the job ended in order).

    Where a checkpoint lies there, :class:`CheckpointFound` says so before it is moved. ``declared`` is where the last
    one lies that the job declared complete; None: it never did.
    """

    ref: Ref
    launch: Launch
    outputs: tuple[dict[str, Any], ...]
    checkpoint: bool
    clean: bool
    step: int | None
    declared: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Upload what the running job has just declared complete."""

    ref: Ref
    launch: Launch
    declared: str
    step: int | None


@dataclass(frozen=True, slots=True)
class StoreFinished:
    """Keep the final report on disk until it is acknowledged."""

    ref: Ref
    report: dict[str, Any]


@dataclass(frozen=True, slots=True)
class KeepEventsOffset:
    """The server has everything up to here; a restarted agent goes on behind it."""

    ref: Ref
    offset: int


@dataclass(frozen=True, slots=True)
class LogAcknowledged:
    """The server holds the log up to ``next`` bytes; None: it wants no more of it."""

    ref: Ref
    next: int | None


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing of the attempt is needed any more."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Note:
    text: str  # something an operator should read in the log


@dataclass(frozen=True, slots=True)
class Leave:
    """End the agent; ``stop_keeper`` when no job is left for it to keep."""

    stop_keeper: bool


Command = (
    SendRegister | SendHeartbeat | WriteLease | Claim | Prepare | Abort | Bind | StartJob | AskStop | Spare | Kill
    | LookAtGpus | Publish | Snapshot | StoreFinished | KeepEventsOffset | LogAcknowledged | UploadLimit
    | Drop | Note | Leave
)  # fmt: skip
