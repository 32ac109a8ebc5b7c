"""Which files beside a model's weights are its tokenizer's? Their names tell. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

# What holds the tokens: at least one is there where a model has a tokenizer.
COMMON = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
VOCABULARIES = frozenset({
    *COMMON, "tekken.json", "vocab.bpe", "spiece.model",
    "spm.model", "sentencepiece.bpe.model", "sentencepiece.model", "source.spm", "target.spm",
})  # fmt: skip
_BESIDE = frozenset({
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt", "bpe.codes",
    "normalizer.json", "chat_template.jinja", "chat_template.json",
})  # fmt: skip
_TOKENS = ".tiktoken"
_TEMPLATES = "additional_chat_templates"


def is_of_tokenizer(path: str) -> bool:
    """Is the file at this relative path one of a tokenizer's?"""
    found = PurePosixPath(path)
    return _holds_tokens(found) or found.name in _BESIDE or _TEMPLATES in found.parts[:-1]


def has_tokenizer(paths: Iterable[str]) -> bool:
    """Is one of these files a vocabulary, without which there is no tokenizer?"""
    return any(_holds_tokens(PurePosixPath(path)) for path in paths)


def _holds_tokens(path: PurePosixPath) -> bool:
    return path.name in VOCABULARIES or path.suffix == _TOKENS
