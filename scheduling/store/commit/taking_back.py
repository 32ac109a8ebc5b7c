"""What a plan takes back: the work of nodes that are lost, and grants that a node did not take up in time.

A plan is made of what was read before; a node may have been heard of, or have taken its work, since. What it was told
then holds: so everything is looked at again under the locks that such a message needs, and left alone if it is stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from scheduling.core.lifecycle import NodeEvent, NodeState, advance_node
from scheduling.core.plan import Cause, LoseNode, Plan, Reclaim
from scheduling.core.policy import Policy
from scheduling.models import AttemptNode, Node, NodeLive
from scheduling.store import journal
from scheduling.store.clock import to_ms
from scheduling.store.commit.attempts import End
from scheduling.store.commit.locks import lock_live, lock_node
from scheduling.store.commit.parts import end_parts, live_part
from scheduling.store.load_pool import silence
from scheduling.store.node_names import named


@dataclass(slots=True)
class TakenBack:
    """The attempts that ended, the nodes to ring, and what of it had become stale."""

    ended: list[str] = field(default_factory=list)
    ring: set[str] = field(default_factory=set)
    stale: list[str] = field(default_factory=list)


@transaction.atomic
def take_back(plan: Plan, *, now: datetime, actor: str, policy: Policy) -> TakenBack:
    """The plan's silent nodes are LOST, and the parts on the nodes it names have ended LOST; the others' will stop.

    Not so a node that was heard of since the plan was made, nor a part whose node has taken it or made it ready since.
    """
    done = TakenBack()
    gone = {lost.node for lost in plan.lose_nodes}
    gone.update(node for taken in plan.reclaims for node, cause in _causes(taken) if cause == "node_lost")
    states = _locked(gone)
    for lost in plan.lose_nodes:
        if _lose(lost, now=now, actor=actor):
            states[lost.node] = NodeState.LOST
        else:
            done.stale.append(f"lose {lost.node}")
    confirmed = bool(gone) and silence(now, lease_s=policy.lease_s)[1]
    for taken in plan.reclaims:
        attempt, ends = UUID(taken.attempt), {}
        for node, cause in _causes(taken):
            part = live_part(attempt, taken.epoch, node, lock=True)
            if part is None or not _still(part, cause, states.get(node)):
                done.stale.append(f"reclaim {attempt} on {node}")
                continue
            ends[node] = End("LOST", error=_words(node, cause, confirmed=confirmed), why="lost", avoid_nodes=[node],
                             data={"cause": cause})  # fmt: skip
        ended = end_parts(attempt, taken.epoch, ends, now=now, actor=actor, policy=policy)
        if ended is not None:
            done.ring.update((*ends, *ended.ring))
            done.ended += [taken.attempt] * bool(ended.outcome)
    return done


def _causes(taken: Reclaim) -> list[tuple[str, Cause]]:
    return list(zip(taken.nodes, taken.causes, strict=True))


def _locked(names: set[str]) -> dict[str, NodeState]:
    """The states of these nodes, which stay so until the transaction ends; nor can they be heard of before that."""
    found: Mapping[str, Node | None] = {name: lock_node(name) for name in sorted(names)}
    lock_live(names)
    return {name: NodeState(node.state) for name, node in found.items() if node is not None}


def _lose(lost: LoseNode, *, now: datetime, actor: str) -> bool:
    """The locked node is LOST: none of its GPUs is given out until it registers again. False when it was heard of
    since, or can't be lost any more."""
    node = Node.objects.filter(name=lost.node).first()
    target = advance_node(NodeState(node.state), NodeEvent.LOSE) if node else None
    if node is None or target is None:
        return False
    heard = NodeLive.objects.filter(node=node).values_list("last_heartbeat_at", flat=True).first()
    if heard is None or to_ms(heard) != lost.heard_ms:
        return False
    Node.objects.filter(pk=node.pk).update(state=target, version=F("version") + 1)
    journal.write(
        [
            journal.Note("node_lost", "node", node.name, actor=actor, node=node.name, version=node.version + 1,
                         message="not heard of for its whole lease", data={"from": node.state, "to": target.value})
        ],
        now,
    )  # fmt: skip
    return True


def _still(part: AttemptNode, cause: Cause, state: NodeState | None) -> bool:
    if cause == "node_lost":
        return state is NodeState.LOST
    return (part.claimed_at if cause == "claim_expired" else part.ready_at) is None


def _words(node: str, cause: Cause, *, confirmed: bool) -> str:
    gone = "; an operator has confirmed that it is gone" if confirmed else ""
    return {
        "node_lost": f"{named(node)} has not been heard of for its lease{gone}; its work is taken back",
        "claim_expired": f"{named(node)} did not take the work in time",
        "ready_expired": f"{named(node)} was not ready to start in time",
    }[cause]
