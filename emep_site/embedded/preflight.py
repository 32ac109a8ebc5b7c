"""May it start here? Each obstacle is one clear line."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import IO

from scheduling.services import artifact_files

MIN_FREE_BYTES = 500_000_000
PYTHONS = ((3, 11), (3, 13))


class Obstacle(Exception):
    """Why it can't start, in one line that says what to do."""


def python() -> None:
    """The running Python is one that the pins were made for."""
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise Obstacle(
            f"Python 3.11 to 3.13 is needed, this is {sys.version.split()[0]}: run make with PYTHON=python3.11"
        )


def data_dir(path: Path) -> None:
    """The directory exists, can be written, and has room."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)  # a directory that was there keeps its mode
        probe = path / f".probe-{os.getpid()}"
        probe.write_bytes(b"x" * 4096)
        probe.unlink()
    except OSError as refused:
        why = "there is no space left" if refused.errno in (errno.ENOSPC, errno.EDQUOT) else refused.strerror
        raise Obstacle(f"{path} can't be written ({why}): choose another directory with EMEP_DATA_DIR") from refused
    free = shutil.disk_usage(path).free
    if free < MIN_FREE_BYTES:
        raise Obstacle(
            f"{free / 1e6:.0f} MB are free at {path}, at least {MIN_FREE_BYTES / 1e6:.0f} MB are needed:"
            " free some space or choose another directory with EMEP_DATA_DIR"
        )


def store() -> None:
    """The artifact store that the settings choose can be written and read."""
    try:
        artifact_files.check_store()
    except artifact_files.StoreAway as away:
        raise Obstacle(f"EMEP_STORE_URL: {away}") from away


def port(host: str, number: int) -> None:
    """The port can be listened on."""
    if not 1 <= number <= 65535:
        raise Obstacle(f"EMEP_PORT must be 1 to 65535, not {number}")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as refused:
            why = "is in use" if refused.errno == errno.EADDRINUSE else f"can't be used ({refused.strerror})"
            raise Obstacle(f"port {number} on {host} {why}: choose another one with EMEP_PORT") from refused


def only_one(path: Path) -> IO[str]:
    """A lock on the data directory, held as long as the returned file is open."""
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as refused:
        file.seek(0)
        raise Obstacle(
            f"EMEP already runs on {path.parent} (process {file.read().strip() or 'unknown'}):"
            " stop it, or choose another directory with EMEP_DATA_DIR"
        ) from refused
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
