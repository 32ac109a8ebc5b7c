#!/usr/bin/env python
"""Django's command line for EMEP."""

import os
import sys

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line


def main() -> None:
    """Runs the command; a setting that is wrong is one clear line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "emep_site.settings")
    try:
        settings.DATABASES  # noqa: B018  reads the settings, so that what is wrong with them is told here
    except ImproperlyConfigured as wrong:
        sys.exit(f"EMEP: {wrong}")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
