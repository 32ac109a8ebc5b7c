"""``python -m tests.checker``: exit 0 when the history is lawful, 1 with a line for each violation, 2 on bad input."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.checker import export
from tests.checker.check import check
from tests.checker.evidence import read, told
from tests.checker.table import DECIDED


def main(argv: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.checker", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--events", type=Path, help="what tests.checker.export wrote, as JSON lines")
    source.add_argument("--database", type=Path, help="or the SQLite file of a house, read as it is now")
    parser.add_argument("--truth", type=Path, help="directory of the job processes' own logs")
    parser.add_argument("--artifacts", type=Path, help="the artifact directory, whose bytes are then hashed again")
    parser.add_argument("--scale", type=float, default=1.0, help="EMEP_TIME_SCALE of the house, with --database")
    parser.add_argument("--settled", action="store_true", help="with --database: every job must have come to an end")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    given = parser.parse_args(argv)
    try:
        truth = told(given.truth)
        lines = (
            given.events.read_text("utf-8").splitlines() if given.events
            else export.of_file(given.database, settled=given.settled, scale=given.scale, now=time.time())
        )  # fmt: skip
        evidence = read(lines, truth, artifacts=given.artifacts)
    except (OSError, ValueError, sqlite3.Error) as wrong:
        sys.stderr.write(f"{given.events or given.database}: {wrong}\n")
        return 2
    found = check(evidence)
    if given.json:
        violations = [{"invariant": f.invariant, "decided_by": f.decided_by, **asdict(f.violation)} for f in found]
        sys.stdout.write(json.dumps({"events": len(evidence.events), "processes": len(evidence.processes),
                                     "violations": violations}, indent=1) + "\n")  # fmt: skip
    else:
        sys.stdout.writelines(f"{finding}\n" for finding in found)
        sys.stdout.write(f"checker: {len(evidence.events)} events, {len(evidence.processes)} job processes, "
                         f"{len(set(DECIDED.values()))} invariants, {len(found)} violations\n")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
