"""All invariants over one history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.checker import export
from tests.checker.evidence import Evidence, Row, Violation, read
from tests.checker.table import DECIDED


@dataclass(frozen=True)
class Finding:
    """A violation, the number of the invariant in the design, and the name of what decided it."""

    invariant: str
    decided_by: str
    violation: Violation

    def __str__(self) -> str:
        v = self.violation
        about = " ".join(f"{n} {x}" for n, x in (("job", v.job), ("attempt", v.attempt), ("GPU", v.gpu)) if x)
        return f"{self.invariant} {v.what} [{about}]: {v.first} -- but -- {v.second}"


def check(evidence: Evidence) -> list[Finding]:
    """Every violation in the history, by invariant; empty for a lawful one."""
    return [
        Finding(number, decide.__name__, violation)
        for decide, number in DECIDED.items()
        for violation in decide(evidence)
    ]


def check_database(
    cursor: Any,
    *,
    now: float,
    scale: float = 1.0,
    settled: bool = False,
    truth: Sequence[Row] = (),
    artifacts: Path | None = None,
) -> list[str]:
    """What is wrong with the database that ``cursor`` reads, in words; ``truth`` was read before it."""
    lines = list(export.lines(cursor, settled=settled, scale=scale, now=now))
    return [str(finding) for finding in check(read(lines, truth, artifacts=artifacts))]
