"""How a wrong parameter is told, and the nearest word to a wrong one. Standard library only."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ParamError:
    """One thing wrong with ``params``: ``field`` is the full path (``params.t``), ``limit`` what would be accepted."""

    field: str
    code: str
    message: str
    limit: Any = None


def shown(value: Any) -> str:
    """The value as whoever sent it wrote it, cut off after 80 characters: null and true, and texts in quotes."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text[:80]


def nearest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """`` (did you mean 'x'?)`` for the nearest of ``known``, or nothing."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def unknown(keys: Iterable[Any], known: list[str], what: str) -> list[ParamError]:
    """A parameter that nothing reads is a mistake, not a wish."""
    return [
        ParamError(
            f"params.{str(key)[:80]}",
            "unknown_field",
            f"a {what} job has no parameter {str(key)[:80]!r}{nearest(str(key), known)}",
            known,
        )
        for key in keys
        if key not in known
    ]
