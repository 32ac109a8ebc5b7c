"""What JSON can say and nothing here can work with: a number beyond all bounds, a text that no database keeps.

The reader of a body puts one of these in the value's place. Neither is a number or a text, so whoever checks a field
refuses it there like any other wrong value, and it can't be taken for something else on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MAX_DIGITS = 20
SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True, repr=False)
class HugeNumber:
    """A number written with more than ``MAX_DIGITS`` digits, or one that is no finite float; ``literal`` as it came."""

    literal: str

    def __repr__(self) -> str:
        if len(self.literal) <= MAX_DIGITS:
            return self.literal
        return f"{self.literal[:SHOWN_DIGITS]}... ({len(self.literal)} characters)"


@dataclass(frozen=True, slots=True, repr=False)
class BrokenText:
    """A text that holds a NUL or half of a surrogate pair."""

    text: str

    def __repr__(self) -> str:
        return repr(self.text)

    @property
    def why(self) -> str:
        """What is wrong with it and what to do, as the end of a sentence."""
        return broken(self.text) or ""


def broken(text: str) -> str | None:
    """Why no database keeps ``text``, as the end of a sentence; None when it can be kept."""
    if "\x00" in text:
        return "holds the NUL character (\\u0000); remove it"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "holds half of a surrogate pair, which is no character; remove it"
    return None


def broken_texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    """(path, why) of every text in ``value`` that can't be kept; ``path`` is where ``value`` is."""
    for where, found in _leaves(value, path):
        why = found.why if isinstance(found, BrokenText) else broken(found) if isinstance(found, str) else None
        if why is not None:
            yield where, why


def huge_numbers(value: object, path: str) -> Iterator[tuple[str, HugeNumber]]:
    """(path, number) of every number in ``value`` that is beyond all bounds."""
    for where, found in _leaves(value, path):
        if isinstance(found, HugeNumber):
            yield where, found


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    inner: Iterator[tuple[object, object]]
    if isinstance(value, Mapping):
        inner = iter(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        inner = iter(enumerate(value))
    else:
        yield path, value
        return
    for key, item in inner:
        yield from _leaves(item, f"{path}.{key}" if path else str(key))
