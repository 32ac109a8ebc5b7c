"""The doorbell by Celery message on the node's own queue. Whatever a message says, it only makes the agent look."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

from kombu.connection import Connection
from kombu.entity import Queue
from kombu.exceptions import KombuError, OperationalError
from kombu.messaging import Consumer

from workers.agent.bell import backoff
from workers.protocol import bell_queue

WAIT_S = 1.0
# kombu has no types.
_connect: Any = Connection
_queue: Any = Queue
_consumer: Any = Consumer


def broker_bell(url: str, node: str, ring: Callable[[], None], stop: threading.Event) -> None:
    """Ring for every message on ``node``'s queue, until ``stop``; the broker's absence costs only latency."""
    tries = 0
    while not stop.is_set():
        try:
            with _connect(url, connect_timeout=5) as connection:
                connection.ensure_connection(max_retries=1)
                tries = 0
                _listen(connection, node, ring, stop)
        except (OSError, KombuError, OperationalError, *_connect(url).connection_errors):
            tries += 1
            ring()  # what was sent meanwhile may be lost
            stop.wait(backoff(tries))


def _listen(connection: Any, node: str, ring: Callable[[], None], stop: threading.Event) -> None:
    queue = _queue(bell_queue(node), routing_key=bell_queue(node), durable=True)

    def heard(message: Any) -> None:
        message.ack()
        ring()

    with _consumer(connection, queues=[queue], on_message=heard, accept=["json"], prefetch_count=16):
        ring()  # for bells from before we listened
        while not stop.is_set():
            try:
                connection.drain_events(timeout=WAIT_S)
            except (TimeoutError, socket.timeout):  # noqa: UP041 - transports raise either
                continue
