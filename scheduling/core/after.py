"""Which jobs must have ended before this one may start, and which of their outputs does it read?"""

from __future__ import annotations

from uuid import UUID

from scheduling.core.fields import Fields, shown
from scheduling.core.naming import is_job_id

MAX_AFTER = 64
SIGN = "@"  # begins a reference to an output: @JOB, or @JOB/NAME


def read_after(fields: Fields) -> tuple[tuple[str, ...], bool]:
    """(the ids in ``after``, each once and in their order; whether any end of theirs will do). Which jobs there are the
    caller knows."""
    any_end = fields.flag("after_any", default=False) or False
    value = fields.value("after")
    if value is None:
        value = []
    if not isinstance(value, list):
        message = f"after must be a list of the ids of at most {MAX_AFTER} jobs, not {shown(value)}; or leave it out"
        fields.refuse("after", "not_a_list", message, MAX_AFTER)
        return (), any_end
    if len(value) > MAX_AFTER:
        message = f"after may name at most {MAX_AFTER} jobs, not {len(value)}; put a job between that waits for some"
        fields.refuse("after", "too_many", message, MAX_AFTER)
        return (), any_end
    if any_end and not value:
        message = "after_any says how the jobs in after may end, yet after names none; leave it out"
        fields.refuse("after_any", "without_after", message)
    for i, each in enumerate(value):
        if not is_job_id(each):
            message = f"after.{i} must be the id of a job that this one waits for, not {shown(each)}; or leave it out"
            fields.refuse(f"after.{i}", "not_a_job_id", message)
    return tuple(dict.fromkeys(str(UUID(each)) for each in value if is_job_id(each))), any_end


def output_meant(reference: str) -> tuple[str, str] | None:
    """(the id of a job, the name of its output, "" for its only one) that ``@JOB`` or ``@JOB/NAME`` means; None for
    what is no such reference."""
    job, _, name = reference.removeprefix(SIGN).partition("/")
    if not reference.startswith(SIGN) or not is_job_id(job):
        return None
    return str(UUID(job)), name
