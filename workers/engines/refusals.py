"""How an engine says no: a code that never changes, a sentence for a person, and the facts as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

# In the details of a problem that stands for others which are not told one by one: how many.
MORE = "more"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: a stable ``code``, what to tell a person, and the names and numbers behind it."""

    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)


class EngineRefusal(Exception):
    """The engine will not do what was asked, and asking again changes nothing.

    ``problems`` holds everything that is wrong, at least one. ``code`` is the first one's.
    """

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.problems: tuple[Problem, ...] = (Problem(code, message, self.details),)

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> EngineRefusal:
        """One refusal that tells every problem; ``problems`` must not be empty."""
        found = tuple(problems)
        first = found[0]
        if len(found) == 1:
            return cls(first.code, first.message, first.details)
        refusal = cls(
            first.code,
            f"{sum(p.details.get(MORE, 1) for p in found)} problems: " + "; ".join(p.message for p in found),
            {"problems": [{"code": p.code, "message": p.message, **p.details} for p in found]},
        )
        refusal.problems = found
        return refusal
