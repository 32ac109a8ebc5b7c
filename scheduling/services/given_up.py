"""What does a change give up that its words don't say? The GPUs of fewer nodes, and what only more nodes could have."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.core.words import gpus_in_words

_SO, _WITHOUT, _EVICTING = ", so ", ", and without ", " and by evicting "


def whole(words: str, *, asked: int | None, gpus: int, lost: Sequence[str]) -> str:
    """The words of a change with how many ``gpus`` it leaves of those ``asked`` for (None: that is unknown), where they
    don't say so, and with the fields that are ``lost`` by it."""
    change, evicting, victims = words.partition(_EVICTING)
    told = f"at most {gpus_in_words(gpus)}" in change.split(" and ")
    fewer = "" if asked is None or gpus >= asked or told else f"{_SO}{gpus_in_words(gpus)} instead of {asked}"
    without = f"{_WITHOUT}{' and '.join(lost)}" if lost else ""
    more = f"{fewer}{without}"
    return f"{change}{more}{',' if more and evicting else ''}{evicting}{victims}"


def says_more(words: str) -> bool:
    """Whether something was added to the words, after which a sentence goes on with a comma."""
    return _SO in words or _WITHOUT in words
