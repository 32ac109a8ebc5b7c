"""An ASGI application for ``test_serve``: it streams 200 MB and writes to a file how much it has got rid of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

CHUNKS, CHUNK = 200, b"x" * 1_000_000


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The stream; the file named by ``SENT`` counts the chunks that the server has taken."""
    sent = Path(os.environ["SENT"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for n in range(CHUNKS):
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        sent.write_text(str(n + 1))
    await send({"type": "http.response.body", "body": b""})
