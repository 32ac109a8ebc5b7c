"""Makes a node, or gives it a new token; the token is shown once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling.services.pool import add_node


class Command(BaseCommand):
    help = "Adds a node (or renews its token) and prints the token, which is kept only as a hash."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(add_node(options["name"]))
        except ValueError as wrong:
            raise CommandError(str(wrong)) from wrong
