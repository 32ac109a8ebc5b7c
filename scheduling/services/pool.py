"""The verbs of nodes: register, heartbeat, claim, report; and of operators: cordon, drain, return."""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from scheduling.core.lifecycle import NodeEvent
from scheduling.core.naming import forbidden_in
from scheduling.core.reclaim import MASS_SILENCE
from scheduling.core.units import parse_duration
from scheduling.services import artifacts, described, failures, health, notify, verification
from scheduling.services.described import seconds, whole
from scheduling.store import load, record, seed, transfers
from scheduling.store.commit import drains, nodes, parts, resuming
from scheduling.store.commit.attempts import WHY, End
from scheduling.store.commit.gpus import Report
from scheduling.store.queries import dispatch
from scheduling.store.queries import pool as queries
from scheduling.store.queries.access import Actor
from scheduling.store.queries.silence import silences
from workers.protocol import PROTOCOL_VERSION, Outcome, Timings, Transfer

SETTLED = {"cordon": "CORDONED", "drain": "DRAINING", "return": "READY"}
OPERATIONS = {"cordon": NodeEvent.CORDON, "drain": NodeEvent.DRAIN, "return": NodeEvent.RETURN}
DEADLINE_MAX_S = 30 * 86_400
REASON_MAX = 120
WITH_REASON = ("cordon", "drain")
WHY_MAX = 200  # of the column


def timings() -> Timings:
    """The waits that agents and server share, scaled as the settings say."""
    return Timings().scaled(settings.TIME_SCALE)


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """Why a node's message was refused: HTTP status, code, and a sentence."""

    status: int
    code: str
    message: str


def add_node(name: str, *, renew: bool = False) -> str:
    """The node exists with a new token, which is returned once and kept only as a hash.

    ValueError on a bad name, and for a node that has a token already unless ``renew``: its agent would be shut out.
    """
    if seed.node_has_token(name) and not renew:
        raise ValueError(
            f"node {name} exists, and a new token would shut its agent out until it is given the new one:"
            f" if that is meant, run manage.py addnode {name} --new-token"
        )
    token = f"emepn_{secrets.token_urlsafe(32)}"
    seed.node(name, _token_sha256(token))
    return token


def is_token_of(name: str, token: str) -> bool:
    """True when this token is good for the node."""
    return dispatch.token_sha256(name) == _token_sha256(token)


def _token_sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def register(node: str, message: Mapping[str, Any], now: datetime) -> dict[str, Any] | NodeRefused:
    """The node is in the pool as it describes itself; the reply says what to keep, what to kill, and the timings."""
    try:
        description = described.description(message)
    except KeyError as missing:
        return NodeRefused(422, "bad_registration", f"registration of {node}: {missing.args[0]} is missing")
    except (TypeError, ValueError) as wrong:
        return NodeRefused(422, "bad_registration", f"registration of {node}: {wrong}")
    if description["protocol"] != PROTOCOL_VERSION:
        return NodeRefused(
            409, "protocol_mismatch",
            f"the agent speaks protocol {description['protocol']}, this server {PROTOCOL_VERSION}: upgrade one",
        )  # fmt: skip
    result = nodes.register(node, description, now=now, policy=load.policy_of())
    if result is None:
        return NodeRefused(404, "unknown_node", f"there is no node {node}")
    if isinstance(result, nodes.Overtaken):
        words = f"seq {description['seq']} of {node} comes after {result.seq}: a newer message was here first"
        return NodeRefused(409, "overtaken", words)
    adopt, kill = result
    return {"adopt": adopt, "kill": kill, **asdict(timings())}


def heartbeat(node: str, message: Mapping[str, Any], now: datetime) -> dict[str, Any] | NodeRefused:
    """The lease is renewed, the reports are taken, and the reply carries the node's whole desired set."""
    boot = dispatch.boot_of_reachable(node)
    if boot is None or boot != message.get("boot_id"):
        return NodeRefused(409, "reregister", f"node {node} must register again")
    samples, reports = message.get("gpus"), message.get("reports", [])
    try:
        seq = whole(message.get("seq", 0))
    except (TypeError, ValueError) as wrong:
        return NodeRefused(422, "bad_heartbeat", f"seq: {wrong}")
    if not (samples is None or _objects(samples)) or not _objects(reports):
        return NodeRefused(422, "bad_heartbeat", "gpus (or null) and reports must be lists of objects")
    said = record.heard(
        seq=seq, disk_low=bool(message.get("disk_low")), leaving=bool(message.get("draining")),
        samples=None if samples is None else health.told(samples), now=now,
    )  # fmt: skip
    # First how the GPUs are, then what ended on them: an end is judged by the ground it stood on.
    if samples is None:
        record.heartbeat(node, said)
        tests = []
    else:
        tests = health.judge(node, Report(boot, seq, samples, said), now)
    answers = _answers(node, reports, now)
    if said["leaving"]:
        notify.ring(drains.leave_together(node, now=now, policy=load.policy_of, grace_s=timings().grace_s))
    return {"desired": dispatch.desired(node, now), "canary": tests, "answers": answers}


def _answers(node: str, reports: Sequence[Mapping[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """The answers to as many of the reports as there is time for, at least one; the agent tells the rest again.

    After ``retry_s`` it would repeat all of them, and both messages would then wait for the same rows. What an
    attempt is refused once in a message it is refused for the rest of it, its end excepted.
    """
    until = time.monotonic() + timings().retry_s / 3
    refused: dict[tuple[str, str], dict[str, Any]] = {}
    answers: list[dict[str, Any]] = []
    for each in reports:
        if answers and time.monotonic() > until:
            break
        whose = (str(each.get("attempt")), str(each.get("epoch")))
        if whose in refused and each.get("type") != "finished":
            answers.append({**refused[whose], "n": each.get("n", 0)})
            continue
        answers.append(report(node, each, now))
        if answers[-1].get("code") == "stale_epoch":
            refused[whose] = answers[-1]
    return answers


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)


def claim(node: str, attempt: str, epoch: int, now: datetime) -> dict[str, Any] | NodeRefused:
    """The launch document of the attempt, which the node now holds."""
    key = _uuid(attempt)
    if key is None or not parts.claim(key, epoch, node, now=now):
        return NodeRefused(
            409, "stale_epoch", "this attempt is not to be had: it ended, was stopped, or has another epoch"
        )
    launch = dispatch.launch(key, node, log_bytes=settings.LOG_BYTES_PER_ATTEMPT, grace_s=timings().grace_s)
    return launch if launch is not None else NodeRefused(409, "stale_epoch", "this attempt has ended")


def report(node: str, message: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The answer to one report about one attempt; a stale one changes nothing, and that is recorded."""
    answer: dict[str, Any] = {"n": message.get("n", 0), "ok": True}
    kind, key = str(message.get("type", "")), _uuid(str(message.get("attempt", "")))
    try:
        epoch = whole(message.get("epoch"))
    except (TypeError, ValueError):
        return {**answer, "ok": False, "code": "bad_report", "message": "epoch must be a whole number"}
    part, outcome = None, ""
    if kind == "finished" and key and message.get("detail") == "inputs" and parts.live_part(key, epoch, node):
        _look_at_its_checkpoint(key, now)
    try:
        with transaction.atomic():
            if kind == "finished":
                health.hold(node, message)
            # Locked: what is taken from the attempt is written while it is live, or not at all.
            part = parts.live_part(key, epoch, node, lock=True) if key else None
            if part is not None and kind == "finished":
                outcome = _finished(part.attempt.pk, epoch, node, message, now)
            elif part is not None:
                answer |= _taken(part, kind, message, now=now)
    except KeyError as missing:
        return {**answer, "ok": False, "code": "bad_report", "message": f"{kind}: {missing.args[0]} is missing"}
    except (TypeError, ValueError) as wrong:
        return {**answer, "ok": False, "code": "bad_report", "message": f"{kind}: {wrong}"[:300]}
    if part is not None:
        if outcome == Outcome.FAILED:
            health.failed(part.attempt.pk, now)
        return answer
    if kind == "finished" and key and dispatch.ended_same(key, epoch, node):
        return answer  # delivered twice: same answer, no second effect (D12)
    record.refused(node, str(message.get("attempt", "")), epoch, kind[:40], now)
    return {**answer, "ok": False, "code": "stale_epoch", "message": "the attempt is not live at this epoch"}


def _taken(part: parts.Part, kind: str, message: Mapping[str, Any], *, now: datetime) -> dict[str, Any]:
    """The report of a live attempt, other than of its end, has had its effect; returns what its answer says beside ok.

    What a job says of its progress and its metrics is taken from rank 0.
    """
    attempt, node = part.attempt, part.node.name
    if kind == "ready":
        notify.ring(parts.ready(part, whole(message.get("port", 0)), now=now, policy=load.policy_of()))
    elif kind == "started":
        parts.started(attempt.pk, attempt.epoch, node, now=now)
    elif kind in ("progress", "metric") and part.rank:
        return {}
    elif kind == "progress":
        rate = message.get("rate")
        record.progress(
            part, step=whole(message["step"]), total=whole(message["total"]), unit=str(message.get("unit", "")),
            rate=float(rate) if isinstance(rate, (int, float)) and math.isfinite(rate) else None, now=now,
        )  # fmt: skip
    elif kind == "metric":
        value = float(message["value"])
        if math.isfinite(value):
            record.metric(part, name=str(message["name"]), step=whole(message["step"]), value=value)
    elif kind == "logs":
        limit = settings.LOG_BYTES_PER_ATTEMPT
        offset, text = whole(message["offset"]), str(message["text"])
        return {"next": record.log(part, offset=offset, text=text, limit=limit, now=now)}
    elif kind == "checkpoint":
        (_, saved), *_ = artifacts.committed(attempt.pk, [str(message["artifact"])])
        parts.checkpointed(part, saved, whole(message.get("step", 0)), now=now)
    elif kind in ("stopping", "checkpoint_refused", "events_unread"):
        _on_the_timeline(part, kind, message, now)
    elif kind == "transfer":
        transfers.told(part, _moved(message), over=bool(message.get("over")), whole=_whole(message), now=now)
    else:
        return {"ok": False, "code": "bad_report", "message": f"unknown report type {kind[:40]!r}"}
    return {}


def _on_the_timeline(part: parts.Part, kind: str, message: Mapping[str, Any], now: datetime) -> None:
    """What a node says for people alone: nothing but the job's timeline changes."""
    if kind == "stopping":
        asked_at = now - timedelta(seconds=seconds(message["ago_s"]))
        parts.stopping(part, str(message["why"]), asked_at=asked_at, had_s=seconds(message["had_s"]), now=now)
    elif kind == "checkpoint_refused":
        parts.checkpoint_refused(part, str(message["error"]), now=now)
    else:
        parts.events_unread(part, whole(message["lines"]), str(message["first"]), now=now)


def _moved(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a node says that it moves, each number checked."""
    counts = {name: whole(message[name]) for name in ("files", "of_files", "bytes", "of_bytes")}
    which = {name: whole(message.get(name, 0)) for name in ("step", "begun")}
    return {"what": Transfer(str(message["what"])).value, **counts, **which}


def _whole(message: Mapping[str, Any]) -> bool:
    """Whether all of the transfer came; an agent of before that was told goes by the number of files."""
    return bool(message.get("over")) and bool(message.get("whole", message["files"] == message["of_files"]))


def _look_at_its_checkpoint(attempt: UUID, now: datetime) -> None:
    """A node could not fetch what the attempt begins with: if its checkpoint is damaged, that is known from now on."""
    checkpoint = dispatch.resumes_from(attempt)
    if checkpoint is not None:
        verification.damaged(checkpoint, now)


@transaction.atomic
def _finished(attempt: UUID, epoch: int, node: str, message: Mapping[str, Any], now: datetime) -> str:
    """The node's part has ended; returns the outcome of the attempt if that was its last one, else ""."""
    outcome, error = Outcome(str(message["outcome"])), str(message.get("error") or "")
    ground = health.ground(attempt, node, message, now)
    if ground.gpus and outcome is Outcome.FAILED:
        # What fails on a failing GPU is the GPU's fault (D13): it goes back to the queue and avoids it.
        outcome, error = Outcome.LOST, f"{ground.words}; the job said: {error}"
    if outcome is Outcome.FAILED and message.get("detail") == "inputs" and dispatch.resumes_from_damage(attempt):
        outcome, error = Outcome.LOST, f"its checkpoint is damaged; the node said: {error}"
    if outcome is Outcome.PREEMPTED and error:  # its cause is known here, what went wrong besides there
        why = WHY.get(str(message.get("why") or ""), "")
        error = "; ".join(words for words in (why, error) if words) if why not in error else error
    errors = failures.errors_of(message) if outcome is Outcome.FAILED else []
    error = failures.in_short(errors) or error
    outputs = artifacts.committed(attempt, [str(a) for a in message.get("artifacts") or []])
    saved, step = message.get("checkpoint"), whole(message.get("step", 0))
    checkpoint = artifacts.committed(attempt, [str(saved)])[0][1] if saved else None
    if checkpoint is not None and not resuming.is_new(attempt, checkpoint, step):
        checkpoint = None
    code = message.get("exit_code")
    how = End(
        outcome=outcome.value,
        exit_code=int(code) if isinstance(code, int) else None,
        error=error[:4000].replace("\x00", ""),
        why=str(message.get("why") or ""),
        outputs=outputs,
        checkpoint=checkpoint,
        checkpoint_step=step if checkpoint else 0,
        avoid_nodes=[node] if outcome is Outcome.LOST and str(message["outcome"]) == "LOST" else [],
        avoid_gpus=ground.gpus,
        data=_how_it_went(message),
        errors=errors,
    )
    ended = parts.end_part(attempt, epoch, node, how, now=now, actor=f"node {node}", policy=load.policy_of())
    if ended is None:
        return ""
    notify.ring(ended.ring)
    return ended.outcome


def _how_it_went(message: Mapping[str, Any]) -> dict[str, Any]:
    """The manner of the end as the node says it, with its times; of one that ``left`` something on its GPUs, what."""
    detail = str(message.get("detail") or "")[:500].replace("\x00", "")
    told = {"left": detail or health.UNFREE} if message.get("gpus_clean") is False else {}
    return {"manner": detail, **told, **_its_time(message)}


def _its_time(message: Mapping[str, Any]) -> dict[str, float]:
    """How long before its end it was asked to stop and how long it was given, as far as its node says so."""
    return {name: seconds(message[name]) for name in ("asked_s", "had_s") if message.get(name) is not None}


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def deadline_s(value: Any) -> int | None:
    """The seconds of a drain's deadline as people write it; None for none. ValueError says what may be given."""
    if value is None:
        return None
    try:
        wanted = parse_duration(value, "deadline")
    except ValueError as wrong:
        raise ValueError(f"{wrong}; {DEADLINE_MAX_S} s (30d) at most") from wrong
    if wanted > DEADLINE_MAX_S:
        raise ValueError(f"deadline may be {DEADLINE_MAX_S} s (30d) at most; leave it out to let every job end")
    return wanted


def reason_of(value: Any) -> str:
    """Why a node is closed, as an operator says it, in one line; "" for None. ValueError says what may be given."""
    if value is None:
        return ""
    if not isinstance(value, str) or len(value.strip()) > REASON_MAX:
        raise ValueError(f"reason must be a text of {REASON_MAX} characters at most, without NUL; shorten or omit it")
    reason = " ".join(value.split())
    bad = forbidden_in(reason)
    if bad is not None:
        raise ValueError(f"reason may not hold the control character U+{ord(bad):04X}; remove it")
    return reason


def operate(
    name: str, verb: str, actor: Actor, now: datetime, *, deadline_s: int | None = None, reason: str = ""
) -> tuple[bool, str] | None:
    """(lawful, state) after cordon, drain or return, of which twice is as lawful as once; None for an unknown node.

    Drained, it takes no new work, and what runs on it goes on to its end; with a deadline (in seconds from now) only
    until then: what still runs is asked to save, moves to other nodes and resumes. The newest word counts, also that
    of the ``reason``, which everybody sees who looks at the node.
    """
    if dispatch.boot_id(name) is None:
        return None
    lawful, state = drains.operate(
        name, OPERATIONS[verb], now=now, actor=actor.label, message=_closing_words(verb, actor, reason),
        anew=bool(reason),
        drain_by=None if deadline_s is None else now + timedelta(seconds=deadline_s),
    )  # fmt: skip
    return lawful or state == SETTLED[verb], state


def _closing_words(verb: str, actor: Actor, reason: str) -> str:
    """``drain by admin: new fans``; a very long name gives way to the reason."""
    room = WHY_MAX - len(f"{verb} by : {reason}")
    return f"{verb} by {actor.username[:room]}{f': {reason}' if reason else ''}"


def confirm_silence(actor: Actor, now: datetime) -> list[str] | None:
    """The nodes that are silent, whose work is taken back from now on though they are many; None without that alarm."""
    if not any(alarm["code"] == MASS_SILENCE for alarm in queries.scheduler(now)["alarms"]):
        return None
    silent = sorted(silences(now))
    drains.confirm_silence(silent, now=now, actor=actor.label)
    return silent


def empty(now: datetime) -> None:
    """What runs beyond its node's deadline has been asked to leave, and the nodes are rung to hear of it now."""
    notify.ring(drains.enforce(now, policy=load.policy_of, grace_s=timings().grace_s))


def accepting(now: datetime) -> None:
    """This web process could accept heartbeats just now (D21)."""
    record.accepting(now, gap_s=timings().heartbeat_s)
