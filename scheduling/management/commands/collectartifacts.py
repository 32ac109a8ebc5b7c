"""Goes through the artifact store: what would go, or goes now."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling.services import collection, now
from scheduling.services.artifact_files import StoreAway
from scheduling.services.collection import Report, Some


class Command(BaseCommand):
    help = (
        "Deletes artifacts whose time is over and removes bytes that nobody has needed for a while. "
        "The server does it every hour; this does it now, or with --dry-run only says what it would do."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="change nothing")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of words")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            report = collection.collect(now(), dry_run=options["dry_run"])
        except (collection.ForeignStore, StoreAway) as wrong:
            raise CommandError(str(wrong)) from wrong
        self.stdout.write(json.dumps(report.as_dict()) if options["json"] else in_words(report))


def in_words(report: Report) -> str:
    """The report as lines of text."""
    if report.busy:
        return f"{_artifacts(report)}\nSomebody is storing just now, so no bytes were removed: try again."
    verb = "would be removed" if report.dry_run else "removed"
    hours = report.grace_s / 3600
    return (
        f"{_artifacts(report)}\n"
        f"{_blobs(report.removed)} that nobody has needed for {hours:g} h {verb}.\n"
        f"{_blobs(report.waiting)} that nobody needs wait for that; {_blobs(report.kept)} are needed."
    )


def _artifacts(report: Report) -> str:
    verb = "would be deleted" if report.dry_run else "deleted"
    return f"{_counted(report.expired, 'artifact')} of which the time is over {verb}."


def _blobs(some: Some) -> str:
    return _counted(some, "blob")


def _counted(some: Some, noun: str) -> str:
    return f"{some.count} {noun}{'' if some.count == 1 else 's'} ({some.bytes} bytes)"
