"""Is a figure within its limit?"""

from __future__ import annotations

from collections.abc import Sequence


def no_verdicts(limits: str, differs: Sequence[str]) -> str:
    """The line that says why there are none: what the ``limits`` are for, and how this run ``differs`` from that."""
    return f"no verdicts: the limits are for {limits}, and here {', '.join(differs)}"


def at_most(value: float, limit: float) -> str:
    """``ok`` or ``SHORT``, with the limit that ``value`` must not exceed."""
    return f"(<= {limit:g} {'ok' if value <= limit else 'SHORT'})"


def at_least(value: float, limit: float) -> str:
    """``ok`` or ``SHORT``, with the limit that ``value`` must reach."""
    return f"(>= {limit:g} {'ok' if value >= limit else 'SHORT'})"
