"""The doorbell of a house of chaos: some rings are lost, others come late. Which house listens is set by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

LISTENER: list[Callable[[list[str]], None]] = []


def ring_nodes(names: Iterable[str]) -> None:
    """The nodes may hear it."""
    for listener in LISTENER:
        listener(list(names))
