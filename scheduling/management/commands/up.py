"""Everything on this machine: prepares the data directory, starts the embedded set, and stops it on SIGTERM."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand

from emep_site.embedded import leash, preflight, prepare, supervise


class Command(BaseCommand):
    help = "Runs EMEP on this machine with no other service: web, scheduler, Celery, broker, and demo nodes."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        if os.environ.get("EMEP_STOP_WITH_PARENT"):  # set by make: killing make stops the set in order
            leash.die_with_parent(signal.SIGTERM)
        for name in (signal.SIGTERM, signal.SIGINT):  # until the supervisor sets its own: tidy up, then end
            signal.signal(name, _leave)
        try:
            preflight.python()
            preflight.data_dir(settings.DATA_DIR)
            lock = preflight.only_one(settings.DATA_DIR / "up.lock")
            preflight.port(settings.HOST, settings.PORT)
            preflight.store()
            (settings.DATA_DIR / "run").mkdir(exist_ok=True)
            prepared = prepare.everything(lambda line: self._say(f"EMEP: {line}"))
        except preflight.Obstacle as obstacle:
            self.stderr.write(f"EMEP: {obstacle}")
            raise SystemExit(1) from obstacle
        with lock:
            self._welcome(prepared)
            door = (settings.HOST, settings.PORT)
            supervise.run(prepared.configuration, door=door, address=settings.PUBLIC_URL)
            self._say("EMEP: stopped; everything is kept, the next start goes on from here")

    def _welcome(self, prepared: prepare.Prepared) -> None:
        self._say(f"\n  EMEP  {settings.PUBLIC_URL} (in some seconds: a line below says when it answers)\n")
        for name, secret in prepared.fresh_users.items():
            self._say(f"  sign in as {name:<6} password {secret['password']}")
        if prepared.fresh_users:
            self._say(
                "\n  These passwords are shown this once. Change one: .venv/bin/python manage.py changepassword NAME"
            )
        self._say(f"  For scripts, with tokens and model ids: {settings.DATA_DIR / 'demo.json'}")
        mail = f"sent from {settings.DEFAULT_FROM_EMAIL}" if settings.EMAIL_IS_SENT else "none; EMEP_EMAIL_URL sends it"
        self._say(f"  E-mail about jobs: {mail}")
        self._say(f"  Logs: {settings.DATA_DIR / 'logs'}   Stop: Ctrl-C\n")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _leave(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)
