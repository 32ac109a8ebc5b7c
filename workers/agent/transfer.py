"""What every move of bytes between server and node has in common: how it fails, and how it waits for a server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from workers.agent.client import CallFailed
from workers.protocol import UnsafePath, check_path
from workers.said_back import shown

T = TypeVar("T")
TRIES = 3
EXPERIMENT_FILE = "experiment.json"
FRAMEWORK_DIR = "framework/"
# In an experiment.json written here and not by the job: only the other part is restored, to where it was.
WRAPPED = "wrapped"


class TransferFailed(Exception):
    """The bytes can't be had or given, and trying again won't help; ``retryable``: another node might do it.

    ``gone``: the job has removed or replaced them meanwhile, or they never were there.
    """

    def __init__(self, message: str, *, retryable: bool = False, stale: bool = False, gone: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.stale = stale
        self.gone = gone


class Aborted(Exception):
    """The attempt is over; nobody wants the bytes any more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How to go on when the server can't answer: ``wait(tries)`` returns False when the transfer was aborted.

    ``over()``: whether it was; asked before every call.
    """

    wait: Callable[[int], bool]
    over: Callable[[], bool] = lambda: False

    def again(self, call: Callable[[], T]) -> T:
        """The call's value, repeated for as long as the server is away (D31). Raises what is final."""
        tries = 0
        while True:
            self.check()
            try:
                return call()
            except CallFailed as problem:
                tries += 1
                self.rest(problem, tries)

    def check(self) -> None:
        """Raises :class:`Aborted` once the transfer was aborted."""
        if self.over():
            raise Aborted

    def rest(self, problem: CallFailed, tries: int) -> None:
        """Wait before the next of ``tries``; what asking again can't help is raised at once."""
        if problem.failure.final:
            raise problem
        if not self.wait(tries):
            raise Aborted from problem


def hash_file(path: Path) -> str:
    """The sha256 of the file in hex."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def safe(path: str, *, one: bool = False) -> str:
    """The path if it may be a file's name inside an artifact (``one``: a single word), else TransferFailed."""
    try:
        check_path(path)
    except UnsafePath as problem:
        raise TransferFailed(str(problem)) from problem
    if one and "/" in path:
        raise TransferFailed(f"an input's name must be one word, not {shown(path)}")
    return path


def has_both_parts(names: Iterable[str]) -> bool:
    """Whether a job has laid out its checkpoint in the two parts of D8 (experiment and framework) by itself."""
    found = set(names)
    return EXPERIMENT_FILE in found and all(n == EXPERIMENT_FILE or n.startswith(FRAMEWORK_DIR) for n in found)
