"""What may a program of this folder be told? Whatever can't be used is refused in one line, with status 2."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from scheduling.core.fields import shown
from scheduling.simulation.cluster import ClusterError
from scheduling.simulation.policy_patch import PatchError
from scheduling.simulation.queueing import QueueingError
from scheduling.simulation.table import TableError

MAX_DIGITS = 12


class Parser(argparse.ArgumentParser):
    """The parser of ``python -m benchmarks.NAME``; ``about`` is the program's own text, whose first line is shown."""

    def __init__(self, name: str, about: str | None) -> None:
        super().__init__(prog=f"python -m benchmarks.{name}", description=(about or "").partition("\n")[0])

    def error(self, message: str) -> NoReturn:
        """Ends the program with one line and status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    @contextmanager
    def naming(self, argument: str) -> Iterator[None]:
        """A file or a text that can't be used ends the program, with the argument that named it in front."""
        try:
            yield
        except (ClusterError, PatchError, QueueingError, TableError) as wrong:
            text = str(wrong)
            self.error(text if text.startswith("--") else f"{argument}: {text}")


def whole(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number from ``least`` to ``most``."""

    def read(text: str) -> int:
        digits = text.strip()
        known = digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS
        if not known or not least <= int(digits) <= most:
            raise argparse.ArgumentTypeError(f"write a whole number from {least} to {most}, not {shown(text)}")
        return int(digits)

    return read


def wholes(least: int, most: int) -> Callable[[str], list[int]]:
    """Reads whole numbers from ``least`` to ``most``, several by comma."""
    one = whole(least, most)

    def read(text: str) -> list[int]:
        try:
            return [one(part) for part in text.split(",")]
        except argparse.ArgumentTypeError:
            message = f"write whole numbers from {least} to {most}, several by comma, not {shown(text)}"
            raise argparse.ArgumentTypeError(message) from None

    return read


def program(text: str) -> str:
    """The path of a file that can be run."""
    if not Path(text).is_file() or not os.access(text, os.X_OK):
        raise argparse.ArgumentTypeError(f"there is no program {shown(text)}; give the path of one that can be run")
    return text


def directory(text: str) -> Path:
    """The path of a directory that is there."""
    if not text or not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {shown(text)}; name one that is there")
    return Path(text)
