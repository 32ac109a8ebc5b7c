"""What is searched, a line each: ``t 0 1 layer``, ``density 0.1 1``, ``weights 0 2 layer 5``, ``t 0 1 group attn mlp``.

The parameter, its bounds, and what has a value of its own: all tensors together (nothing said), each layer or so many
points over the layers, or each group of tensors. A group with a space in it stands in quotes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from scheduling.web.form_fields import number, text_of, whole
from workers.evolve_space import ALL, LAYER
from workers.space_check import KNOWN

LIKE = "t 0 1 layer"


def entries_of(text: str) -> list[dict[str, Any]]:
    """The entries of the lines that can be read; what a line lacks is left out, for the check to name."""
    found = []
    for _, line in _lines(text):
        words = _words(line)
        if words is not None:
            found.append(_entry(words))
    return found


def numbers_of(text: str) -> list[int]:
    """The numbers of the lines of :func:`entries_of`, in its order, from 1."""
    return [place for place, line in _lines(text) if _words(line) is not None]


def unread(text: str) -> Iterator[str]:
    """A sentence about each line that can't be read."""
    for place, line in _lines(text):
        if _words(line) is None:
            yield f"line {place} has a quote that is not closed: write it like {LIKE}, not {line[:60]!r}"


def as_text(space: Any) -> str | None:
    """The lines of an earlier job's space; None for one that can't be written so."""
    if not isinstance(space, list) or not all(isinstance(each, Mapping) for each in space):
        return None
    lines = [_line(each) for each in space]
    return None if None in lines else "\n".join(str(line) for line in lines)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for place, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield place, line.strip()


def _words(line: str) -> list[str] | None:
    try:
        return shlex.split(line)
    except ValueError:
        return None


def _entry(words: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, word in zip(("name", "low", "high", "per"), words, strict=False):
        entry[key] = number(word) if key in ("low", "high") else word
    rest = words[4:]
    if rest and entry["per"] == LAYER and len(rest) == 1:
        entry["anchors"] = whole(rest[0])
    elif rest:
        entry["groups"] = rest
    return entry


def _line(entry: Mapping[str, Any]) -> str | None:
    per, anchors, groups = entry.get("per", ALL), entry.get("anchors"), entry.get("groups")
    several = [] if groups is None else groups
    if not set(entry) <= set(KNOWN) or not isinstance(several, list) or (anchors is not None and groups is not None):
        return None
    rest = [anchors] if anchors is not None else several
    told = [entry.get("name"), entry.get("low"), entry.get("high"), *([] if per == ALL and not rest else [per]), *rest]
    if any(isinstance(each, bool) or not isinstance(each, str | int | float) or each == "" for each in told):
        return None
    if (anchors is not None and per != LAYER) or (several and per == LAYER):
        return None
    return shlex.join(text_of(each) for each in told)
