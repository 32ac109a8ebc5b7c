"""How the rarer wishes about a place are kept: one JSON column that holds only what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from scheduling.core.resources import GroupRule, ResourceRequest


def stored(request: ResourceRequest) -> dict[str, Any]:
    """The wishes as JSON; empty for most jobs."""
    wishes: dict[str, Any] = {
        "allow_span": request.allow_span,
        "required_level": request.required_level,
        "max_wait_for_level_s": request.max_wait_for_level_s,
        "near": asdict(request.near) if request.near else None,
        "apart": asdict(request.apart) if request.apart else None,
    }
    return {name: value for name, value in wishes.items() if value}


def restored(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The same as arguments of :class:`ResourceRequest`."""
    return {name: GroupRule(**value) if isinstance(value, dict) else value for name, value in kept.items()}
