"""Makes a node, or with --new-token gives it a new token; the token is shown once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling.services.pool import add_node


class Command(BaseCommand):
    help = "Adds a node and prints its token, which is kept only as a hash."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--new-token", action="store_true", help="the node exists: its old token stops working")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(add_node(options["name"], renew=options["new_token"]))
        except ValueError as wrong:
            raise CommandError(str(wrong)) from wrong
