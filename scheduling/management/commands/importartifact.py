"""Files that lie on the server become an artifact: a directory, one file, or a snapshot in Hugging Face's cache."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduling.services import import_sources, importing, now
from scheduling.services.artifact_files import StoreAway
from scheduling.services.artifacts import KINDS, Refusal
from scheduling.services.import_sources import NotImportable, Source
from scheduling.services.importing import Imported, Progress, Wanted

# So often somebody who waits is told how far it is.
TELL_S = 5.0
NAMED = 5


class Command(BaseCommand):
    help = (
        "Imports a directory, a file, or a snapshot of Hugging Face's cache (models--ORG--NAME/snapshots/REVISION) as "
        "an artifact. All or nothing; stopped and started again, it goes on where it was."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, help="the directory or file")
        parser.add_argument("--project", required=True, help="the project that it belongs to")
        parser.add_argument("--name", help="what it is called; by default as the directory, file or repository")
        parser.add_argument("--kind", choices=KINDS, help="by default model, or dataset where the cache says so")
        parser.add_argument("--user", default="", help="whose it is; by default the first admin's")
        parser.add_argument(
            "--link", action="store_true",
            help="take the files themselves by hard links instead of copies: they must never be written again",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="one JSON object instead of words")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = importing.owner(options["user"])
        if isinstance(actor, str):
            raise CommandError(actor)
        try:
            source = import_sources.look(options["path"])
            wanted = Wanted(options["project"], options["name"] or source.name, options["kind"] or source.kind,
                            options["link"])  # fmt: skip
            done = importing.run(source, wanted, actor, now, self._teller())
        except NotImportable as wrong:
            raise CommandError(str(wrong)) from wrong
        except StoreAway as away:
            raise CommandError(f"{away}; started again, it goes on where it was") from away
        except KeyboardInterrupt as stopped:
            raise CommandError("stopped; started again, it goes on where it was", returncode=130) from stopped
        if isinstance(done, Refusal):
            raise CommandError(done.message)
        self.stdout.write(
            json.dumps(_as_dict(done, source), default=str) if options["json"] else in_words(done, source)
        )

    def _teller(self) -> importing.Told:
        said_at = time.monotonic()

        def tell(progress: Progress) -> None:
            nonlocal said_at
            if time.monotonic() - said_at >= TELL_S:
                said_at = time.monotonic()
                self.stderr.write(progress.in_words(), style_func=str)

        return tell


def _as_dict(done: Imported, source: Source) -> dict[str, Any]:
    return {**done.artifact, "fresh": done.fresh, "left_out": list(source.left_out)}


def in_words(done: Imported, source: Source) -> str:
    """The artifact as lines of text, with what one should know of it."""
    made = done.artifact
    count = len(made["files"])
    what = f"{count} file{'' if count == 1 else 's'} ({made['size']} bytes)"
    called = f"{made['kind']} {made['name']!r} of project {made['project']}"
    lines = [f"Imported {what} as {called}." if done.fresh else f"{what} that are there already, as {called}."]
    if done.went_on:
        lines.append(f"{done.went_on} bytes of it had come before it was cut off.")
    if source.left_out:
        lines.append(f"Left out: {', '.join(source.left_out)}.")
    unsafe = [each for each in made["files"] if each["unsafe"]]
    if unsafe:
        named = ", ".join(f"{each['path']} ({each['unsafe']})" for each in unsafe[:NAMED])
        more = f" and {len(unsafe) - NAMED} more" if len(unsafe) > NAMED else ""
        lines.append(
            f"In a format that can run code when it is loaded: {named}{more}. EMEP loads none of them but PyTorch's "
            "weights, and these through its weights-only loader."
        )
    return "\n".join([*lines, f"id      {made['id']}", f"sha256  {made['sha256']}"])
