"""Doorbells: "node n, look" and "board, something changed". They carry no authority, so losing one is harmless."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Protocol, cast

from django.conf import settings
from django.db import transaction


class Bell(Protocol):
    """Whoever can ring: never blocks, never raises."""

    def ring_nodes(self, names: Iterable[str]) -> None:
        """The named nodes look at their desired set soon."""


def ring(nodes: Iterable[str]) -> None:
    """Once the surrounding transaction has committed, the nodes' bells are rung."""
    names = sorted(set(nodes))
    if not names:
        return
    bell = cast(Bell, import_module(settings.EMEP_BELL))
    transaction.on_commit(lambda: bell.ring_nodes(names))
