"""Which artifact is the output of a job that another one names as its input?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.core.lifecycle import JobState
from scheduling.store.queries.after import outputs_of

MAX_TOLD = 5
# The kinds that make one artifact, called what the job is called.
MAKE_ONE = ("merge",)


def meant(job: str, name: str, before: Mapping[str, Any]) -> tuple[Any, tuple[str, str] | None]:
    """(the artifact, what is wrong as code and words): the output of that name, or the only one, of the job of that id.

    ``before``: the jobs that are waited for, by the ids under which they are named. Of one that has yet to end there is
    neither, unless it can't have such an output.
    """
    row = before.get(job)
    if row is None:
        return None, ("not_after", f"job {job} is not waited for: add its id to after, or name an artifact")
    if not row.is_terminal:
        if row.kind in MAKE_ONE and name not in ("", row.name):
            made = f"job {job} will make one artifact, called {row.name!r}, and none called {name[:100]!r}"
            return None, ("no_such_output", f"{made}: leave the name out")
        return None, None
    if row.state != JobState.SUCCEEDED:
        return None, ("no_output", f"job {job} has ended {row.state} and has no output")
    made_by = outputs_of(row)
    there = f"its outputs are {', '.join(sorted(made_by)[:MAX_TOLD])}" if made_by else "it has none"
    if name and name not in made_by:
        return None, ("no_such_output", f"job {job} has no output called {name[:100]!r}: {there}")
    if not name and len(made_by) != 1:
        words = "no output" if not made_by else f"{len(made_by)} outputs, so that one must be named ({there})"
        return None, ("no_such_output" if not made_by else "ambiguous_output", f"job {job} has {words}")
    return (made_by[name] if name else next(iter(made_by.values()))), None
