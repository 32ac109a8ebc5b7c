"""What a model is given to work on: the rows of a data set's one file, read and checked whole before the first one.

The files are those of evaluations; what is told apart by them, ``label`` or ``labels``, may be there and is not read.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from workers.engines.data_files import (
    INPUT,
    LABEL,
    TEXT,
    Columns,
    Faults,
    Line,
    at_least_one,
    lines_of,
    numbers_right,
    size_checked,
    tokens_of,
)
from workers.engines.refusals import Problem
from workers.engines.samples import read_fitting
from workers.engines.tensor_files import INPUTS, LABELS, open_tensors
from workers.engines.words import OwnWords, Words
from workers.model_families import CLASSIFY, CLASSIFY_TEXTS, EMBED


@dataclass(frozen=True, slots=True)
class Numbers:
    """Rows for a classifier, (rows, features) in float64. Those in ``bad`` couldn't be read and are zeros."""

    inputs: torch.Tensor
    bad: Mapping[int, Problem]

    def __len__(self) -> int:
        return len(self.inputs)

    def digest(self, row: int) -> str:
        """The sha256, in hex, of the row's numbers as little-endian float64."""
        return hashlib.sha256(self.inputs[row].numpy().astype("<f8").tobytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Prompts:
    """Rows for a language model: the tokens of each text, at least one. Those in ``bad`` couldn't be read and have
    none."""

    tokens: Sequence[torch.Tensor]
    bad: Mapping[int, Problem]
    words: Words
    digests: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.tokens)

    def digest(self, row: int) -> str:
        """The sha256, in hex, of the row's text as UTF-8."""
        return self.digests[row].hex()

    def text(self, row: int, tokens: Sequence[int]) -> str:
        """The tokens that follow the row's text as text; what is no UTF-8, as bytes of a model may be, has a
        replacement character."""
        return self.words.said(self.tokens[row].tolist(), tokens)


@dataclass(frozen=True, slots=True)
class Passages:
    """Rows for a model that tells classes of texts apart or embeds them: the tokens of each text as far as it reads
    them, and the numbers of those that are ``cut``. Those in ``bad`` couldn't be read and have none."""

    tokens: Sequence[torch.Tensor]
    bad: Mapping[int, Problem]
    digests: Sequence[bytes]
    cut: frozenset[int]

    def __len__(self) -> int:
        return len(self.tokens)

    def digest(self, row: int) -> str:
        """The sha256, in hex, of the row's text as UTF-8."""
        return self.digests[row].hex()


def read_given(
    path: Path, config: Mapping[str, Any], task: str, *, limit: int | None, spared: int, label: str, field: str,
    words: Words | None = None,
) -> Numbers | Prompts | Passages:  # fmt: skip
    """The rows of the file, the first ``limit`` of them; all of what is read is checked for a model of ``config``.

    Refuses with everything that is wrong, each with its line, unless it is wrong with at most ``spared`` rows.
    ``label`` names the file in messages, ``field`` the parameter that they are told of. ``words``: of texts, by default
    those of ``config``.
    """
    faults = Faults(label, field, spared)
    size_checked(path, faults)
    if task == CLASSIFY and path.suffix.lower() == ".safetensors":
        return _tensors(path, config, limit, faults)
    if task == CLASSIFY:
        return _numbers(islice(lines_of(path, Columns((INPUT,), (LABEL,)), faults), limit), config, faults)
    words = words or OwnWords(config)
    if task in (CLASSIFY_TEXTS, EMBED):
        return _passages(islice(lines_of(path, Columns((TEXT,), (LABEL,)), faults), limit), words, faults)
    return _prompts(islice(lines_of(path, Columns((TEXT,), (LABEL,)), faults), limit), words, faults)


def _numbers(lines: Iterable[Line], config: Mapping[str, Any], faults: Faults) -> Numbers:
    features, count = config["layer_sizes"][0], 0
    inputs, nothing = array("d"), [0.0] * features
    for line in lines:
        count += 1
        right = line.values is not None and numbers_right(line, features, faults)
        inputs.extend(line.values[INPUT] if right and line.values is not None else nothing)
    at_least_one(count, faults)
    return Numbers(torch.frombuffer(inputs, dtype=torch.float64).reshape(count, features), faults.bad)


def _prompts(lines: Iterable[Line], words: Words, faults: Faults) -> Prompts:
    tokens: list[torch.Tensor] = []
    digests: list[bytes] = []
    for line in lines:
        found = None
        if line.values is not None:
            found = tokens_of(line, words.encode, 1, "to begin with", faults)
        tokens.append(torch.tensor(found or [], dtype=torch.int32))
        digests.append(_digest_of(line) if found else b"")
    at_least_one(len(tokens), faults)
    return Prompts(tokens, faults.bad, words, digests)


def _passages(lines: Iterable[Line], words: Words, faults: Faults) -> Passages:
    tokens: list[torch.Tensor] = []
    digests: list[bytes] = []
    cut: set[int] = set()
    for line in lines:
        found = read_fitting(line, words, faults) if line.values is not None else None
        if found is not None and found[1]:
            cut.add(len(tokens))
        tokens.append(found[0] if found else torch.tensor([], dtype=torch.int32))
        digests.append(_digest_of(line) if found else b"")
    at_least_one(len(tokens), faults)
    return Passages(tokens, faults.bad, digests, frozenset(cut))


def _digest_of(line: Line) -> bytes:
    return hashlib.sha256((line.values or {})[TEXT].encode()).digest()


def _tensors(path: Path, config: Mapping[str, Any], limit: int | None, faults: Faults) -> Numbers:
    file = open_tensors(path, Columns((INPUTS,), (LABELS,)), config["layer_sizes"][0], faults)
    count = file.count if limit is None else min(limit, file.count)
    inputs = file.inputs(count, faults)
    at_least_one(count, faults)
    inputs[list(faults.bad)] = 0.0
    return Numbers(inputs, faults.bad)
