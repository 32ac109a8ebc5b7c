"""Celery's application: chores off the job path, and the doorbells to nodes."""

from __future__ import annotations

import os
import signal
from typing import Any

import structlog
from celery import Celery
from celery.signals import beat_embedded_init, worker_ready
from django.conf import settings

from emep_site.embedded.leash import die_with_parent

log = structlog.get_logger(__name__)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
app = Celery("emep")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["scheduling"])


def _end_with_worker(**_: Any) -> None:
    """The beat inside a worker is a process of its own: it must not outlive a worker that is killed."""
    die_with_parent(signal.SIGKILL)


def _tell_of_mail(**_: Any) -> None:
    """Whoever starts the worker that sends notices hears when it can send none by e-mail."""
    if not settings.EMAIL_IS_SENT:
        log.warning("no e-mail about jobs is sent: EMEP_EMAIL_URL is not set")


beat_embedded_init.connect(_end_with_worker)
worker_ready.connect(_tell_of_mail)
