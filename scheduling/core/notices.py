"""Whom does what happened to a job concern, and when is it sent again after it did not get through?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.core.lifecycle import LIVE, JobState

# What a person may choose to be told of.
KINDS = ("succeeded", "failed", "cancelled", "preempted", "started")
OWN, PROJECTS = "own", "projects"
OF = (OWN, PROJECTS)
EVENT_TYPES = ("succeeded", "failed", "timed_out", "cancelled", "requeued", "running")

LONG_WAIT_MINUTES = 60
MAX_TRIES = 8
BACKOFF_S = (10, 30, 120, 600, 1800, 7200, 21_600)
# After so many tries in a row that did not get through a webhook is switched off.
OFF_AFTER = 20


@dataclass(frozen=True, slots=True)
class Choice:
    """What one recipient wants to hear of: ``events`` of :data:`KINDS`, of whose jobs (:data:`OF`), and for how many
    minutes a job must have waited for its start to be worth a notice."""

    events: frozenset[str] = frozenset()
    of: str = OWN
    long_wait_minutes: int = LONG_WAIT_MINUTES

    def wants(self, kind: str, *, own: bool, waited_s: float | None) -> bool:
        """Whether a notice of that kind about one of the recipient's jobs (or one of their projects') is asked for."""
        if kind not in self.events or not (own or self.of == PROJECTS):
            return False
        return kind != "started" or (waited_s is not None and waited_s >= 60 * self.long_wait_minutes)


def kind_of(event: str, data: Mapping[str, Any]) -> str | None:
    """What a line of a job's timeline is to its people, one of :data:`KINDS`; None for what nobody is told of.

    A job is preempted when it lost its GPUs and waits again, whatever for; one that is released has lost nothing.
    """
    if event in ("succeeded", "failed", "cancelled"):
        return event
    if event == "timed_out":
        return "failed"
    before = data.get("from")
    if event == "requeued":
        return "preempted" if before in LIVE else None
    return "started" if event == "running" and before == JobState.DISPATCHING else None


def backoff_s(delivery: str, tries: int) -> float:
    """Seconds until the next try after the first ``tries`` have failed, up to a fifth more or less than in the table.

    The same delivery always waits alike; many that failed together do not come back together.
    """
    base = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]
    dice = hashlib.sha256(f"{delivery}:{tries}".encode()).digest()
    return base * (0.8 + 0.4 * int.from_bytes(dice[:4]) / 0xFFFF_FFFF)
