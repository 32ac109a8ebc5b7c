"""A PostgreSQL for one test run, on a free port of 127.0.0.1 and in a temporary directory."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Names a directory that all parts of one run of all tests share: they have the same code.
SHARED = "EMEP_TEST_SHARED"
READY_S = 60.0
GIVING_WAY = ("nice", "-n", "15")  # before a command: what runs beside it gets the processors first


class Missing(Exception):
    """A program that a part of the tests needs is not installed."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def postgresql_bin() -> Path:
    """The directory with initdb and postgres: the newest of Debian's, else what the PATH has."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise Missing("postgresql")
    return Path(on_path).resolve().parent


def _unprivileged() -> list[str]:
    """PostgreSQL refuses root: the prefix that runs a command as another user, empty for anyone but root."""
    if os.geteuid() != 0:
        return []
    name = "postgres" if _exists("postgres") else "nobody"
    return ["setpriv", f"--reuid={name}", f"--regid={pwd.getpwnam(name).pw_gid}", "--clear-groups"]


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


@contextmanager
def postgresql(*, gives_way: bool = False) -> Iterator[str]:
    """A fresh PostgreSQL; yields its DATABASE_URL. Gone, with its data, afterwards."""
    binaries, prefix, port = postgresql_bin(), _unprivileged(), free_port()
    first = [*(GIVING_WAY if gives_way else ()), *prefix]
    home = Path(tempfile.mkdtemp(prefix="emep-pg-"))
    try:
        if prefix:
            owner = pwd.getpwnam("postgres" if _exists("postgres") else "nobody")
            os.chown(home, owner.pw_uid, owner.pw_gid)
        data = home / "data"
        subprocess.run(
            [*prefix, binaries / "initdb", "-D", data, "-U", "emep", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        server = subprocess.Popen(
            [*first, binaries / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", home,
             "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
             "-c", "max_connections=60"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        try:
            ready = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
            _wait(lambda: subprocess.run(ready, check=False).returncode == 0, server)
            yield f"postgres://emep@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wait(ready, process: subprocess.Popen) -> None:
    """Returns when ``ready`` is true; raises when the process ends first or takes too long."""
    deadline = time.monotonic() + READY_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args[0]} did not come up for {getpass.getuser()}")
        time.sleep(0.05)
