"""A PostgreSQL that is stopped and started while everything runs: what was committed must be there afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from tests import throwaway

FAST, IMMEDIATE = signal.SIGINT, signal.SIGQUIT
OWNER, SUPERUSER = "emep", "judge"


class Database:
    """A server on a free port with its data in a directory of its own; :meth:`close` leaves nothing of it.

    Commits are written before they are answered (``synchronous_commit``), but not forced to the disk: here the server
    dies and not the machine.
    """

    def __init__(self) -> None:
        self._binaries, self._prefix, self.port = throwaway.postgresql_bin(), _unprivileged(), throwaway.free_port()
        self._home = Path(tempfile.mkdtemp(prefix="emep-chaos-pg-"))
        if self._prefix:
            owner = pwd.getpwnam(_other_user())
            os.chown(self._home, owner.pw_uid, owner.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            [*self._prefix, self._binaries / "initdb", "-D", self._home / "data", "-U", SUPERUSER, "-A", "trust",
             "-E", "UTF8", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip

    def url(self, name: str, user: str = OWNER) -> str:
        """The address of one of its databases, as Django and psycopg take it.

        The product is no superuser: the places kept for those are left for whoever judges it.
        """
        return f"postgresql://{user}@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """It is started, if it does not run; it may take a moment until it answers."""
        if self._process is not None and self._process.poll() is None:
            return
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, self._binaries / "postgres", "-D", self._home / "data", "-p", str(self.port),
                 "-h", "127.0.0.1", "-k", self._home, "-c", "fsync=off", "-c", "full_page_writes=off"],
                stdout=log, stderr=log, cwd="/",
            )  # fmt: skip

    def until_ready(self) -> None:
        """It runs and answers."""
        self.start()
        ready = [self._binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + throwaway.READY_S
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not come up: {(self._home / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self, how: signal.Signals) -> None:
        """It has ended: ``FAST`` ends every session in order, ``IMMEDIATE`` at once, as in a crash."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(30)

    def copy(self, template: str, name: str) -> None:
        """The database ``name`` is a copy of another one to which nobody is connected.

        A sequence writes ahead in the log what it will give next, and the copy holds that for written, which the log
        has for the template alone: a crash would set the copy's back. After a checkpoint it writes anew.
        """
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" OWNER {OWNER}')
        self.execute("CHECKPOINT")

    def create(self, name: str) -> None:
        """An empty database of that name is there, the first of the product's."""
        self.execute(f"CREATE ROLE {OWNER} LOGIN")
        self.execute(f'CREATE DATABASE "{name}" OWNER {OWNER}')

    def drop(self, name: str) -> None:
        """The database is gone, whoever is connected to it."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def execute(self, statement: Any) -> None:
        """One statement in the first database, each by itself."""
        with psycopg.connect(self.url("postgres", SUPERUSER), autocommit=True) as connection:
            connection.execute(statement)

    def close(self) -> None:
        """The server and its data are gone."""
        self.stop(IMMEDIATE)
        shutil.rmtree(self._home, ignore_errors=True)


def _other_user() -> str:
    return "postgres" if any(user.pw_name == "postgres" for user in pwd.getpwall()) else "nobody"


def _unprivileged() -> list[str]:
    """PostgreSQL refuses root: what to write before a command so that it runs as somebody else."""
    if os.geteuid() != 0:
        return []
    owner = pwd.getpwnam(_other_user())
    return ["setpriv", f"--reuid={owner.pw_name}", f"--regid={owner.pw_gid}", "--clear-groups"]
