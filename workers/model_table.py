"""Which tensors has a model, and does its head share the numbers of its embeddings? Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# How an output head is called where it may share its numbers with the embeddings, and how those are called.
HEADS = ("lm_head.weight", "embed_out.weight", "output.weight")
EMBEDDINGS = (
    "embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "tok_embeddings.weight",
    "shared.weight",
)  # fmt: skip
TIES = "tie_word_embeddings"

Row = tuple[str, tuple[int, ...]]
"""Element type as in a safetensors header, and shape."""


@dataclass(frozen=True, slots=True)
class Table:
    """A model as it is called (``label``) and its tensors. ``tied``: whether its configuration says that the output
    head shares the numbers of the embeddings; None where it says nothing."""

    label: str
    tensors: Mapping[str, Row]
    tied: bool | None = None

    def stored_as(self, name: str) -> str | None:
        """The tensor of this model in which the numbers of ``name`` lie: itself, for a tied head the embeddings, None
        where there are none."""
        if name in self.tensors:
            return name
        return self._embeddings() if self.tied and is_head(name) else None

    def _embeddings(self) -> str | None:
        """The one tensor that holds the embeddings; None where there are several or none."""
        found = [name for name in self.tensors if _ends(name, EMBEDDINGS)]
        return found[0] if len(found) == 1 else None


def is_head(name: str) -> bool:
    """Is it the tensor of an output head that a model may share with its embeddings?"""
    return _ends(name, HEADS)


def says_tied(config: object) -> bool | None:
    """What a ``config.json`` says of the head; None where it says nothing."""
    said = config.get(TIES) if isinstance(config, Mapping) else None
    return said if isinstance(said, bool) else None


def _ends(name: str, with_: tuple[str, ...]) -> bool:
    return any(name == each or name.endswith(f".{each}") for each in with_)
