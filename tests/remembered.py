"""Worlds that most tests begin with: built once a process by the product, then put back row by row.

Building one through the services takes a quarter of a second, putting it back some milliseconds. It is built before
the first test, so nothing that a test has patched or set is in it; what a test gets are copies.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.db import connection, transaction

from tests import stored

T = TypeVar("T")
# What the migrations fill. Every other table is empty when a test begins.
FILLED = ("django_migrations", "django_content_type", "auth_permission")
BUILDERS: list[Remembered] = []


@dataclass(frozen=True)
class Memory(Generic[T]):
    """What a builder returned, wrote into the database and laid into the artifact store."""

    hasher: str
    result: T
    inserts: tuple[tuple[str, list[Any]], ...]
    files: dict[Path, bytes]


class Remembered(Generic[T]):
    """A builder without arguments whose world is put back where nothing is there yet, and else built as it says."""

    def __init__(self, build: Callable[[], T]) -> None:
        functools.update_wrapper(self, build)
        self.build = build
        self.memory: Memory[T] | None = None
        BUILDERS.append(self)

    def __call__(self) -> T:
        known = self.memory
        if known is None or known.hasher != settings.PASSWORD_HASHERS[0] or not _nothing_is_there():
            return self.build()
        with transaction.atomic(), connection.cursor() as cursor:
            for statement, values in known.inserts:
                cursor.execute(statement, values)
        for path, content in known.files.items():
            stored.lay(path, content)
        return copy.deepcopy(known.result)

    def learn(self) -> None:
        """The world is known from now on; the database and the artifact store are as empty as before."""
        with transaction.atomic():
            result = self.build()
            inserts = tuple(insert for table in _tables() if (insert := _insert(table)) is not None)
            transaction.set_rollback(True)
        found = [path for path in settings.ARTIFACT_DIR.rglob("*") if path.is_file()]
        files = {path.relative_to(settings.ARTIFACT_DIR): path.read_bytes() for path in found}
        for path in found:
            path.unlink()
        self.memory = Memory(settings.PASSWORD_HASHERS[0], copy.deepcopy(result), inserts, files)


def learn_all() -> None:
    """Every builder's world is known. The database must be fresh and the artifact store empty."""
    for builder in BUILDERS:
        builder.learn()


def empty_all() -> None:
    """Every table is empty but those that the migrations fill, whatever was committed.

    Django's ``flush`` empties those too and fills them anew, which takes a fifth of a second.
    """
    with transaction.atomic(), connection.cursor() as cursor:  # references are checked at the end
        for table in _tables():
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")


@functools.cache
def _tables() -> list[str]:
    return sorted(set(connection.introspection.django_table_names(only_existing=True)) - set(FILLED))


def _nothing_is_there() -> bool:
    some = " OR ".join(f"EXISTS (SELECT 1 FROM {connection.ops.quote_name(table)})" for table in _tables())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {some}")
        (found,) = cursor.fetchone()
    return not found and not any(path.is_file() for path in settings.ARTIFACT_DIR.rglob("*"))


def _insert(table: str) -> tuple[str, list[Any]] | None:
    """The statement that writes the table's rows, with its values; None for an empty table."""
    name = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {name(table)}")
        rows, columns = cursor.fetchall(), [column[0] for column in cursor.description]
    if not rows:
        return None
    row = f"({', '.join(['%s'] * len(columns))})"
    statement = f"INSERT INTO {name(table)} ({', '.join(map(name, columns))}) VALUES {', '.join([row] * len(rows))}"
    return statement, [value for each in rows for value in each]
