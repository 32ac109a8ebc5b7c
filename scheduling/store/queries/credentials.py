"""What a credential may say, and what a request with an idempotency key made before."""

from __future__ import annotations

from uuid import UUID

from scheduling.models import IdempotencyKey
from scheduling.models.access import SCOPES

__all__ = ["SCOPES", "made_by"]


def made_by(user_id: int, key: str) -> tuple[UUID, str] | None:
    """(job, sha256 of the body) that the person's key made before."""
    return IdempotencyKey.objects.filter(user_id=user_id, key=key).values_list("job_id", "body_sha256").first()
