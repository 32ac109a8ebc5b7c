"""The order in which rows are locked: the node, its live row, the job, an upload; of several of a kind by their keys.

Whoever needs more than one takes them in this order, so that no two transactions wait for each other (C-61).
"""

from __future__ import annotations

from collections.abc import Collection

from scheduling.models import Node, NodeLive


def lock_node(name: str) -> Node | None:
    """The node's row, locked until the transaction ends; None for an unknown one.

    What only refers to it (a part of an attempt, a GPU) may be written meanwhile.
    """
    return Node.objects.select_for_update(no_key=True).filter(name=name).first()


def lock_live(names: Collection[str]) -> None:
    """The live rows of these nodes are locked until the transaction ends."""
    rows = NodeLive.objects.select_for_update(of=("self",)).filter(node__name__in=names).order_by("node_id")
    list(rows.values_list("pk"))
