"""What are a job's artifacts called? As its program says, or as the job where nobody has named them."""

from __future__ import annotations

from scheduling.models import Job

# The kind whose program names its artifacts itself; those of the built-in kinds are called what the job is called.
PROGRAM = "command"
# What is published of a program that names nothing: all that it left.
UNNAMED = "output"
# What a built-in kind makes: a checkpoint is no such thing.
MADE = ("model", "eval", "output")


def output_name(job: Job, name: str, *, alone: bool) -> str:
    """The name under which an artifact, the only one of its job or one of several, is the job's output.

    Equal bytes of two jobs share an artifact, not a name.
    """
    if job.kind == PROGRAM and name != UNNAMED:
        return name
    return job.name if alone else f"{job.name[:60]} {name}"[:100]


def artifact_name(job: Job | None, name: str, kind: str) -> str:
    """The name of the artifact itself that was uploaded, of this kind, under ``name``."""
    if job is None:
        return name
    named_by_the_job = name == UNNAMED if job.kind == PROGRAM else kind in MADE
    return job.name if named_by_the_job else name
