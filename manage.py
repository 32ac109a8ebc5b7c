#!/usr/bin/env python
"""Django's command line for EMEP."""

import os
import sys
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

WITHOUT_DATABASE = {
    "up",
    "migrate",
    "help",
    "check",
    "collectstatic",
    "makemigrations",
    "spectacular",
    "test",
    "simulate",
}


def missing_database() -> Path | None:
    """The SQLite file that the command would need and that is not there."""
    database = settings.DATABASES["default"]
    if len(sys.argv) < 2 or sys.argv[1] in WITHOUT_DATABASE or not database["ENGINE"].endswith("sqlite3"):
        return None
    if sys.argv[1].startswith("-") or Path(database["NAME"]).exists():
        return None
    return Path(database["NAME"])


def stand_alone() -> None:
    """``simulate`` uses nothing of an installation: no database, whatever DATABASE_URL says, and no kept secret."""
    if sys.argv[1:2] == ["simulate"]:
        os.environ["DATABASE_URL"] = "sqlite://:memory:"
        os.environ["EMEP_SECRET_KEY"] = "unused"  # noqa: S105  nothing is signed with it


def main() -> None:
    """Runs the command; a wrong setting, or a data directory that has no database yet, is one clear line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
    stand_alone()
    try:
        settings.DATABASES  # noqa: B018  reads the settings, so that what is wrong with them is told here
    except ImproperlyConfigured as wrong:
        sys.exit(f"EMEP: {wrong}")
    if (file := missing_database()) is not None:
        sys.exit(
            f"EMEP: there is no database in {file.parent}: name its directory with EMEP_DATA_DIR, or run make up first"
        )
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
