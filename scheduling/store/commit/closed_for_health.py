"""A node closed by its health: for which of its GPUs, what is needed, and when is it open again?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.core.lifecycle import NodeState
from scheduling.models import Node
from scheduling.store.commit.drains import HEALTH, OPEN, write


@dataclass(frozen=True, slots=True)
class Broken:
    """A GPU whose node is closed until its machine was restarted; ``answered``: an operator has answered for it, so
    that only its test and the clean checks are wanted."""

    index: int
    words: str
    answered: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What the node's health makes of it: open or closed, with the columns that change, and why."""

    target: NodeState
    facts: dict[str, Any]
    message: str


def change(node: Node, left: Sequence[Broken], back: Sequence[str], *, new: bool) -> Change | None:
    """The node takes no new work while a GPU of it is ``left``, and says which; what runs on its others goes on. None
    when it already says so.

    ``new``: a fault has just come, which closes one that is READY. One that an operator has closed stays as it is, and
    so does one that an operator has opened. ``back`` tells of those that are left no more, in words.
    """
    ours = node.state == NodeState.DRAINING and node.closed_by == HEALTH
    if not ours and not (new and node.state == NodeState.READY):
        return None
    if not left:
        told = "; ".join(back) or "no GPU of it waits for a restart of its machine any more"
        return Change(NodeState.READY, OPEN, told[:200])
    message = why_closed(left)
    if node.why == message:
        return None
    facts = {"closed": NodeState.DRAINING, "closed_by": HEALTH, "why": message, "drain_by": None}
    return Change(NodeState.DRAINING, facts, message)


def settle(node: Node, change: Change | None, *, now: datetime) -> None:
    """The locked node is as its health makes it, if that is a change."""
    if change is not None:
        write(node, change.target, change.facts, now=now, actor=HEALTH, message=change.message)


def why_closed(left: Sequence[Broken]) -> str:
    """Why the node takes no new work, and what is needed, in at most 200 characters."""
    waits = [f"GPU {each.index}: {each.words}" for each in left if not each.answered]
    tested = [f"GPU {each.index}: {each.words}" for each in left if each.answered]
    told = []
    if waits:
        told.append(f"its machine has to be restarted: {', '.join(waits)}")
    if tested:
        told.append(f"it takes work again when what an operator answers for has passed its test: {', '.join(tested)}")
    return "; ".join(told)[:200]


def words_of_return(index: int, *, retired: bool) -> str:
    """That the GPU keeps its node closed no more."""
    return f"GPU {index} was taken out of the pool" if retired else f"GPU {index} is back in service"
