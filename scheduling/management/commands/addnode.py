"""Makes a node, or with --new-token gives it a new token; the token is shown once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from scheduling.services.pool import add_node


class Command(BaseCommand):
    help = "Adds a node and prints its token, which is kept only as a hash."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--new-token", action="store_true", help="the node exists: its old token stops working")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            token = add_node(options["name"], renew=options["new_token"])
        except ValueError as wrong:
            raise CommandError(str(wrong)) from wrong
        self.stderr.write(_next(options["name"]), style_func=str)
        self.stdout.write(token)


def _next(name: str) -> str:
    """What to do with the token. It goes to stderr: stdout has the token alone, for a script to take."""
    return (
        f"Write the token below into a file on {name} that only its agent may read, and start the agent there:\n\n"
        f"    python -m workers agent --state DIR --server {settings.PUBLIC_URL} --node {name} --token-file FILE "
        "--gpus nvml\n\nIt is not shown again; docs/nodes.md has every setting."
    )
