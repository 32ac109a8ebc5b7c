"""What are the nodes of a granted job doing until it runs? In the words of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.core.words import agree, names_in_words
from workers.protocol import Transfer

_FETCHES = {Transfer.FETCH_INPUTS: "its inputs", Transfer.FETCH_CHECKPOINT: "the checkpoint that it goes on from"}


def until_it_runs(job: Mapping[str, Any]) -> str:
    """What is waited for, by node. How far a node has come with fetching stands on the page beside it."""
    by = job["starting"] or {}
    told = []
    if unclaimed := by.get("unclaimed"):
        one = len(unclaimed) == len(_everyone(by)) == 1
        told.append(f"waiting for {'the node' if one else names_in_words(unclaimed)} to take it")
    if preparing := by.get("preparing"):
        told.append(_prepare(preparing, job["transfer"]))
    if ready := by.get("ready"):
        told.append(f"{names_in_words(ready)} {agree(len(ready), 'is', 'are')} ready")
    if started := by.get("started"):
        told.append(f"{names_in_words(started)} {agree(len(started), 'has', 'have')} started")
    return "; ".join(told)


def _prepare(nodes: Sequence[str], transfer: Mapping[str, Any] | None) -> str:
    what = _FETCHES.get(transfer["what"]) if transfer else None
    fetches = f"{transfer['node']} is fetching {what}" if transfer and what else ""
    if fetches and len(nodes) == 1:
        return fetches
    prepare = f"{names_in_words(nodes)} {agree(len(nodes), 'prepares', 'prepare')} its start"
    return f"{prepare} ({fetches})" if fetches else prepare


def _everyone(by: Mapping[str, Sequence[str]]) -> list[str]:
    return [name for names in by.values() for name in names]
