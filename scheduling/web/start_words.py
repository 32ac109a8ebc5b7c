"""What are the nodes of a granted job doing until it runs? In the words of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.core.words import agree
from workers.protocol import Transfer

MAX_NAMED = 3
_FETCHES = {Transfer.FETCH_INPUTS: "its inputs", Transfer.FETCH_CHECKPOINT: "the checkpoint that it goes on from"}


def until_it_runs(job: Mapping[str, Any]) -> str:
    """What is waited for, by node. How far a node has come with fetching stands on the page beside it."""
    by = job["starting"] or {}
    told = []
    if unclaimed := by.get("unclaimed"):
        one = len(unclaimed) == len(_everyone(by)) == 1
        told.append(f"waiting for {'the node' if one else _named(unclaimed)} to take it")
    if preparing := by.get("preparing"):
        told.append(_prepare(preparing, job["transfer"]))
    if ready := by.get("ready"):
        told.append(f"{_named(ready)} {agree(len(ready), 'is', 'are')} ready")
    if started := by.get("started"):
        told.append(f"{_named(started)} {agree(len(started), 'has', 'have')} started")
    return "; ".join(told)


def _prepare(nodes: Sequence[str], transfer: Mapping[str, Any] | None) -> str:
    what = _FETCHES.get(transfer["what"]) if transfer else None
    fetches = f"{transfer['node']} is fetching {what}" if transfer and what else ""
    if fetches and len(nodes) == 1:
        return fetches
    prepare = f"{_named(nodes)} {agree(len(nodes), 'prepares', 'prepare')} its start"
    return f"{prepare} ({fetches})" if fetches else prepare


def _everyone(by: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for names in by.values() for name in names]


def _named(nodes: Sequence[str]) -> str:
    """``n1``, ``n1 and n2``, ``n1, n2, n3 and 4 more``."""
    if len(nodes) > MAX_NAMED + 1:
        return f"{', '.join(nodes[:MAX_NAMED])} and {len(nodes) - MAX_NAMED} more"
    return " and ".join([", ".join(nodes[:-1]), nodes[-1]]) if len(nodes) > 1 else nodes[0]
