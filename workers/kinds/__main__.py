"""``python -m workers.kinds``: runs the job that ``EMEP_JOB_FILE`` describes and exits by the job contract.

0 done, 85 checkpointed, 2 refused (one line on stderr, an ``error`` event), 1 a bug.
"""

from __future__ import annotations

import importlib
import os
import sys

from workers.emep_job import read_stop
from workers.kinds.context import BUG, read_context
from workers.said_back import shown

PROGRAMS = {
    "merge": "workers.kinds.merge",
    "evolve": "workers.kinds.evolve",
    "evaluate": "workers.kinds.evaluate",
    "infer": "workers.kinds.infer",
}


def main() -> int:
    """Run one attempt; returns its exit code."""
    stop = read_stop(os.environ)
    stop.install()
    context = read_context(os.environ, stop)
    program = PROGRAMS.get(context.kind)
    if program is None:
        sys.stderr.write(f"there is no program for jobs of kind {shown(context.kind)}; one of {', '.join(PROGRAMS)}\n")
        return BUG
    # Imported only now: torch takes seconds, and a signal in them must be noticed, not fatal.
    code = int(importlib.import_module(program).run(context))
    stop.leave()
    return code


if __name__ == "__main__":
    sys.exit(main())
