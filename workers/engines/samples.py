"""What a model is judged by: the samples of a data set's one file, read and checked whole before the first is computed.

Formats: JSON lines (one object a line), CSV with a header, safetensors. A classifier reads ``input`` (numbers) and
``label``; in CSV every column but ``label`` is a number of the input, in their order. A language model reads ``text``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
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
    encoder,
    lines_of,
    numbers_right,
    size_checked,
    tokens_of,
)
from workers.engines.tensor_files import INPUTS, LABELS, open_tensors
from workers.model_families import CLASSIFY
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


def read_samples(
    path: Path, config: Mapping[str, Any], task: str, *, limit: int | None = None, label: str
) -> Rows | Texts:  # fmt: skip
    """The samples of the file, the first ``limit`` of them; all of what is read is checked for a model of ``config``.

    Refuses with everything that is wrong, each with its line. ``label`` names the file in messages.
    """
    faults = Faults(label, FIELD)
    size_checked(path, faults)
    if task == CLASSIFY and path.suffix.lower() == ".safetensors":
        return _tensors(path, config, limit, faults)
    if task == CLASSIFY:
        return _rows(islice(lines_of(path, Columns((INPUT, LABEL)), faults), limit), config, faults)
    return _texts(islice(lines_of(path, Columns((TEXT,)), faults), limit), config, faults)


def _rows(lines: Iterable[Line], config: Mapping[str, Any], faults: Faults) -> Rows:
    features, classes = config["layer_sizes"][0], config["layer_sizes"][-1]
    inputs, labels = array("d"), array("q")
    for line in lines:
        if line.values is None:
            continue
        label, right = line.values[LABEL], numbers_right(line, features, faults)
        if type(label) is not int or not 0 <= label < classes:
            told = f"label must be a whole number from 0 to {classes - 1}, not {shown(label)}"
            faults.add("label_out_of_range", line.place, told, line.number)
        elif right:
            inputs.extend(line.values[INPUT])
            labels.append(label)
    at_least_one(len(labels), faults)
    made = torch.frombuffer(inputs, dtype=torch.float64).reshape(len(labels), features)
    return Rows(made, torch.frombuffer(labels, dtype=torch.int64))


def _texts(lines: Iterable[Line], config: Mapping[str, Any], faults: Faults) -> Texts:
    encode = encoder(config)
    tokens: list[torch.Tensor] = []
    sizes: list[int] = []
    for line in lines:
        if line.values is None:
            continue
        numbers = tokens_of(line, encode, 2, "one to begin with and one to foretell", faults)
        if numbers is None:
            continue
        text = line.values[TEXT]
        tokens.append(torch.tensor(numbers, dtype=torch.int32))
        sizes.append(len(text.encode()) - (1 if "characters" not in config else len(text[0].encode())))
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
