"""The shape of a request: equal for jobs that fit alike, so that reasons are kept once for all of them."""

from __future__ import annotations

import hashlib

from scheduling.core.resources import ResourceRequest


def shape_of(request: ResourceRequest) -> str:
    """Sixteen hex digits that name the shape; stored with the job at submission."""
    return hashlib.sha256(repr(request.shape).encode()).hexdigest()[:16]


def class_name(shape: str, level: int, seconds: int | None = None) -> str:
    """The name under which reasons are kept for the jobs of a shape and level, or for those of one duration."""
    return f"{shape}/{level}" if seconds is None else f"{shape}/{level}/{seconds}"
