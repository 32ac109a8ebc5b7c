"""What a model is judged by: the samples of a data set's one file, read and checked whole before the first is computed.

Formats: JSON lines (one object a line), CSV with a header, safetensors. A classifier reads ``input`` (numbers) and
``label``; in CSV every column but ``label`` is a number of the input, in their order. A language model reads ``text``,
and one that tells classes of texts apart ``text`` and ``label``.
"""

from __future__ import annotations

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
from workers.engines.tensor_files import INPUTS, LABELS, open_tensors
from workers.engines.words import OwnWords, Words
from workers.model_families import CLASSIFY, CLASSIFY_TEXTS
from workers.said_back import shown

FIELD = "params.dataset"


@dataclass(frozen=True, slots=True)
class Rows:
    """Samples of a classifier: ``inputs`` (samples, features) in float64, and the ``labels`` (samples)."""

    inputs: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, slots=True)
class Texts:
    """Samples of a language model: the tokens of each text, and how many bytes of UTF-8 all but its first token are."""

    tokens: tuple[torch.Tensor, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Labelled:
    """Samples of a model that tells classes of texts apart: the tokens of each text as far as it reads them, the
    ``labels`` (samples), and the numbers of the texts that are ``cut``."""

    tokens: tuple[torch.Tensor, ...]
    labels: torch.Tensor
    cut: frozenset[int]

    def __len__(self) -> int:
        return len(self.labels)


Samples = Rows | Texts | Labelled


def read_samples(
    path: Path, config: Mapping[str, Any], task: str, *, limit: int | None = None, label: str,
    words: Words | None = None,
) -> Samples:  # fmt: skip
    """The samples of the file, the first ``limit`` of them; all of what is read is checked for a model of ``config``.

    Refuses with everything that is wrong, each with its line. ``label`` names the file in messages. ``words``: of
    texts, by default those of ``config``.
    """
    faults = Faults(label, FIELD)
    size_checked(path, faults)
    if task == CLASSIFY and path.suffix.lower() == ".safetensors":
        return _tensors(path, config, limit, faults)
    if task == CLASSIFY:
        return _rows(islice(lines_of(path, Columns((INPUT, LABEL)), faults), limit), config, faults)
    words = words or OwnWords(config)
    if task == CLASSIFY_TEXTS:
        return _labelled(islice(lines_of(path, Columns((TEXT, LABEL)), faults), limit), config, words, faults)
    return _texts(islice(lines_of(path, Columns((TEXT,)), faults), limit), words, faults)


def _rows(lines: Iterable[Line], config: Mapping[str, Any], faults: Faults) -> Rows:
    features, classes = config["layer_sizes"][0], config["layer_sizes"][-1]
    inputs, labels = array("d"), array("q")
    for line in lines:
        if line.values is None:
            continue
        label, right = _label_of(line, classes, faults), numbers_right(line, features, faults)
        if label is not None and right:
            inputs.extend(line.values[INPUT])
            labels.append(label)
    at_least_one(len(labels), faults)
    made = torch.frombuffer(inputs, dtype=torch.float64).reshape(len(labels), features)
    return Rows(made, torch.frombuffer(labels, dtype=torch.int64))


def _label_of(line: Line, classes: int, faults: Faults) -> int | None:
    """The label of the line; None, and told, where it is none of so many classes."""
    label = (line.values or {})[LABEL]
    if type(label) is int and 0 <= label < classes:
        return label
    told = f"label must be a whole number from 0 to {classes - 1}, not {shown(label)}"
    faults.add("label_out_of_range", line.place, told, line.number)
    return None


def _labelled(lines: Iterable[Line], config: Mapping[str, Any], words: Words, faults: Faults) -> Labelled:
    tokens: list[torch.Tensor] = []
    labels = array("q")
    cut: set[int] = set()
    for line in lines:
        if line.values is None:
            continue
        label = _label_of(line, config["classes"], faults)
        found = read_fitting(line, words, faults)
        if label is not None and found is not None:
            if found[1]:
                cut.add(len(labels))
            tokens.append(found[0])
            labels.append(label)
    at_least_one(len(labels), faults)
    return Labelled(tuple(tokens), torch.frombuffer(labels, dtype=torch.int64), frozenset(cut))


def read_fitting(line: Line, words: Words, faults: Faults) -> tuple[torch.Tensor, bool] | None:
    """As many tokens of the line's text as the model reads, and whether it has more; None, and told, where the text is
    none or has not one."""
    cut: list[bool] = []

    def encode(text: str) -> Sequence[int]:
        found, more = words.fitting(text)
        cut.append(more)
        return found

    numbers = tokens_of(line, encode, 1, "to tell it by", faults)
    return None if numbers is None else (torch.tensor(numbers, dtype=torch.int32), cut[0])


def _texts(lines: Iterable[Line], words: Words, faults: Faults) -> Texts:
    tokens: list[torch.Tensor] = []
    sizes: list[int] = []
    for line in lines:
        if line.values is None:
            continue
        numbers = tokens_of(line, words.encode, 2, "one to begin with and one to foretell", faults)
        if numbers is None:
            continue
        tokens.append(torch.tensor(numbers, dtype=torch.int32))
        sizes.append(words.behind_the_first(line.values[TEXT]))
    at_least_one(len(tokens), faults)
    return Texts(tuple(tokens), tuple(sizes))


def _tensors(path: Path, config: Mapping[str, Any], limit: int | None, faults: Faults) -> Rows:
    features, classes = config["layer_sizes"][0], config["layer_sizes"][-1]
    file = open_tensors(path, Columns((INPUTS, LABELS)), features, faults)
    count = file.count if limit is None else min(limit, file.count)
    rows = Rows(file.inputs(count, faults), file.labels(count))
    for place in ((rows.labels < 0) | (rows.labels >= classes)).nonzero().flatten().tolist():
        faults.add("label_out_of_range", f"sample {place}", f"label must be a whole number from 0 to {classes - 1}, "
                   f"not {int(rows.labels[place])}", place)  # fmt: skip
    at_least_one(count, faults)
    return rows
