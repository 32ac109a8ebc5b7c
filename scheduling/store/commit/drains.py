"""What keeps a node closed: an operator's word or its health, and until when what runs on it may stay.

Closed is said once and holds until somebody takes it back, also while the node is LOST and when it registers again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F

from scheduling.core.lifecycle import NodeEvent, NodeState, advance_node
from scheduling.core.policy import Policy
from scheduling.models import Attempt, Node, SchedulerState
from scheduling.store import journal
from scheduling.store.commit.leaving import Leave, leave
from scheduling.store.commit.locks import lock_node
from scheduling.store.fixed import FixedValues
from scheduling.store.node_names import named

HEALTH = "health"
CLOSED = {NodeEvent.CORDON: NodeState.CORDONED, NodeEvent.DRAIN: NodeState.DRAINING}
_DUE = FixedValues(
    lambda now: Attempt.objects.filter(
        nodes__node__state=NodeState.DRAINING, nodes__node__drain_by__lte=now, nodes__ended_at__isnull=True,
        ended_at__isnull=True, action="run",
    )
    .order_by("job_id")
    .values_list("pk", "nodes__node__name")
)  # fmt: skip
OPEN: dict[str, Any] = {"closed": "", "closed_by": "", "why": "", "drain_by": None}


@transaction.atomic
def operate(
    name: str,
    event: NodeEvent,
    *,
    now: datetime,
    actor: str,
    message: str,
    drain_by: datetime | None = None,
    anew: bool = False,
) -> tuple[bool, str]:
    """The node is cordoned, draining or back in service; returns (lawful, its state).

    The newest word counts: a node that is DRAINING and is drained again has the deadline of the second time, or none.
    With ``anew`` a message that differs counts as well.
    """
    node = lock_node(name)
    if node is None:
        raise Node.DoesNotExist(name)
    state = NodeState(node.state)
    wanted = CLOSED.get(event)
    target = advance_node(state, event)
    differs = node.drain_by != drain_by or node.closed_by == HEALTH or (anew and node.why != message)
    if target is None and state is wanted and differs:
        target = state
    if target is None:
        return False, state
    facts = OPEN if wanted is None else {"closed": target, "closed_by": actor, "why": message, "drain_by": drain_by}
    write(node, target, facts, now=now, actor=actor, message=message)
    return True, target


def state_at_registration(node: Node, *, rebooted: bool) -> tuple[NodeState, dict[str, Any]]:
    """The node's state when it registers, and its columns that change with it.

    What was closed stays closed, also when it was LOST in between; but health's reason is gone after a restart.
    """
    state = advance_node(NodeState(node.state), NodeEvent.REGISTER) or NodeState(node.state)
    if node.closed_by == HEALTH and rebooted:
        return NodeState.READY, OPEN
    return NodeState(node.closed) if node.closed else state, {}


def enforce(now: datetime, *, policy: Callable[[], Policy], grace_s: float) -> list[str]:
    """What still runs on nodes whose deadline has come is asked to save and to leave them; returns the nodes to ring.

    Each job has its queue's grace, at most ``grace_s`` seconds; a job on several nodes leaves all of them.
    """
    if not _DUE(now):  # as it mostly is: no transaction for that
        return []
    with transaction.atomic():
        return _leave(_past_deadline(now, grace_s), now=now, actor="scheduler", policy=policy)


def _past_deadline(now: datetime, grace_s: float) -> list[tuple[UUID, Leave]]:
    return [
        (attempt, Leave("drain", f"{named(name)} is drained, and its deadline has passed",
                        {"cause": "drain", "node": name}, grace_s=grace_s))
        for attempt, name in _DUE(now)
    ]  # fmt: skip


@transaction.atomic
def leave_together(node: str, *, now: datetime, policy: Callable[[], Policy], grace_s: float) -> list[str]:
    """The node shuts down and asks its own jobs: those it shares with others are asked on all; the nodes to ring."""
    here = Attempt.objects.filter(nodes__node__name=node, nodes__ended_at__isnull=True, ended_at__isnull=True)
    shared = Attempt.objects.filter(pk__in=here.filter(action="run")).annotate(parts=Count("nodes")).filter(parts__gt=1)
    asked = Leave("drain", f"{named(node)} is shutting down", {"cause": "drain", "node": node}, grace_s=grace_s)
    rows = [(attempt, asked) for attempt in shared.order_by("job_id").values_list("pk", flat=True)]
    return _leave(rows, now=now, actor=f"node {node}", policy=policy)


def _leave(rows: Sequence[tuple[UUID, Leave]], *, now: datetime, actor: str, policy: Callable[[], Policy]) -> list[str]:
    if not rows:
        return []
    known = policy()  # once: it takes several queries
    return [node for attempt, asked in rows for node in leave(attempt, asked, now=now, actor=actor, policy=known)]


@transaction.atomic
def confirm_silence(silent: Sequence[str], *, now: datetime, actor: str) -> None:
    """These silent nodes are gone, an operator says: the guard that keeps their work from being taken back is off."""
    SchedulerState.objects.update(silence_confirmed_at=now)
    words = "an operator confirmed that it is gone: its work is taken back when its lease is over"
    rows = Node.objects.filter(name__in=silent).order_by("name")
    journal.write(
        [
            journal.Note("silence_confirmed", "node", node.name, actor=actor, node=node.name, version=node.version,
                         message=words)
            for node in rows
        ],
        now,
    )  # fmt: skip


def write(node: Node, target: NodeState, facts: dict[str, Any], *, now: datetime, actor: str, message: str) -> None:
    """The locked node is as ``target`` and ``facts``, its columns, say; the journal tells by whom and why."""
    Node.objects.filter(pk=node.pk).update(state=target, version=F("version") + 1, **facts)
    until = facts["drain_by"]
    journal.write(
        [
            journal.Note(f"node_{target.value.lower()}", "node", node.name, actor=actor, node=node.name,
                         version=node.version + 1, message=message,
                         data={"from": node.state, "to": target.value,
                               "deadline": until.isoformat() if until else None})
        ],
        now,
    )  # fmt: skip
