"""Do jobs of different people fail alike on one GPU? Then the GPU is to be doubted, not the jobs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

ALIKE_MIN = 3
USERS_MIN = 2
WINDOW_MS = 86_400_000
# What differs from run to run without saying anything: numbers, addresses, quoted names and paths.
_VARIES = re.compile(r"0x[0-9a-f]+|'[^']*'|\"[^\"]*\"|\S*/\S*|\d+")

# As the agent quotes it.
_LOG = re.compile(r"; the last line of its log: ")


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job of ``user`` that failed on the GPU at ``at_ms`` (milliseconds since 1970)."""

    user: str
    at_ms: int
    exit_code: int | None
    error: str


@dataclass(frozen=True, slots=True)
class Blame:
    """How many jobs of how many people failed alike, and how: the newest of their errors."""

    failures: int
    users: int
    error: str

    @property
    def words(self) -> str:
        """The reason as people read it."""
        return f"{self.failures} jobs of {self.users} people failed alike on it within 24 h: {self.error}"


def manner(failure: JobFailure) -> tuple[int | None, str]:
    """What two failures that are alike have in common: the exit code, and the first line without what varies."""
    line = _told(failure.error).lower()
    return failure.exit_code, _VARIES.sub("#", line)[:200]


def _told(error: str) -> str:
    """The first line of an error without the last line of the job's log, which differs and is the job's own affair."""
    return _LOG.split(error.strip().split("\n")[0])[0]


def alike(failures: Iterable[JobFailure], *, now_ms: int, since_ms: int) -> Blame | None:
    """The largest set of at least three failures alike, of at least two people, in the day before ``now_ms``.

    Those before ``since_ms``, when the GPU was last found well, do not count. None when there is no such set.
    """
    begin = max(since_ms, now_ms - WINDOW_MS)
    kinds: dict[tuple[int | None, str], list[JobFailure]] = defaultdict(list)
    for failure in failures:
        if begin <= failure.at_ms <= now_ms:
            kinds[manner(failure)].append(failure)
    found = [Blame(len(same), len({f.user for f in same}), _told(_newest(same).error)[:120]) for same in kinds.values()]
    blamed = [b for b in found if b.failures >= ALIKE_MIN and b.users >= USERS_MIN]
    return max(blamed, key=lambda b: (b.failures, b.users, b.error), default=None)


def _newest(failures: list[JobFailure]) -> JobFailure:
    return max(failures, key=lambda f: (f.at_ms, f.user, f.error))
