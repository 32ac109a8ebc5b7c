"""``python -m emep_site.serve``: daphne's command, with a server that waits for slow readers.

Daphne alone takes a response as fast as the application gives it and keeps in memory what the client has not read
yet: one slow download of a model would cost the model's size.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from daphne.cli import CommandLineInterface
from daphne.server import Server

from scheduling.services import artifact_files


class Gate:
    """Twisted's push producer for one response: shut while the connection's write buffer is full."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()

    def pauseProducing(self) -> None:  # noqa: N802  Twisted's names
        """The buffer is full."""
        self.open.clear()

    def resumeProducing(self) -> None:  # noqa: N802
        """The buffer has drained."""
        self.open.set()

    def stopProducing(self) -> None:  # noqa: N802
        """The client has gone: whoever waits goes on, and finds the connection closed."""
        self.open.set()


class PacedServer(Server):
    """Each piece of a response is sent only once the connection takes it."""

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        """The message is written; a body message returns when the client has taken enough of it."""
        # A request whose client has gone has no channel any more: nothing is to be held back for it.
        is_http = hasattr(protocol, "registerProducer") and getattr(protocol, "channel", None) is not None
        if is_http and message["type"] == "http.response.start":
            protocol.gate = Gate()
            protocol.registerProducer(protocol.gate, True)
        gate: Gate | None = getattr(protocol, "gate", None)
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if is_http and last and gate is not None:
            protocol.unregisterProducer()
        await super().handle_reply(protocol, message)
        if is_http and not last and gate is not None:
            await gate.open.wait()


class Command(CommandLineInterface):
    """The daphne command with that server."""

    server_class = PacedServer


def refuse_wrong_store() -> None:
    """The process ends with one line where nothing could ever be stored as the settings are. A store that does not
    answer just now is only told of: jobs go on without it."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
    try:
        artifact_files.check_store()
    except artifact_files.StoreRefused as wrong:
        raise SystemExit(f"EMEP: EMEP_STORE_URL: {wrong}") from wrong
    except artifact_files.StoreAway as away:
        sys.stderr.write(f"EMEP: EMEP_STORE_URL: {away}\n")


if __name__ == "__main__":
    refuse_wrong_store()
    Command.entrypoint()
