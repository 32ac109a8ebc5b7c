"""Between a text and the tokens that a language model reads: by its configuration, or by a tokenizer of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from workers.engines.data_files import decoder, encoder


class Words(Protocol):
    """What makes tokens of texts and texts of tokens."""

    def encode(self, text: str) -> Sequence[int]:
        """The tokens of the text. Raises KeyError with a character that there is none for, and UnicodeEncodeError for
        half of a surrogate pair."""

    def fitting(self, text: str) -> tuple[Sequence[int], bool]:
        """As many tokens of the text, from its beginning, as the model reads at a time, and whether there are more."""

    def behind_the_first(self, text: str) -> int:
        """How many bytes of UTF-8 all but the first token of the text are."""

    def said(self, before: Sequence[int], tokens: Sequence[int]) -> str:
        """What the ``tokens`` say that follow those ``before``; what is no UTF-8 has a replacement character."""


class OwnWords:
    """Those of a built-in architecture: characters, or bytes."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._encode, self._decode = encoder(config), decoder(config)
        self._by_bytes = "characters" not in config
        self._context = config["context"]

    def encode(self, text: str) -> Sequence[int]:
        """A token a character, or a byte."""
        return self._encode(text)

    def fitting(self, text: str) -> tuple[Sequence[int], bool]:
        """The first ``context`` of them."""
        tokens = self._encode(text)
        return tokens[: self._context], len(tokens) > self._context

    def behind_the_first(self, text: str) -> int:
        """All but the first character's, or the first byte."""
        return len(text.encode()) - (1 if self._by_bytes else len(text[0].encode()))

    def said(self, before: Sequence[int], tokens: Sequence[int]) -> str:
        """The same whatever stood before."""
        return self._decode(tokens).decode("utf-8", "replace")
