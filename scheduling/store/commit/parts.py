"""What each node says of its part of an attempt: claimed, ready, started, ended. With its last part an attempt ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from scheduling.core.lifecycle import JobEvent, JobState
from scheduling.core.policy import Policy
from scheduling.core.words import instant_in_words
from scheduling.models import Artifact, Attempt, AttemptNode, Event, Job
from scheduling.store import journal
from scheduling.store.clock import past_in_words, to_ms
from scheduling.store.commit import resuming
from scheduling.store.commit.attempts import End, ask_to_stop, end, got_on
from scheduling.store.commit.transitions import lock_job, step
from scheduling.store.fixed import Fixed, FixedObjects
from scheduling.store.node_names import named
from scheduling.store.queries.dispatch import meeting_of

Part = AttemptNode
"""One node's part of an attempt, for those who only hand it on."""

# What the other nodes of an attempt have for a last checkpoint once it has lost one, in seconds.
PEER_GRACE_S = 10.0

# Why a node asks what it runs to stop, without its server.
OF_A_NODE = {"drain": "the node is being emptied", "time_limit": "its time limit comes to its end"}

_LOCKED = Fixed(lambda attempt: Job.objects.select_for_update(of=("self",)).filter(attempts=attempt).values_list("pk"))
_LIVE = FixedObjects(
    lambda attempt, epoch, node: AttemptNode.objects.select_related("attempt", "node").filter(
        attempt_id=attempt, attempt__epoch=epoch, attempt__ended_at__isnull=True, node__name=node, ended_at__isnull=True
    )
)


@dataclass(frozen=True, slots=True)
class PartEnd:
    """The end of a part had its effect: the nodes to ring, and the attempt's outcome if it was the last part."""

    ring: Sequence[str] = field(default=())
    outcome: str = ""


def live_part(attempt_id: UUID, epoch: int, node: str, *, lock: bool = False) -> AttemptNode | None:
    """The node's part of the attempt if it is live at this epoch, else None: the fence for every node message.

    With ``lock`` it stays so until the transaction ends: whoever ends an attempt locks its job first.
    """
    if lock:
        _LOCKED(attempt_id)
    return _LIVE.first(attempt_id, epoch, node)


def live_parts(node: int) -> list[AttemptNode]:
    """The parts of live attempts that the node (by its key) has not ended."""
    rows = AttemptNode.objects.filter(node=node, ended_at__isnull=True, attempt__ended_at__isnull=True)
    return list(rows.select_related("attempt").order_by("attempt_id"))


@transaction.atomic
def claim(attempt_id: UUID, epoch: int, node: str, *, now: datetime) -> bool:
    """The node holds its part of the attempt (again, when asked again); False when it is not to be had."""
    part = live_part(attempt_id, epoch, node, lock=True)
    if part is None or part.attempt.action != "run":
        return False
    if AttemptNode.objects.filter(pk=part.pk, claimed_at__isnull=True).update(claimed_at=now):
        journal.write([_note(part, "claimed", f"{node} has claimed it")], now)
    return True


@transaction.atomic
def ready(part: AttemptNode, port: int, *, now: datetime, policy: Policy) -> list[str]:
    """The node could start its part; returns the nodes to ring, once all could: then they are told to go.

    ``port`` is where rank 0 lets the others in. Once they have been told it can't change any more: a rank 0 that
    comes with another one has lost its part. Of an attempt on one node nothing is to be told.
    """
    attempt = part.attempt
    if attempt.nodes.count() == 1:
        return []
    if part.rank == 0 and not 1 <= port < 2**16:
        raise ValueError(f"port must be a whole number from 1 to {2**16 - 1} on rank 0, not {port}")
    met = meeting_of(attempt.pk)
    if met is not None:
        if part.rank == 0 and port != met["port"]:
            words = f"its ranks were to meet at port {met['port']}, and {part.node.name} has port {port} now"
            how = End("LOST", error=words, why="lost", data={"cause": "port_lost"})
            ended = end_part(attempt.pk, attempt.epoch, part.node.name, how, now=now, actor=f"node {part.node.name}",
                             policy=policy)  # fmt: skip
            return list(ended.ring) if ended is not None else []
        return []
    fresh = part.ready_at is None
    AttemptNode.objects.filter(pk=part.pk).update(
        ready_at=part.ready_at or now, claimed_at=part.claimed_at or now, port=port if part.rank == 0 else None
    )
    met = meeting_of(attempt.pk)
    if fresh:
        words = f"{part.node.name} is ready"
        if met is not None:
            words = f"all its nodes are ready and start; they meet at {met['address']}:{met['port']}"
        journal.write([_note(part, "ready", words)], now)
    return [] if met is None else list(attempt.nodes.values_list("node__name", flat=True))


@transaction.atomic
def started(attempt_id: UUID, epoch: int, node: str, *, now: datetime) -> bool:
    """The node's processes run; the job is RUNNING once all its nodes have said so. False when stale."""
    part = live_part(attempt_id, epoch, node)
    if part is None:
        return False
    if not AttemptNode.objects.filter(pk=part.pk, started_at__isnull=True).update(
        started_at=now, claimed_at=part.claimed_at or now
    ):
        return True
    if part.attempt.nodes.filter(started_at__isnull=True).exists():
        return True
    Attempt.objects.filter(pk=attempt_id).update(started_at=now)
    job = lock_job(part.attempt.job_id)
    if job is not None:
        nodes = ", ".join(part.attempt.nodes.values_list("node__name", flat=True))
        step(job, JobEvent.START, now, actor=f"node {node}", attempt=attempt_id,
             message=f"attempt {part.attempt.number} runs on {nodes}",
             fields={"started_at": job.started_at or now})  # fmt: skip
    return True


@transaction.atomic
def end_part(
    attempt_id: UUID, epoch: int, node: str, how: End, *, now: datetime, actor: str, policy: Policy
) -> PartEnd | None:
    """The node's part has ended; with the last one the attempt ends, by the end that decides (:func:`together`).

    When it ended in any way but success, what the other nodes still run is asked to stop within ten seconds: without
    it they would wait for it until their time is up. None when there is no such live part: nothing changes, so a
    message delivered twice has one effect.
    """
    return end_parts(attempt_id, epoch, {node: how}, now=now, actor=actor, policy=policy)


@transaction.atomic
def end_parts(
    attempt_id: UUID, epoch: int, ends: Mapping[str, End], *, now: datetime, actor: str, policy: Policy
) -> PartEnd | None:
    """As :func:`end_part`, for the parts on several nodes at once: those that are live have ended, each by its own."""
    attempt = Attempt.objects.filter(pk=attempt_id).first()
    if attempt is None:
        return None
    job = lock_job(attempt.job_id)
    live = {node: part for node in ends if (part := live_part(attempt_id, epoch, node)) is not None}
    if not live or job is None:
        return None
    for node, part in live.items():
        how = ends[node]
        AttemptNode.objects.filter(pk=part.pk).update(ended_at=now, outcome=how.outcome, end=_stored(how))
    parts = list(attempt.nodes.select_related("node"))
    if len(parts) > 1:
        journal.write([_ended(part, ends[node]) for node, part in live.items()], now)
    return settle(job, ends[next(iter(live))], parts, now=now, actor=actor, policy=policy)


def _ended(part: AttemptNode, how: End) -> journal.Note:
    """What the timeline says of a part that has ended before its attempt."""
    node, words = part.node.name, f": {how.error}" if how.error else ""
    data = {"rank": part.rank, "outcome": how.outcome, "exit_code": how.exit_code, "why": how.why}
    ended = f"the part on {node} is lost" if how.outcome == "LOST" else f"{node} has ended its part: {how.outcome}"
    return _note(part, "part_ended", f"{ended}{words}", data)


def settle(job: Job, last: End, parts: Sequence[AttemptNode], *, now: datetime, actor: str, policy: Policy) -> PartEnd:
    """The attempt of these parts ends if all have ended; else its others are asked to stop if it can't succeed."""
    attempt = Attempt.objects.get(pk=parts[0].attempt_id)
    if all(part.ended_at is not None for part in parts):
        whole = last if len(parts) == 1 else together(parts)
        end(attempt.pk, attempt.epoch, whole, now=now, actor=actor, policy=policy)
        return PartEnd(outcome=whole.outcome)
    if last.outcome == "SUCCEEDED":
        return PartEnd()
    return _stop_the_rest(job, attempt, last, now=now, actor=actor, policy=policy)


def _stop_the_rest(job: Job, attempt: Attempt, how: End, *, now: datetime, actor: str, policy: Policy) -> PartEnd:
    """The other nodes stop within ten seconds; what none of them has begun ends at once."""
    soon = now + timedelta(seconds=PEER_GRACE_S * settings.TIME_SCALE)
    left = "a part of it was lost" if how.outcome == "LOST" else f"a node has left it ({how.outcome})"
    if attempt.action == "run":
        ask_to_stop(attempt, "peer", now, grace_s=PEER_GRACE_S * settings.TIME_SCALE)
        if job.state == JobState.RUNNING:
            step(job, JobEvent.PREEMPT, now, actor=actor, attempt=attempt.pk, data={"cause": "peer"},
                 message=f"{left}: the others save what they can and stop")  # fmt: skip
    elif attempt.action == "stop" and how.outcome == "LOST":
        Attempt.objects.filter(pk=attempt.pk, stop_by__gt=soon).update(stop_by=soon)
    done = release_unclaimed(job, attempt, now=now, actor=actor, policy=policy)
    return done or PartEnd(tuple(attempt.nodes.filter(ended_at__isnull=True).values_list("node__name", flat=True)))


def release_unclaimed(job: Job, attempt: Attempt, *, now: datetime, actor: str, policy: Policy) -> PartEnd | None:
    """Parts that no node has claimed have ended: an attempt that is to stop is not to be had any more.

    Returns the attempt's end if these were its last parts.
    """
    how = End("CANCELLED" if job.state == JobState.CANCELLING else "PREEMPTED", why="peer")
    free = attempt.nodes.filter(claimed_at__isnull=True, ended_at__isnull=True)
    if not free.update(ended_at=now, outcome=how.outcome, end=_stored(how)):
        return None
    parts = list(attempt.nodes.select_related("node"))
    if any(part.ended_at is None for part in parts):
        return None
    return settle(job, how, parts, now=now, actor=actor, policy=policy)


def together(parts: Sequence[AttemptNode]) -> End:
    """How an attempt on several nodes has ended, by how its parts have.

    A lost node decides: what the others said then came of it, and it has left no exit code. Else the first that did
    not succeed, and of those that stopped to be resumed one that may not be: it was cancelled, or its time is up.
    Outputs are those of all nodes, in the order of their ranks; the checkpoint is rank 0's; every GPU and node that is
    to be avoided counts.
    """
    ends = [_restored(part) for part in parts]
    by_time = sorted(range(len(parts)), key=lambda n: (ends[n].why == "peer", parts[n].ended_at, n))
    lost = [n for n in by_time if ends[n].outcome == "LOST"]
    bad = [n for n in by_time if ends[n].outcome not in ("SUCCEEDED", "PREEMPTED")]
    stopped = [n for n in by_time if ends[n].outcome == "PREEMPTED"]
    decides = (lost or bad or stopped or by_time)[0]
    first = min(range(len(parts)), key=lambda n: parts[n].rank)
    how = ends[decides]
    succeeded = how.outcome == "SUCCEEDED"
    names: dict[str, UUID] = {}
    for one in ends:
        for name, artifact in one.outputs:
            names.setdefault(name, artifact)
    said = [
        {"node": p.node.name, "outcome": e.outcome, "exit_code": e.exit_code, "manner": e.data.get("manner", "")}
        for p, e in zip(parts, ends, strict=True)
    ]
    return replace(
        how,
        error=how.error if succeeded or not how.error else f"{parts[decides].node.name}: {how.error}",
        outputs=tuple(names.items()) if succeeded else (),
        checkpoint=ends[first].checkpoint,
        checkpoint_step=ends[first].checkpoint_step,
        avoid_nodes=sorted({node for one in ends for node in one.avoid_nodes}),
        avoid_gpus=sorted({gpu for one in ends for gpu in one.avoid_gpus}),
        data={**how.data, **_left_on(parts, ends), "parts": said},
    )


def _left_on(parts: Sequence[AttemptNode], ends: Sequence[End]) -> dict[str, str]:
    """What its processes left on GPUs, node by node; nothing where they left nothing."""
    left = [f"{p.node.name}: {e.data['left']}" for p, e in zip(parts, ends, strict=True) if e.data.get("left")]
    return {"left": "; ".join(left)} if left else {}


@transaction.atomic
def checkpointed(part: AttemptNode, artifact: UUID, saved_step: int, *, now: datetime) -> None:
    """The job will resume from this checkpoint, which the attempt has committed, if it has to.

    Its timeline says so once, however often its attempts tell of the same one. ValueError on another rank than the
    first: of an attempt on several nodes only rank 0's checkpoints count.
    """
    if part.rank:
        raise ValueError("of a job on several nodes only the checkpoints of rank 0 are kept")
    Artifact.objects.filter(pk=artifact).update(published=True)
    got_on(part.attempt, saved_step, now)
    saved = resuming.saved(part.attempt, artifact, saved_step)
    Job.objects.filter(pk=part.attempt.job_id).update(**saved.columns(), version=F("version") + 1)
    if not _said(part, "checkpoint_committed", data__artifact=str(artifact)):
        words = f"checkpoint{f' at step {saved.step}' * bool(saved.step)} is in the store"
        data = {"artifact": str(artifact), "step": saved.step}
        journal.write([_note(part, "checkpoint_committed", words, data)], now)


@transaction.atomic
def checkpoint_refused(part: AttemptNode, why: str, *, now: datetime) -> None:
    """The job's timeline says, once an attempt, why a checkpoint that it declared can't be kept. Nothing else changes.

    ValueError on another rank than the first, and without a reason.
    """
    if part.rank:
        raise ValueError("of a job on several nodes only the checkpoints of rank 0 are kept")
    words = why.replace("\x00", "").strip()[:1500]
    if not words:
        raise ValueError("error must say why the checkpoint was refused")
    message = f"its checkpoint was refused: {words}"
    if not _said(part, "checkpoint_refused", attempt=part.attempt_id, message=message):
        journal.write([_note(part, "checkpoint_refused", message)], now)


@transaction.atomic
def stopping(part: AttemptNode, why: str, *, asked_at: datetime, had_s: float, now: datetime) -> None:
    """The job's timeline says, once an attempt, that its node asked it to stop, when and why, and until when it may
    save. Nothing where the server has asked, or is about to: a node that shuts down stops what it shares on all nodes.

    ValueError for a reason that is no node's.
    """
    if why not in OF_A_NODE:
        raise ValueError(f"why must be one of {', '.join(OF_A_NODE)}, not {why[:40]!r}")
    attempt = part.attempt
    shared = why == "drain" and attempt.nodes.count() > 1
    if shared or attempt.action != "run" or _said(part, "stop_requested", attempt=attempt.pk, data__by="node"):
        return
    until = asked_at + timedelta(seconds=had_s)
    words = (
        f"{named(part.node.name)} asked it at {past_in_words(asked_at)} to save and stop, as "
        f"{OF_A_NODE[why]}; it has until {instant_in_words(to_ms(until))}"
    )
    data = {"cause": why, "by": "node", "asked_at": asked_at.isoformat(), "until": until.isoformat()}
    journal.write([_note(part, "stop_requested", words, data)], now)


@transaction.atomic
def events_unread(part: AttemptNode, lines: int, first: str, *, now: datetime) -> None:
    """The job's timeline says, once for each of its nodes in an attempt, how many lines of its events file said
    nothing that is understood, and quotes the first of them. ValueError when there is none."""
    if not lines:
        raise ValueError("lines must be at least 1")
    shown = first.replace("\x00", "").strip()[:500]
    what = "1 line of its events file was" if lines == 1 else f"{lines} lines of its events file were"
    if not _said(part, "events_unread", attempt=part.attempt_id, node=part.node.name):
        words = f"{what} not understood and had no effect; the first: {shown}"
        journal.write([_note(part, "events_unread", words, {"lines": lines})], now)


def _said(part: AttemptNode, kind: str, **what: Any) -> bool:
    """Whether the timeline of the attempt's job has such an event already."""
    job = str(part.attempt.job_id)
    return Event.objects.filter(object="job", object_id=job, type=kind, **what).exists()


def _stored(how: End) -> dict[str, Any]:
    stored = asdict(how)
    stored["outputs"] = [[name, str(artifact)] for name, artifact in how.outputs]
    stored["checkpoint"] = str(how.checkpoint) if how.checkpoint else None
    kept = {name: value for name, value in stored.items() if value not in (None, "", 0, [], (), {})}
    return {**kept, "exit_code": how.exit_code}  # 0 is one


def _restored(part: AttemptNode) -> End:
    said = dict(part.end)
    said["outputs"] = [(name, UUID(artifact)) for name, artifact in said.get("outputs", [])]
    said["checkpoint"] = UUID(said["checkpoint"]) if said.get("checkpoint") else None
    return End(**said)


def _note(part: AttemptNode, kind: str, message: str, data: dict[str, Any] | None = None) -> journal.Note:
    version, project = journal.of_job(part.attempt.job_id)
    return journal.Note(
        kind, "job", str(part.attempt.job_id), actor=f"node {part.node.name}", version=version, project=project,
        attempt=part.attempt_id, epoch=part.attempt.epoch, node=part.node.name, message=message, data=data or {},
    )  # fmt: skip
