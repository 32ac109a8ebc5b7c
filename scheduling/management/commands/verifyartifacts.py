"""Reads stored bytes now and says which are damaged, or only how much is due."""

from __future__ import annotations

import json
import math
import time
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from scheduling.services import now, verification
from scheduling.services.artifact_files import StoreAway
from scheduling.services.collection import ForeignStore
from scheduling.services.verification import MB, Overdue, Pace, Report

TELL_S = 5.0


def rate(text: str) -> float:
    """The number above 0 that the text is."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return value


class Command(BaseCommand):
    help = (
        "Reads stored artifacts to their last byte and marks those that are damaged; nothing is removed. The server "
        "does it by itself, a little every minute; this does now what is due, or everything, or some. Exit status 1 "
        "when one is damaged."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("artifacts", nargs="*", type=UUID, metavar="ID", help="these; by default what is due")
        parser.add_argument("--all", action="store_true", help="everything, whenever it was read last")
        parser.add_argument("--rate", type=rate, metavar="MB_S", help="at most so many MB (10^6 bytes) a second")
        parser.add_argument("--dry-run", action="store_true", help="read nothing, say how much it would be")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of words")

    def handle(self, *args: Any, **options: Any) -> None:
        wanted, everything = options["artifacts"], options["all"]
        if wanted and (everything or options["dry_run"]):
            raise CommandError("name artifacts, or give --all or --dry-run, not both")
        since = now() if everything else verification.before(now())
        if since is None and not wanted:
            raise CommandError("EMEP_VERIFY_DAYS is 0, so nothing is ever due: give --all, or the ids of artifacts")
        if options["dry_run"] and since is not None:
            self._say_due(verification.overdue(since), options["json"])
            return
        unknown = verification.unknown(wanted)
        if unknown:
            raise CommandError(f"there is no artifact {unknown[0]} whose bytes are kept")
        pace = Pace(options["rate"] * MB if options["rate"] else None)
        try:
            if since is not None and not wanted:
                report = verification.all_due(since, now, pace, self._teller())
            else:
                report = verification.these(wanted, now, pace, self._teller())
        except (ForeignStore, StoreAway) as wrong:
            raise CommandError(str(wrong)) from wrong
        self.stdout.write(json.dumps(report.as_dict()) if options["json"] else in_words(report))
        if report.corrupt:
            raise CommandError(f"{_artifacts(report.corrupt)} damaged: see Artifacts, State: damaged")

    def _say_due(self, found: Overdue, as_json: bool) -> None:
        if as_json:
            told = {"due": found.count, "bytes": found.bytes, "oldest": found.oldest and found.oldest.isoformat()}
            self.stdout.write(json.dumps(told))
        elif found.oldest is None:
            self.stdout.write("Nothing is due.")
        else:
            since = f"the longest unread since {found.oldest:%Y-%m-%d %H:%M} UTC"
            self.stdout.write(f"{_artifacts(found.count)} due ({found.bytes} bytes), {since}.")

    def _teller(self) -> Any:
        said_at = time.monotonic()

        def tell(report: Report) -> None:
            nonlocal said_at
            if time.monotonic() - said_at >= TELL_S:
                said_at = time.monotonic()
                self.stderr.write(f"{_counted(report.checked)} read, {report.bytes / MB:.0f} MB ...", style_func=str)

        return tell


def in_words(report: Report) -> str:
    """The report as lines of text."""
    if report.busy:
        return "Somebody else reads the store just now, so nothing was read: try again."
    return f"{_counted(report.checked)} read: {report.read} blobs of {report.bytes} bytes, {report.corrupt} damaged."


def _artifacts(count: int) -> str:
    return f"{count} artifact{' is' if count == 1 else 's are'}"


def _counted(count: int) -> str:
    return f"{count} artifact{'' if count == 1 else 's'}"
