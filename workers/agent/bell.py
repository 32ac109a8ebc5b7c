"""The doorbell by long poll: for nodes that may not reach the broker. A bell only makes the agent look."""

from __future__ import annotations

import threading
from collections.abc import Callable

from workers.agent.client import Api, CallFailed

BACKOFF_S = 0.5
BACKOFF_MOST_S = 30.0


def backoff(tries: int) -> float:
    """Seconds to wait after the ``tries``-th failure in a row: doubling from half a second to 30."""
    return float(min(BACKOFF_MOST_S, BACKOFF_S * 2 ** min(tries - 1, 10)))


def poll_bell(api: Api, ring: Callable[[], None], stop: threading.Event) -> None:
    """Ring whenever the server has news, until ``stop``; an absent server is asked again with growing pauses."""
    since, tries = 0, 0
    while not stop.is_set():
        try:
            answer = api.wait_for_bell(since)
        except CallFailed:
            tries += 1
            stop.wait(backoff(tries))
            continue
        tries = 0
        if answer != since:
            since = answer
            ring()
        else:
            stop.wait(BACKOFF_S / 10)  # a server that answers at once must not be asked in a tight loop
