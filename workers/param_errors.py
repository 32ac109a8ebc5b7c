"""How a wrong parameter is told, and the nearest word to a wrong one. Standard library only."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workers.said_back import shown


@dataclass(frozen=True, slots=True)
class ParamError:
    """One thing wrong with ``params``: ``field`` is the full path (``params.t``), ``limit`` what would be accepted."""

    field: str
    code: str
    message: str
    limit: Any = None


def nearest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """`` (did you mean 'x'?)`` for the nearest of ``known``, or nothing."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def unknown(keys: Iterable[Any], known: list[str], what: str) -> list[ParamError]:
    """A parameter that nothing reads is a mistake, not a wish."""
    job = f"{'an' if what[0] in 'aeiou' else 'a'} {what} job"
    return [
        ParamError(
            f"params.{str(key)[:80]}",
            "unknown_field",
            f"{job} has no parameter {shown(str(key))}{nearest(str(key), known)}",
            known,
        )
        for key in keys
        if key not in known
    ]
