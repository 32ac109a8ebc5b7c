"""Celery's application: chores off the job path, and the doorbells to nodes."""

from __future__ import annotations

import os
import signal
from typing import Any

from celery import Celery
from celery.signals import beat_embedded_init

from emep_site.embedded.leash import die_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
app = Celery("emep")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["scheduling"])


def _end_with_worker(**_: Any) -> None:
    """The beat inside a worker is a process of its own: it must not outlive a worker that is killed."""
    die_with_parent(signal.SIGKILL)


beat_embedded_init.connect(_end_with_worker)
