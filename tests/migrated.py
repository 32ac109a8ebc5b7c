"""The tables of a test database are made by the migrations once for a whole run; every other process copies them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from django.db import connection

from tests.throwaway import SHARED

PATTERN = "emep_migrated"  # a PostgreSQL database that nobody is connected to, so that it can be copied


@contextlib.contextmanager
def once(beside: Path | None) -> Iterator[None]:
    """While it is entered a test database is migrated by the first process that needs one of its kind.

    ``beside`` is a directory that the processes of this run of pytest share; None for a process alone.
    """
    place = _place(beside)
    if place is None:
        yield
        return
    migrate = connection.creation.create_test_db

    def create(*args, **kw) -> str:
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.exists():
                name = migrate(*args, **kw)
                _keep(place, name)
                return name
            with mock.patch("django.core.management.call_command"), _copying():
                name = migrate(*args, **kw)
            if connection.vendor == "sqlite":
                connection.ensure_connection()
                with contextlib.closing(sqlite3.connect(place)) as made:
                    made.backup(connection.connection)
            return name

    with mock.patch.object(connection.creation, "create_test_db", create):
        yield


def _place(beside: Path | None) -> Path | None:
    """The file that tells that the tables have been made, and on SQLite has them; None where nobody shares them."""
    shared = os.environ.get(SHARED)
    if connection.vendor == "sqlite":
        directory = Path(shared) if shared else beside
        return directory and directory / "migrated.sqlite3"
    # A server that outlives this run keeps no pattern of it.
    return Path(shared) / f"migrated-{connection.settings_dict['PORT']}" if shared else None


def _keep(place: Path, name: str) -> None:
    if connection.vendor == "sqlite":
        with contextlib.closing(sqlite3.connect(place)) as made:
            connection.connection.backup(made)
        return
    connection.close()
    with connection._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {PATTERN} TEMPLATE {connection.ops.quote_name(name)}")
    connection.ensure_connection()
    place.touch()


@contextlib.contextmanager
def _copying() -> Iterator[None]:
    """On PostgreSQL a database that is created meanwhile is a copy of the pattern."""
    if connection.vendor == "sqlite":
        yield
        return
    with mock.patch.dict(connection.settings_dict["TEST"], {"TEMPLATE": PATTERN}):
        yield
