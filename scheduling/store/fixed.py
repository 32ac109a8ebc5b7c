"""Queries that are the same every time: put into words once a process, since that takes longer than the answer.

A tick, a heartbeat and a report each ask a dozen of them. Only what the database gives as it is fits: texts, whole
numbers and fractions. Times, JSON and truth values come as each database keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.db.models import QuerySet


class Fixed:
    """A query without anything that changes from call to call; called, it gives its rows."""

    def __init__(self, made: Callable[[], QuerySet[Any, tuple[Any, ...]]]) -> None:
        self._made = made
        self._words: dict[str, tuple[str, tuple[Any, ...]]] = {}

    def __call__(self) -> list[tuple[Any, ...]]:
        """The rows as they are now."""
        words = self._words.get(connection.vendor)
        if words is None:
            words = self._words[connection.vendor] = self._made().query.sql_with_params()
        with connection.cursor() as cursor:
            cursor.execute(*words)
            return cursor.fetchall()
