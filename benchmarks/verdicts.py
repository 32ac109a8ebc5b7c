"""Is a figure within its limit?"""

from __future__ import annotations


def at_most(value: float, limit: float) -> str:
    """``ok`` or ``SHORT``, with the limit that ``value`` must not exceed."""
    return f"(<= {limit:g} {'ok' if value <= limit else 'SHORT'})"


def at_least(value: float, limit: float) -> str:
    """``ok`` or ``SHORT``, with the limit that ``value`` must reach."""
    return f"(>= {limit:g} {'ok' if value >= limit else 'SHORT'})"
