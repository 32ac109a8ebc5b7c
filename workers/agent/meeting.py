"""Where the ranks of an attempt on several nodes meet: ports that an agent keeps for them until they start."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import cast

from workers.agent.statedir import Ref, read_json, write_json
from workers.protocol import Meeting

MEMORY = "meet.json"


class KeptPorts:
    """One bound port for each attempt whose rank 0 is this node's; nobody listens there before its job does."""

    def __init__(self) -> None:
        self._sockets: dict[Ref, socket.socket] = {}

    def bind(self, ref: Ref, directory: Path) -> int:
        """A port of all interfaces is kept for ``ref`` until :meth:`release`; which one.

        After a restart of the agent it is the one before, of which ``directory`` knows, if that is still free: other
        nodes may have been told. Raises OSError when no port is free or the port can't be written down.
        """
        if ref not in self._sockets:
            before = (read_json(directory / MEMORY) or {}).get("port")
            kept = _bound(before) if isinstance(before, int) else None
            kept = kept or _bound(0)
            if kept is None:
                raise OSError("no port is free for the ranks to meet at")
            try:
                write_json(directory / MEMORY, {"port": _port(kept)})
            except OSError:
                kept.close()
                raise
            self._sockets[ref] = kept
        return _port(self._sockets[ref])

    def release(self, ref: Ref) -> None:
        """The port of ``ref``, if one was kept, is free for its job, or for anybody."""
        kept = self._sockets.pop(ref, None)
        if kept is not None:
            kept.close()


def _bound(port: int) -> socket.socket | None:
    """A socket bound to ``port`` (0: any) and to no other's; None when it is not to be had.

    Without SO_REUSEADDR: with it two agents of one machine could both hold a port that neither listens at.
    """
    made = socket.socket()
    try:
        made.bind(("", port))
    except (OSError, OverflowError):
        made.close()
        return None
    return made


def _port(bound: socket.socket) -> int:
    return cast(int, bound.getsockname()[1])


def alone() -> Meeting:
    """Where the ranks of an attempt on this node alone meet: a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Meeting(address="127.0.0.1", port=_port(probe))
