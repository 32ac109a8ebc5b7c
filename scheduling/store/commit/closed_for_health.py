"""A node closed by its health: for which of its GPUs, what is needed, and when is it open again?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

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


def settle(node: int, left: Sequence[Broken], back: Sequence[str], *, new: bool, now: datetime) -> None:
    """The node takes no new work while a GPU of it is ``left``, and says which; what runs on its others goes on.

    ``new``: a fault has just come, which closes one that is READY. One that an operator has closed stays as it is, and
    so does one that an operator has opened. ``back`` tells of those that are left no more, in words.
    """
    fresh = Node.objects.select_for_update().get(pk=node)
    ours = fresh.state == NodeState.DRAINING and fresh.closed_by == HEALTH
    if not ours and not (new and fresh.state == NodeState.READY):
        return
    if not left:
        told = "; ".join(back) or "no GPU of it waits for a restart of its machine any more"
        write(fresh, NodeState.READY, OPEN, now=now, actor=HEALTH, message=told[:200])
        return
    message = why_closed(left)
    if fresh.why != message:
        facts = {"closed": NodeState.DRAINING, "closed_by": HEALTH, "why": message, "drain_by": None}
        write(fresh, NodeState.DRAINING, facts, now=now, actor=HEALTH, message=message)


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
