"""Celery's application: chores off the job path, and the doorbells to nodes."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
app = Celery("emep")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["scheduling"])
