"""Runs the scheduler: ticks until SIGTERM, then finishes the tick and frees the lease."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from scheduling.services.watch import run_scheduler


class Command(BaseCommand):
    requires_system_checks = []  # they import every door, and who takes over must be quick
    help = "Runs the scheduler loop. Start two or more: one leads, another takes over within seconds."

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
        holder = f"{socket.gethostname()}:{os.getpid()}"
        self.stdout.write(f"scheduler {holder} ticks every {settings.TICK_S:g} s and on every change")
        run_scheduler(holder, stop, period_s=settings.TICK_S)
