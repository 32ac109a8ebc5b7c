"""May the project store more? Told before an upload or a job begins; what runs may store what it makes."""

from __future__ import annotations

from typing import Any

from scheduling.store.queries import artifacts as queries

GB = 10**9
FIELD = "project"


def over(project: str, more: int = 0) -> dict[str, Any] | None:
    """The error of a project that has used up its quota, or would by ``more`` bytes; None while there is room."""
    used, quota_gb = queries.stored_by(project)
    if quota_gb is None or (used + more <= quota_gb * GB and (more or used < quota_gb * GB)):
        return None
    whole = f" and {more} bytes would come" if more else ""
    return {
        "field": FIELD,
        "code": "over_quota",
        "message": f"project {project} may store {quota_gb} GB of artifacts; it has {used / GB:.2f} GB{whole}: delete "
        "artifacts that it needs no more, or ask an admin for more",
        "limit": quota_gb * GB,
    }
