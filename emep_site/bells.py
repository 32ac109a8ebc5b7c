"""The doorbell through the broker: a Celery message to the node's own queue, sent beside the request, never in it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable

import structlog
from django.conf import settings

from emep_site.celery import app
from workers.protocol import BELL_TASK, bell_queue

log = structlog.get_logger(__name__)
EXPIRES_S = 30
_waiting: queue.Queue[str] = queue.Queue(maxsize=10_000)
_thread: threading.Thread | None = None
_guard = threading.Lock()


def ring_nodes(names: Iterable[str]) -> None:
    """A thread of this process will ring the nodes' bells; a lost one is harmless, heartbeats heal it."""
    if not settings.BROKER_URL:
        return
    _ensure_thread()
    for name in names:
        try:
            _waiting.put_nowait(name)
        except queue.Full:
            return


def _ensure_thread() -> None:
    global _thread
    with _guard:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_ring_for_ever, name="bells", daemon=True)
            _thread.start()


def _ring_for_ever() -> None:
    while True:
        name = _waiting.get()
        try:
            app.send_task(BELL_TASK, queue=bell_queue(name), expires=EXPIRES_S, ignore_result=True, retry=False)
        except (OSError, app.connection_for_write().transport.connection_errors) as lost:
            log.warning("bell not rung", node=name, reason=str(lost)[:200])
