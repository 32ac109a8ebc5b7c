"""The formats of data sets: the rows of a file one after the other, and everything that is wrong with it.

JSON lines (one object a line) and CSV with a header. Where an ``input`` is asked for, a CSV makes it of all columns but
``label``, in their order.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.engines.refusals import MORE, EngineRefusal, Problem
from workers.said_back import shown

MAX_BYTES = 500_000_000
MAX_TOLD = 20
TEXT, INPUT, LABEL = "text", "input", "label"


class Faults:
    """Everything that is wrong with a file, as far as it is told: ``MAX_TOLD`` and how many more there are.

    ``label`` names the file in messages, ``field`` the parameter that they are told of. Of ``spared`` rows at most the
    faults don't count: they are in ``bad``, the first one of each by the row's number.
    """

    def __init__(self, label: str, field: str, spared: int = 0) -> None:
        self.label = label
        self.field = field
        self.bad: dict[int, Problem] = {}
        self._spared = spared
        self._bad_rows = 0
        self._last: int | None = None
        self._whole = False
        self._found: list[Problem] = []
        self._more = 0

    def add(self, code: str, place: str, what: str, row: int | None = None) -> None:
        """One more, at a ``place`` such as ``line 3``; ``row``: the number of the row that it is of, else the whole
        file is not to be read."""
        if row is None:
            self._whole = True
        elif row != self._last:  # rows come one after the other
            self._last = row
            self._bad_rows += 1
            if len(self.bad) < self._spared:
                self.bad[row] = Problem(code, f"{place}: {what}")
        if len(self._found) == MAX_TOLD:
            self._more += 1
            return
        where = f"{self.label}, {place}" if place else self.label
        self._found.append(Problem(code, f"{where}: {what}", {"field": self.field, "place": place}))

    def stop(self) -> None:
        """Raises the refusal that tells all of them; does nothing where there are none, or only spared ones."""
        if not self._whole and self._bad_rows <= self._spared:
            return
        found = [*self._too_many(), *self._found]
        if self._more:
            found.append(
                Problem("more_problems", f"and {self._more} more in it", {"field": self.field, MORE: self._more})
            )
        raise EngineRefusal.of(found)

    def _too_many(self) -> Iterator[Problem]:
        if 0 < self._spared < self._bad_rows:
            yield Problem(
                "too_many_bad_rows",
                f"{self.label} has {self._bad_rows} bad rows, at most max_bad_rows, {self._spared}, are passed over: "
                "mend them, or raise it",
                {"field": "params.max_bad_rows", "limit": self._spared, "bad_rows": self._bad_rows},
            )


@dataclass(frozen=True, slots=True)
class Columns:
    """What a row has: all of ``needed``, any of ``unread``, and nothing else."""

    needed: Sequence[str]
    unread: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a file: its number from 0 on, its place in words, and its values; None where they can't be read, which
    was told."""

    number: int
    place: str
    values: dict[str, Any] | None


def size_checked(path: Path, faults: Faults) -> None:
    """The file is there and no larger than ``MAX_BYTES``; raises the refusal otherwise."""
    try:
        size = path.stat().st_size
    except OSError as error:
        message = f"{faults.label} can't be read: {error.strerror}"
        raise EngineRefusal("unreadable_input", message, {"field": faults.field}) from error
    if size > MAX_BYTES:
        faults.add("too_large", "", f"it has {size} bytes, at most {MAX_BYTES} are read: split it")
        faults.stop()


def lines_of(path: Path, columns: Columns, faults: Faults) -> Iterator[Line]:
    """The rows of a ``.jsonl`` or ``.csv`` in their order; what is wrong with one is told in ``faults``."""
    return (_json_lines if path.suffix.lower() == ".jsonl" else _csv_lines)(path, columns, faults)


def at_least_one(count: int, faults: Faults) -> None:
    """Raises what is wrong; of a file in which nothing is wrong, that it has no sample."""
    faults.stop()
    if not count:
        faults.add("empty_dataset", "", "it has no sample: give at least one")
        faults.stop()


def _json_lines(path: Path, columns: Columns, faults: Faults) -> Iterator[Line]:
    with path.open("rb") as file:
        for number, raw in enumerate(file):
            place = f"line {number + 1}"
            yield Line(number, place, _object(raw, columns, place, number, faults))


def _object(raw: bytes, columns: Columns, place: str, number: int, faults: Faults) -> dict[str, Any] | None:
    if not raw.strip():
        faults.add("empty_line", place, "it is empty: remove it, each line is one sample", number)
        return None
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError) as error:
        faults.add("bad_json", place, f"it is no JSON ({str(error)[:80]}): write one object a line", number)
        return None
    if not isinstance(row, dict):
        told = f"it is {shown(row)}: write an object with {' and '.join(columns.needed)}"
        faults.add("not_an_object", place, told, number)
        return None
    return row if has_columns(row, columns, place, faults, number) else None


def has_columns(
    row: Mapping[str, Any], columns: Columns, place: str, faults: Faults, number: int | None = None
) -> bool:  # fmt: skip
    """Whether it has what is needed and nothing that is not read; else that is told."""
    missing = [c for c in columns.needed if c not in row]
    more = [c for c in row if c not in columns.needed and c not in columns.unread]
    if missing:
        had = f", and has {', '.join(map(shown, more[:5]))}" if more else ""
        faults.add("missing_column", place, f"it has no {' and no '.join(missing)}{had}: name them so", number)
    elif more:
        faults.add("unknown_column", place, _unread(more, columns), number)
    return not missing and not more


def _unread(more: Sequence[str], columns: Columns) -> str:
    has = " and ".join(columns.needed)
    return f"{', '.join(map(shown, more[:5]))} is not read: leave it out, a sample has {has}"


def _csv_lines(path: Path, columns: Columns, faults: Faults) -> Iterator[Line]:
    csv.field_size_limit(MAX_BYTES)
    try:
        with path.open("r", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if not _header_fits(header, columns, faults):
                return
            for number, row in enumerate(reader):
                place, values = f"line {reader.line_num}", None
                if not row:
                    faults.add("empty_line", place, "it is empty: remove it, each line is one sample", number)
                elif len(row) != len(header):
                    told = f"it has {len(row)} values and the header {len(header)}: write one a column"
                    faults.add("wrong_length", place, told, number)
                else:
                    values = _named(dict(zip(header, row, strict=True)), columns)
                yield Line(number, place, values)
    except UnicodeDecodeError as error:
        faults.add("not_utf8", "", f"byte {error.start} of it is no UTF-8: save it as UTF-8")
    except csv.Error as error:
        faults.add("bad_csv", f"line {reader.line_num}", f"it is no CSV ({error}): write it so, with a header")


def _header_fits(header: Sequence[str], columns: Columns, faults: Faults) -> bool:
    wanted = [c for c in columns.needed if c != INPUT]
    twice = sorted({name for name in header if header.count(name) > 1})
    missing = [c for c in wanted if c not in header]
    known = (*columns.needed, *columns.unread)
    more = [name for name in header if name not in known] if INPUT not in columns.needed else []
    if twice:
        faults.add("unknown_column", "line 1", f"the header names {', '.join(map(shown, twice[:5]))} twice: once each")
    if missing:
        told = f"the header has no {' and no '.join(missing)}: the first line names the columns"
        faults.add("missing_column", "line 1", told)
    elif more:
        faults.add("unknown_column", "line 1", _unread(more, columns))
    return not (twice or missing or more)


def _named(row: dict[str, str], columns: Columns) -> dict[str, Any]:
    label = {LABEL: _number(row[LABEL])} if LABEL in row else {}
    if INPUT not in columns.needed:
        return {**row, **label}
    return {INPUT: [_number(value) for name, value in row.items() if name != LABEL], **label}


def _number(text: str) -> Any:
    """The number, or the text for the check to name."""
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def numbers_right(line: Line, features: int, faults: Faults) -> bool:
    """Whether the ``input`` of the line is so many finite numbers; else that is told."""
    numbers = (line.values or {})[INPUT]
    add = _adding(faults, line)
    if not isinstance(numbers, list):
        add("not_numbers", f"input must be a list of {features} numbers, not {shown(numbers)}")
        return False
    if len(numbers) != features:
        add("wrong_length", f"input has {len(numbers)} numbers, the model reads {features}: give as many")
        return False
    if not _NUMBERS.issuperset(map(type, numbers)):
        odd = next(each for each in numbers if type(each) not in _NUMBERS)
        add("not_a_number", f"input holds {shown(odd)}, which is no number")
        return False
    if not _finite(numbers):
        odd = next(each for each in numbers if not _finite([each]))
        add("not_finite", f"input holds {shown(odd)}: every number must be finite")
        return False
    return True


_NUMBERS = frozenset({int, float})


def _finite(numbers: Sequence[float]) -> bool:
    try:
        return all(map(math.isfinite, numbers))
    except OverflowError:
        return False


def tokens_of(
    line: Line, encode: Callable[[str], Sequence[int]], least: int, why: str, faults: Faults
) -> Sequence[int] | None:  # fmt: skip
    """The tokens of the line's ``text``; None, and told, where it is none, holds a character that the model has not,
    or has less than ``least`` tokens, of which ``why`` says what they are for."""
    text = (line.values or {})[TEXT]
    add = _adding(faults, line)
    if not isinstance(text, str):
        add("not_a_text", f"text must be a text, not {shown(text)}")
        return None
    try:
        numbers = encode(text)
    except UnicodeEncodeError:
        add("not_utf8", "text holds half of a surrogate pair, which is no character: remove it")
        return None
    except KeyError as error:
        add("unknown_character", f"text holds {error.args[0]!r}, none of the model's characters")
        return None
    if len(numbers) < least:
        add("too_short", f"text must have at least {least} token{'s' * (least > 1)}, {why}")
        return None
    return numbers


def _adding(faults: Faults, line: Line) -> Callable[[str, str], None]:
    return lambda code, what: faults.add(code, line.place, what, line.number)


def encoder(config: Mapping[str, Any]) -> Callable[[str], Sequence[int]]:
    """What makes tokens of a text: its characters by their place in ``characters``, else its bytes.

    A character that is none of them raises KeyError with it.
    """
    if "characters" not in config:
        return lambda text: list(text.encode())
    places = {character: place for place, character in enumerate(config["characters"])}
    return lambda text: [places[character] for character in text]


def decoder(config: Mapping[str, Any]) -> Callable[[Sequence[int]], bytes]:
    """What makes text, as UTF-8, of tokens: the other way round than :func:`encoder`."""
    if "characters" not in config:
        return bytes
    characters = config["characters"]
    return lambda tokens: "".join(characters[token] for token in tokens).encode()
