"""Python imports this by itself in every process of a house that a test starts: the jobs then tell the truth.

Product code knows nothing of it. In an agent, the environment of each job gets this directory and where to write; in a
job, the process says when it begins, works, saves and ends.
"""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).parent)
ROOT = str(Path(__file__).resolve().parents[3])


def in_an_agent(directory: str) -> None:
    """Every job that this agent starts writes its log into the directory, and the agent when the server heard it."""
    from tests.checker.truth import Spoken
    from workers.agent import client, launch
    from workers.agent.failure import FailureKind

    def refused(problem: client.CallFailed) -> bool:
        return problem.failure.kind is FailureKind.REFUSED

    spoken = Spoken(Path(directory), sys.orig_argv[sys.orig_argv.index("--node") + 1])
    for name in ("register", "heartbeat"):
        call = spoken.around(getattr(client.Api, name), client.CallFailed, refused)
        setattr(client.Api, name, call)
    build = launch.build

    def with_truth(*given: Any, **named: Any) -> Any:
        spec = build(*given, **named)
        path = os.pathsep.join(p for p in (HERE, ROOT, spec.env.get("PYTHONPATH", "")) if p)
        return replace(spec, env={**spec.env, "EMEP_TRUTH_DIR": directory, "PYTHONPATH": path})

    launch.build = with_truth


def in_a_job() -> None:
    """This process is on record from here to its end, with each step and checkpoint that it tells its agent of."""
    from tests.checker.truth import Truth
    from workers.emep_job import EventLog

    truth = Truth.of(os.environ)
    if truth is None:
        return
    if os.environ.get("EMEP_RESUME") == "1":
        truth.resumed()
    truth.start()  # last: whoever reads of a beginning finds what belongs to it
    emit = EventLog.emit

    def told(log: EventLog, event_type: str, /, **fields: Any) -> None:
        emit(log, event_type, **fields)
        if event_type == "progress":
            truth.step(int(fields["step"]))
        elif event_type == "checkpoint":
            truth.saved(int(fields["step"]))

    setattr(EventLog, "emit", told)  # noqa: B010  mypy takes a method for one that is never assigned
    atexit.register(truth.end)


if "EMEP_TRUTH_DIR" in os.environ:
    sys.path.append(ROOT)
    if "EMEP_JOB_ID" in os.environ:
        in_a_job()
    elif "workers" in sys.orig_argv and "agent" in sys.orig_argv:
        in_an_agent(os.environ["EMEP_TRUTH_DIR"])
