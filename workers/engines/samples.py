"""What a data set holds: its one file, read and checked whole before the first sample is computed.

Formats: JSON lines (one object a line), CSV with a header, safetensors. A classifier reads ``input`` (numbers) and
``label``; in CSV every column but ``label`` is a number of the input, in their order. A language model reads ``text``.
"""

from __future__ import annotations

import csv
import json
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workers.engines.headers import read_header
from workers.engines.refusals import EngineRefusal, Problem
from workers.engines.sources import Positioned
from workers.model_families import CLASSIFY
from workers.said_back import shown

MAX_BYTES = 500_000_000
MAX_TOLD = 20
FIELD = "params.dataset"
TEXT, INPUT, LABEL = "text", "input", "label"
INPUTS, LABELS = "inputs", "labels"


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


class _Faults:
    """Everything that is wrong with a file, as far as it is told: ``MAX_TOLD`` and how many more there are."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._found: list[Problem] = []
        self._more = 0

    def add(self, code: str, place: str, what: str) -> None:
        """One more, at a ``place`` such as ``line 3``."""
        if len(self._found) == MAX_TOLD:
            self._more += 1
            return
        where = f"{self.label}, {place}" if place else self.label
        self._found.append(Problem(code, f"{where}: {what}", {"field": FIELD, "place": place}))

    def stop(self) -> None:
        """Raises the refusal that tells all of them; does nothing where there are none."""
        if self._more:
            self._found.append(
                Problem("more_problems", f"and {self._more} more in it", {"field": FIELD, "more": self._more})
            )
        if self._found:
            raise EngineRefusal.of(self._found)


def read_samples(
    path: Path, config: Mapping[str, Any], task: str, *, limit: int | None = None, label: str
) -> Rows | Texts:  # fmt: skip
    """The samples of the file, the first ``limit`` of them; all of what is read is checked for a model of ``config``.

    Refuses with everything that is wrong, each with its line. ``label`` names the file in messages.
    """
    faults = _Faults(label)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise EngineRefusal("unreadable_input", f"{label} can't be read: {error.strerror}", {"field": FIELD}) from error
    if size > MAX_BYTES:
        faults.add("too_large", "", f"it has {size} bytes, at most {MAX_BYTES} are read: split it")
        faults.stop()
    kind = path.suffix.lower()
    if task == CLASSIFY and kind == ".safetensors":
        return _tensors(path, config, limit, faults)
    lines = _json_lines if kind == ".jsonl" else _csv_lines
    if task == CLASSIFY:
        return _rows(lines(path, (INPUT, LABEL), faults), config, limit, faults)
    return _texts(lines(path, (TEXT,), faults), config, limit, faults)


Line = tuple[str, dict[str, Any]]


def _json_lines(path: Path, columns: Sequence[str], faults: _Faults) -> Iterator[Line]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            place = f"line {number}"
            if not raw.strip():
                faults.add("empty_line", place, "it is empty: remove it, each line is one sample")
                continue
            try:
                row = json.loads(raw)
            except (ValueError, RecursionError) as error:
                faults.add("bad_json", place, f"it is no JSON ({str(error)[:80]}): write one object a line")
                continue
            if not isinstance(row, dict):
                faults.add("not_an_object", place, f"it is {shown(row)}: write an object with {' and '.join(columns)}")
            elif _has_columns(row, columns, place, faults):
                yield place, row


def _has_columns(row: Mapping[str, Any], columns: Sequence[str], place: str, faults: _Faults) -> bool:
    missing, more = [c for c in columns if c not in row], [c for c in row if c not in columns]
    if missing:
        had = f", and has {', '.join(map(shown, more[:5]))}" if more else ""
        faults.add("missing_column", place, f"it has no {' and no '.join(missing)}{had}: name them so")
    elif more:
        faults.add("unknown_column", place, _unread(more, columns))
    return not missing and not more


def _unread(more: Sequence[str], columns: Sequence[str]) -> str:
    return f"{', '.join(map(shown, more[:5]))} is not read: leave it out, a sample has {' and '.join(columns)}"


def _csv_lines(path: Path, columns: Sequence[str], faults: _Faults) -> Iterator[Line]:
    """Rows as :func:`_json_lines` has them; where an ``input`` is asked for it is made of all columns but ``label``."""
    csv.field_size_limit(MAX_BYTES)
    try:
        with path.open("r", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if not _header_fits(header, columns, faults):
                return
            for row in reader:
                place = f"line {reader.line_num}"
                if not row:
                    faults.add("empty_line", place, "it is empty: remove it, each line is one sample")
                elif len(row) != len(header):
                    faults.add(
                        "wrong_length",
                        place,
                        f"it has {len(row)} values and the header {len(header)}: write one a column",
                    )
                else:
                    yield place, _named(dict(zip(header, row, strict=True)), columns)
    except UnicodeDecodeError as error:
        faults.add("not_utf8", "", f"byte {error.start} of it is no UTF-8: save it as UTF-8")
    except csv.Error as error:
        faults.add("bad_csv", f"line {reader.line_num}", f"it is no CSV ({error}): write it so, with a header")


def _header_fits(header: Sequence[str], columns: Sequence[str], faults: _Faults) -> bool:
    wanted = [c for c in columns if c != INPUT]
    twice = sorted({name for name in header if header.count(name) > 1})
    missing = [c for c in wanted if c not in header]
    more = [name for name in header if name not in columns] if INPUT not in columns else []
    if twice:
        faults.add("unknown_column", "line 1", f"the header names {', '.join(map(shown, twice[:5]))} twice: once each")
    if missing:
        told = f"the header has no {' and no '.join(missing)}: the first line names the columns"
        faults.add("missing_column", "line 1", told)
    elif more:
        faults.add("unknown_column", "line 1", _unread(more, columns))
    return not (twice or missing or more)


def _named(row: dict[str, str], columns: Sequence[str]) -> dict[str, Any]:
    if INPUT not in columns:
        return dict(row)
    return {INPUT: [_number(value) for name, value in row.items() if name != LABEL], LABEL: _number(row[LABEL])}


def _number(text: str) -> Any:
    """The number, or the text for the check to name."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _rows(lines: Iterator[Line], config: Mapping[str, Any], limit: int | None, faults: _Faults) -> Rows:
    features, classes = config["layer_sizes"][0], config["layer_sizes"][-1]
    inputs, labels = array("d"), array("q")
    for place, row in lines:
        numbers, label = row[INPUT], row[LABEL]
        right = _numbers_right(numbers, features, place, faults)
        if type(label) is not int or not 0 <= label < classes:
            faults.add("label_out_of_range", place, f"label must be a whole number from 0 to {classes - 1}, not "
                       f"{shown(label)}")  # fmt: skip
        elif right:
            inputs.extend(numbers)
            labels.append(label)
        if len(labels) == limit:
            break
    _some(len(labels), faults)
    made = torch.frombuffer(inputs, dtype=torch.float64).reshape(len(labels), features)
    return Rows(made, torch.frombuffer(labels, dtype=torch.int64))


def _numbers_right(numbers: Any, features: int, place: str, faults: _Faults) -> bool:
    if not isinstance(numbers, list):
        faults.add("not_numbers", place, f"input must be a list of {features} numbers, not {shown(numbers)}")
        return False
    if len(numbers) != features:
        faults.add("wrong_length", place, f"input has {len(numbers)} numbers, the model reads {features}: give as many")
        return False
    if not _NUMBERS.issuperset(map(type, numbers)):
        odd = next(each for each in numbers if type(each) not in _NUMBERS)
        faults.add("not_a_number", place, f"input holds {shown(odd)}, which is no number")
        return False
    if not _finite(numbers):
        odd = next(each for each in numbers if not _finite([each]))
        faults.add("not_finite", place, f"input holds {shown(odd)}: every number must be finite")
        return False
    return True


_NUMBERS = frozenset({int, float})


def _finite(numbers: Sequence[float]) -> bool:
    try:
        return all(map(math.isfinite, numbers))
    except OverflowError:
        return False


def _some(count: int, faults: _Faults) -> None:
    """Raises what is wrong; of a file in which nothing is wrong, that it has no sample."""
    faults.stop()
    if not count:
        faults.add("empty_dataset", "", "it has no sample: give at least one")
        faults.stop()


def _texts(lines: Iterator[Line], config: Mapping[str, Any], limit: int | None, faults: _Faults) -> Texts:
    encode = encoder(config)
    tokens: list[torch.Tensor] = []
    sizes: list[int] = []
    for place, row in lines:
        text = row[TEXT]
        if not isinstance(text, str):
            faults.add("not_a_text", place, f"text must be a text, not {shown(text)}")
            continue
        try:
            numbers = encode(text)
        except UnicodeEncodeError:
            faults.add("not_utf8", place, "text holds half of a surrogate pair, which is no character: remove it")
            continue
        except KeyError as error:
            faults.add("unknown_character", place, f"text holds {error.args[0]!r}, none of the model's characters")
            continue
        if len(numbers) < 2:
            faults.add("too_short", place, "text must have at least 2 tokens, one to begin with and one to foretell")
            continue
        tokens.append(torch.tensor(numbers, dtype=torch.int32))
        sizes.append(len(text.encode()) - (1 if "characters" not in config else len(text[0].encode())))
        if len(tokens) == limit:
            break
    _some(len(tokens), faults)
    return Texts(tuple(tokens), tuple(sizes))


def encoder(config: Mapping[str, Any]) -> Callable[[str], Sequence[int]]:
    """What makes tokens of a text: its characters by their place in ``characters``, else its bytes.

    A character that is none of them raises KeyError with it.
    """
    if "characters" not in config:
        return lambda text: list(text.encode())
    places = {character: place for place, character in enumerate(config["characters"])}
    return lambda text: [places[character] for character in text]


def _tensors(path: Path, config: Mapping[str, Any], limit: int | None, faults: _Faults) -> Rows:
    """Of a safetensors file ``inputs`` (samples, features), floats, and ``labels`` (samples), integers."""
    features, classes = config["layer_sizes"][0], config["layer_sizes"][-1]
    header = read_header(path, faults.label)
    specs = {name: extent.spec for name, extent in header.extents.items()}
    if _has_columns(specs, (INPUTS, LABELS), "", faults):
        inputs, labels = specs[INPUTS], specs[LABELS]
        if inputs.dtype.kind != "float" or len(inputs.shape) != 2 or inputs.shape[1] != features:
            faults.add("wrong_shape", INPUTS, f"it is {list(inputs.shape)} of {inputs.dtype.name}; the model "
                       f"reads floats of shape [samples, {features}]")  # fmt: skip
        if labels.dtype.kind != "integer" or len(labels.shape) != 1 or labels.shape[:1] != inputs.shape[:1]:
            faults.add("wrong_shape", LABELS, f"it is {list(labels.shape)} of {labels.dtype.name}; there must be one "
                       "integer a sample")  # fmt: skip
    faults.stop()
    count = labels.numel if limit is None else min(limit, labels.numel)
    reader = Positioned(header.extents)
    rows = Rows(
        reader.read(inputs, 0, count * features).to(torch.float64).reshape(count, features),
        reader.read(labels, 0, count).to(torch.int64),
    )
    for place in (~torch.isfinite(rows.inputs)).any(1).nonzero().flatten().tolist():
        faults.add("not_finite", f"sample {place}", "inputs holds NaN or infinity: every number must be finite")
    for place in ((rows.labels < 0) | (rows.labels >= classes)).nonzero().flatten().tolist():
        faults.add("label_out_of_range", f"sample {place}", f"label must be a whole number from 0 to {classes - 1}, "
                   f"not {int(rows.labels[place])}")  # fmt: skip
    _some(count, faults)
    return rows
