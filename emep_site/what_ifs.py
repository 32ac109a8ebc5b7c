"""How a replay reaches a Celery worker: a message with its id. A lost one is sent again by the chore of every 30 s."""

from __future__ import annotations

import structlog
from django.conf import settings

from emep_site.celery import app

log = structlog.get_logger(__name__)
TASK = "scheduling.tasks.play_what_if"


def send(run: str) -> None:
    """A worker will play it; without a broker it waits until there is one."""
    if not settings.BROKER_URL:
        return
    try:
        app.send_task(TASK, args=[run], ignore_result=True, retry=False)
    except (OSError, app.connection_for_write().transport.connection_errors) as lost:
        log.warning("what-if not sent", run=run, reason=str(lost)[:200])
