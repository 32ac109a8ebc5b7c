"""What server, agent and jobs say to each other. Standard library only: all three read this file.

The wire shapes are those of the REST contract (``/api/v1/nodes/…`` and ``/api/v1/attempts/…``); the rules for
manifests and digests decide an artifact's identity, so a change here is a change of protocol version.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, NotRequired, TypedDict

from workers.emep_job import CHECKPOINT_EXIT_CODE as CHECKPOINT_EXIT_CODE  # the client is one file and imports nothing
from workers.emep_job import MAX_EVENT_LINE as MAX_EVENT_LINE

PROTOCOL_VERSION = 2
BELL_TASK = "emep.look"
MAX_PATH = 1024
# As long a name as the usual file systems take.
MAX_NAME = 255


def bell_queue(node: str) -> str:
    """The name of the Celery queue that carries doorbells to ``node``."""
    return f"node.{node}"


class Outcome(StrEnum):
    """How one attempt ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    OOM = "OOM"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    PREEMPTED = "PREEMPTED"
    LOST = "LOST"


class Transfer(StrEnum):
    """What a node moves for an attempt, in words."""

    FETCH_INPUTS = "fetching inputs"
    FETCH_CHECKPOINT = "fetching checkpoint"
    SAVE_CHECKPOINT = "saving checkpoint"
    SEND_RESULTS = "storing results"


Why = Literal["preempt", "cancel", "time_limit", "health", "drain", "lost", "peer"]
"""Why an attempt is to stop; ``peer``: another node's part of it has ended."""


@dataclass(frozen=True, slots=True)
class Timings:
    """All waits of agent and server, in seconds. Tests scale them together; the real ones are the defaults.

    ``heartbeat_s`` report period; ``retry_s`` time-out of one heartbeat, then it is repeated at once;
    ``fence_s`` after the *send* time of the last acknowledged heartbeat the node stops its jobs by itself;
    ``kill_s`` from SIGTERM to SIGKILL when fencing; ``lease_s`` after the last accepted heartbeat the server
    takes the work back; ``claim_s`` from grant to claim; ``grace_s`` for a checkpoint;
    ``outage_grace_s`` how long an explicit refusal may pause the fence (D33).
    """

    heartbeat_s: float = 10.0
    retry_s: float = 3.0
    fence_s: float = 45.0
    kill_s: float = 10.0
    lease_s: float = 60.0
    claim_s: float = 60.0
    grace_s: float = 120.0
    outage_grace_s: float = 1800.0

    def __post_init__(self) -> None:
        if self.fence_s + self.kill_s >= self.lease_s:
            raise ValueError(
                f"fence_s + kill_s must be below lease_s ({self.fence_s} + {self.kill_s} >= {self.lease_s}): "
                "a node must have stopped its jobs before the server gives them away"
            )

    def scaled(self, factor: float) -> Timings:
        """The same timings, every one multiplied by ``factor``."""
        return Timings(*(getattr(self, name) * factor for name in self.__dataclass_fields__))


# ---------------------------------------------------------------- wire messages


class GpuDescription(TypedDict):
    """One GPU in a registration. ``memory_mib`` is what the board reports as installed."""

    uuid: str
    index: int
    model: str
    memory_mib: int
    nvlink_group_id: str | None


class CanaryResult(TypedDict):
    """What the test on a GPU came to, and how that reads."""

    passed: bool
    detail: str


class GpuSample(TypedDict, total=False):
    """One health report of one GPU. A metric that the board cannot give is absent; ``error`` is a failed check.

    ``fault`` is the kind of the error: ``hung`` (no answer in time), ``lost``, ``missing`` (the driver does not show
    it) or ``error``. ``memory_mib`` is the installed size; ``recovery`` what the driver asks for (0 nothing, 1 reset,
    2 reboot, 3 drain the peers, 4 drain and reset). ``xids`` are repeated until a heartbeat with them was answered;
    ``xids_before`` is how many this agent had told before them. ``canary`` is sent once the test has ended.
    """

    uuid: str
    utilization: float
    memory_used_mib: int
    memory_mib: int
    temperature_c: float
    temperature_limit_c: float
    power_w: float
    ecc: int
    remap_failure: int
    remap_pending: int
    retired_pages: int
    recovery: int
    xids: list[int]
    xids_before: int
    canary: CanaryResult
    error: str
    fault: str


class HeldAttempt(TypedDict):
    """An attempt the node holds: ``state`` is claimed, running, stopping, uploading or finished."""

    attempt: str
    epoch: int
    state: str


class Register(TypedDict):
    """A node as it describes itself.

    ``attempts`` are ``{attempt, epoch, pid_alive, runs}``: alive means that something of it is still to come, ``runs``
    that its first process lives just now. ``seq`` counts with that of the heartbeats: what others of this boot have
    overtaken on the way is refused. ``left_out``: GPUs that it has and does not offer, each in words.
    """

    boot_id: str
    seq: int
    protocol: int
    agent_version: str
    address: str
    rack_id: str
    network_bandwidth_gbps: float
    labels: dict[str, str]
    simulated: bool
    left_out: list[str]
    gpus: list[GpuDescription]
    attempts: list[dict[str, Any]]


class Registered(TypedDict):
    """``adopt``: attempt ids to keep; ``kill``: attempt ids to kill; then the timings in seconds."""

    adopt: list[str]
    kill: list[str]
    heartbeat_s: float
    retry_s: float
    fence_s: float
    kill_s: float
    lease_s: float
    claim_s: float
    grace_s: float
    outage_grace_s: float


class Report(TypedDict, total=False):
    """A message about one attempt. ``n`` numbers it within one request, so that its answer can be matched.

    ``type`` and what goes with it:
    ``stopping`` {why, had_s, ago_s}: the node itself asked it to stop (``drain`` or ``time_limit``), ``ago_s`` before
    this was sent, and kills it ``had_s`` after that;
    ``ready`` {port}: this part of an attempt on several nodes could start; ``port`` is rank 0's, 0 on the others;
    ``started`` {pid}; ``progress`` {step, total, unit, rate?}; ``metric`` {step, name, value};
    ``logs`` {offset, text} (offset and the answer's ``next`` count UTF-8 bytes);
    ``checkpoint`` {artifact, step}; ``checkpoint_refused`` {error}: what the job declared can't be taken, and why;
    ``transfer`` {what, files, of_files, bytes, of_bytes, over, whole, step, begun}: how far the moving of its files is
    (``over``: nothing more is moved; ``whole``: all of it came; ``step``: of a checkpoint, 0 where it has none;
    ``begun``: a number that no other transfer of this part of the attempt has);
    ``events_unread`` {lines, first}: so many lines of its events file were not understood;
    ``finished`` {outcome, exit_code, error, artifacts, checkpoint, step (of the checkpoint), why, detail, asked_s,
    had_s, gpus_clean, gpus_held}: ``asked_s`` is how long before its end it was asked to stop, and ``had_s`` how long
    it was given (both may be absent); ``gpus_clean`` is sent, false, only when its GPUs are not free; ``gpus_held``
    says whether it is memory alone that is held on them (true), or there is a process that could not be killed.
    """

    n: int
    attempt: str
    epoch: int
    type: str
    step: int
    total: int
    unit: str
    rate: float
    name: str
    value: float
    offset: int
    text: str
    port: int
    pid: int
    artifact: str
    artifacts: list[str]
    checkpoint: str | None
    outcome: str
    exit_code: int | None
    error: str
    why: str | None
    detail: str
    ago_s: float
    asked_s: float
    had_s: float
    gpus_clean: bool
    gpus_held: bool
    what: str
    files: int
    of_files: int
    bytes: int
    of_bytes: int
    over: bool
    whole: bool
    begun: int
    lines: int
    first: str


class Answer(TypedDict, total=False):
    """The answer to one report: ``ok``, else ``code`` (``stale_epoch``, ``unknown_attempt``, ``bad_report``)."""

    n: int
    ok: bool
    code: str
    message: str
    next: int


class Heartbeat(TypedDict):
    """``gpus`` is None when the message only carries reports: then it is no health check, but renews the lease."""

    boot_id: str
    seq: int
    disk_low: bool
    draining: bool
    gpus: list[GpuSample] | None
    attempts: list[HeldAttempt]
    reports: list[Report]


class Meeting(TypedDict):
    """Where the ranks of an attempt on several nodes meet: rank 0's node, and the port it has bound there."""

    address: str
    port: int


class Desired(TypedDict):
    """One attempt that the node should hold. ``go`` is there once all parts of an attempt on several nodes are ready:
    before that none of them starts a process."""

    attempt: str
    epoch: int
    action: str
    grace_s: float
    why: NotRequired[str | None]
    go: NotRequired[Meeting | None]


class HeartbeatReply(TypedDict):
    desired: list[Desired]
    canary: list[str]
    answers: list[Answer]


class FileEntry(TypedDict):
    """One file of an artifact: ``path`` relative with ``/``, ``size`` in bytes, ``sha256`` in hex."""

    path: str
    size: int
    sha256: str


class Launch(TypedDict):
    """The launch document. ``node_count`` is how many nodes the attempt has; ``inputs`` are
    ``{artifact, as, name, digest, files}``,     ``resume`` is ``{artifact, step, files}``."""

    attempt: str
    epoch: int
    number: int
    job: str
    kind: str
    params: dict[str, Any]
    argv: list[str] | None
    env: dict[str, str]
    gpus: list[str]
    node_rank: int
    node_count: int
    nproc: int
    inputs: list[dict[str, Any]]
    resume: dict[str, Any] | None
    remaining_s: float
    grace_s: float
    log_bytes: int


# ---------------------------------------------------------------- artifacts: manifest and digest

_BAD_PART = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|%#]")


class UnsafePath(ValueError):
    """A file name that could leave its artifact or mean different things on different systems."""


def check_path(path: str) -> str:
    """Return ``path`` if it is safe as a file name inside an artifact, else raise :class:`UnsafePath`.

    Safe: relative, ``/``-separated, UTF-8 of at most 1,024 bytes, no empty, ``.`` or ``..`` part, no part of more than
    255 bytes or that ends in a dot or a space, no control character and none of ``\\ : * ? " < > | % #``.
    """
    if not isinstance(path, str) or not path:
        raise UnsafePath("a file needs a name")
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise UnsafePath(f"the file name {spelled(path)} is not UTF-8") from None
    if length > MAX_PATH:
        raise UnsafePath(f"file name longer than {MAX_PATH} bytes")
    for part in path.split("/"):
        if part in ("", ".", "..") or part != part.rstrip(". ") or _BAD_PART.search(part):
            raise UnsafePath(f"unsafe file name {path[:80]!r}")
        if len(part.encode()) > MAX_NAME:
            raise UnsafePath(f"the name {part[:80]!r}... is longer than {MAX_NAME} bytes")
    return path


def clashes(paths: Iterable[str]) -> Iterator[str]:
    """Which of the files can't lie in one directory together, in words: two of one name, or one that is the folder of
    another. Case does not count, as it doesn't on some systems."""
    files: dict[str, str] = {}
    for path in paths:
        other = files.setdefault(path.casefold(), path)
        if other is not path:
            yield f"two files have one name (case does not count): {spelled(other)} and {spelled(path)}"
    for folded, path in files.items():
        end = folded.find("/")
        while end >= 0:
            if folded[:end] in files:
                both = f"{spelled(files[folded[:end]])} is a file and also the folder of {spelled(path)}"
                yield f"{both} (case does not count): rename one"
                break
            end = folded.find("/", end + 1)


def spelled(name: str) -> str:
    """The file name in quotes as people can read it and type it: a byte that is not UTF-8 is shown as ``\\xff``."""
    try:
        raw = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return ascii(name[:200])
    return repr(name[:200]) if raw == name.encode("utf-8", "replace") else repr(raw[:200])[1:]


def canonical_manifest(files: Iterable[FileEntry]) -> bytes:
    """The bytes whose sha256 is the artifact's digest: UTF-8 JSON, sorted by path, no spaces, no time, no job id."""
    rows = sorted(
        ({"path": check_path(f["path"]), "size": int(f["size"]), "sha256": f["sha256"]} for f in files),
        key=lambda row: str(row["path"]),
    )
    for words in clashes(str(row["path"]) for row in rows):
        raise UnsafePath(words)
    for row in rows:
        if not re.fullmatch(r"[0-9a-f]{64}", str(row["sha256"])):
            raise ValueError(f"sha256 of {row['path']!r} is not 64 hex digits")
    return json.dumps({"files": rows}, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def manifest_digest(files: Iterable[FileEntry]) -> str:
    """``sha256:`` + the hex digest of the canonical manifest: equal contents have equal digests everywhere."""
    return "sha256:" + hashlib.sha256(canonical_manifest(files)).hexdigest()
