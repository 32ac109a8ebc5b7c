"""How is a value that somebody sent shown back to him? Short, whatever was sent. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

MAX_SHOWN = 60
MAX_DEPTH = 8
# Python itself refuses to write out a number of more than some thousand digits.
MAX_BITS = 256


def shown(value: Any, most: int = MAX_SHOWN) -> str:
    """The value as whoever sent it wrote it, cut after ``most`` characters: as JSON, a text alone in single quotes."""
    if isinstance(value, str):
        return f"{value[:most]!r}..." if len(value) > most else repr(value)
    text = _written(value, most, MAX_DEPTH)
    return text if len(text) <= most else f"{text[:most]}..."


def _written(value: Any, most: int, depth: int) -> str:
    """The beginning of the value as JSON, whole if it is no longer than what is shown and not too deep."""
    if isinstance(value, str):
        return json.dumps(value[: most + 1], ensure_ascii=False)
    if isinstance(value, Mapping | list | tuple) and depth == 0:
        return "..."
    if isinstance(value, Mapping):
        members = [
            f"{_written(str(key), most, 0)}: {_written(each, most, depth - 1)}"
            for key, each in islice(value.items(), most)
        ]
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_written(each, most, depth - 1) for each in islice(value, most))}]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return f"a number of more than {MAX_BITS} bits"
    return repr(value)
