"""What does a CSV file say, cell by cell? Every fault is named by file, line and column, with what to do."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

MAX_NUMBER = 2**31 - 1
MAX_TOLD = 20  # wrong cells
MARKS = (";", "\t", "|")  # that other programs write instead of commas
_GZIP = b"\x1f\x8b"


class TableError(ValueError):
    """The file can't be used; the message names the file, the line, the column and what to do. ``column``: that of one
    cell that is wrong."""

    def __init__(self, message: str, *, column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


class Row:
    """One line of the file below its header. A column that the file does not have is empty everywhere.

    ``unknown``: the columns of which the header leaves open what they say, as it lacks one that must be there, has it
    twice or misspells it. They are empty, and nobody is to be told so.
    """

    __slots__ = ("_cells", "_name", "_places", "line", "unknown")

    def __init__(self, name: str, line: int, cells: Sequence[str], header: _Header) -> None:
        self._name, self.line, self._cells, self._places = name, line, cells, header.places
        self.unknown = header.unknown

    def text(self, column: str) -> str:
        """The cell without the blanks around it; "" when it is empty."""
        place = self._places.get(column)
        return "" if place is None else self._cells[place].strip()

    def number(self, column: str, *, least: float = -MAX_NUMBER, most: float = MAX_NUMBER) -> float | None:
        """The number in the cell, None when it is empty; TableError unless it is from ``least`` to ``most``."""
        text = self.text(column)
        if not text:
            return None
        value = _as_number(text)
        if not least <= value <= most:
            raise self.wrong(column, f"is {text!r}; write a number {_range(least, most)}")
        return value

    def whole(self, column: str, *, least: int = -MAX_NUMBER, most: int = MAX_NUMBER) -> int | None:
        """The whole number in the cell, None when it is empty; TableError unless it is from ``least`` to ``most``."""
        text = self.text(column)
        if not text:
            return None
        value = _as_number(text)
        if not (least <= value <= most and value == int(value)):
            raise self.wrong(column, f"is {text!r}; write a whole number {_range(least, most)}")
        return int(value)

    def wrong(self, column: str, what: str) -> TableError:
        """The error that says ``what`` is wrong with this cell."""
        return TableError(f"{self._name}, line {self.line}, column {column}: {what}", column=column)


def _as_number(text: str) -> float:
    """The number that is written there, NaN when it is none."""
    try:
        return math.nan if "_" in text or not text.isascii() else float(text)
    except ValueError:
        return math.nan


def _range(least: float, most: float) -> str:
    return f"of at most {most}" if least < 0 else f"from {least} to {most}"


def read_table(
    path: Path,
    columns: Sequence[str],
    *,
    required: Sequence[str],
    wrong: list[str] | None = None,
    needed: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Row]:
    """The rows of a CSV file with a header, plain or gzip; blank lines are passed over.

    TableError when the file can't be read, has no rows, lacks a ``required`` column, has one that is not among
    ``columns`` (a misspelt column would count as empty), or has a line of another length than the header; with
    ``wrong`` all that is wrong with the header is told there, and such lines are passed over and told there.
    ``needed``: columns that must be there as well, each with why and what to do without it.
    """
    lines = csv.reader(io.StringIO(_text_of(path), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(lines, [])]
        told_of, known = _header(path.name, header, columns, required=required, needed=needed)
        if wrong is not None:
            wrong += told_of
        elif told_of:
            raise TableError(told_of[0])
        found = False
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(header):
                told = (
                    f"{path.name}, line {lines.line_num}: {len(cells)} cells where the header has {len(header)}; "
                    "add or remove commas"
                )
                if wrong is None:
                    raise TableError(told)
                wrong.append(told)
                found = True
                continue
            found = True
            yield Row(path.name, lines.line_num, cells, known)
    except csv.Error as unreadable:
        raise TableError(f"{path.name}, line {lines.line_num}: not CSV ({unreadable}); mend this line") from unreadable
    if not found:
        raise TableError(f"{path.name} has a header and no rows; add at least one line below the header")


def rows_of(
    path: Path,
    columns: Sequence[str],
    *,
    required: Sequence[str],
    wrong: list[str],
    needed: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Row]:
    """The rows of :func:`read_table`, up to where the file can't be read any more, which is told in ``wrong`` after
    what was so before."""
    try:
        yield from read_table(path, columns, required=required, wrong=wrong, needed=needed)
    except TableError as broken:
        wrong.append(str(broken))


def refuse(wrong: Sequence[str]) -> None:
    """TableError with all that is wrong, on a line each, up to ``MAX_TOLD``; nothing where nothing is."""
    if wrong:
        raise TableError(in_lines(wrong))


def in_lines(wrong: Sequence[str]) -> str:
    """All that is wrong, on a line each, up to ``MAX_TOLD``."""
    more = [f"and {len(wrong) - MAX_TOLD} more"] if len(wrong) > MAX_TOLD else []
    return "\n".join([*wrong[:MAX_TOLD], *more])


def faults_of(row: Row, cells: Iterable[Callable[[Row], object]]) -> list[str]:
    """What is wrong with each of the cells by itself; of a column that the header leaves open nothing is."""
    found: list[str] = []
    for read in cells:
        try:
            read(row)
        except TableError as wrong:
            if wrong.column not in row.unknown:
                found.append(str(wrong))
    return found


def _text_of(path: Path) -> str:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as unreadable:
        reason = getattr(unreadable, "strerror", None) or "the gzip data is broken or cut off"
        raise TableError(f"{path} can't be read ({reason}); name a CSV file, plain or gzip") from unreadable
    except UnicodeDecodeError as unreadable:
        raise TableError(f"{path} is not UTF-8 text; name a CSV file, plain or gzip") from unreadable
    if "\0" in text:
        raise TableError(f"{path} is not text, it has NUL characters; name a CSV file, plain or gzip")
    return text


@dataclass(frozen=True, slots=True)
class _Header:
    """Where each column stands, and the columns of which the header leaves open what they say."""

    places: Mapping[str, int]
    unknown: frozenset[str]


def _header(
    name: str, header: Sequence[str], columns: Sequence[str], *, required: Sequence[str], needed: Mapping[str, str]
) -> tuple[list[str], _Header]:
    """All that is wrong with the header, and what can be read below it. TableError where that is nothing."""
    if not any(header):
        raise TableError(f"{name} is empty; its first line must name the columns: {', '.join(columns)}")
    if len(header) == 1 and (mark := _mark(header[0], columns)) is not None:
        raise TableError(f"{name}, line 1: the columns are separated by {mark!r}; separate them by commas")
    wrong: list[str] = []
    unknown, known = set[str](), f" Known are {', '.join(columns)}"
    for column in dict.fromkeys(header):
        if column not in columns:
            near = get_close_matches(column, columns, 1)
            unknown.update(near)
            hint = f"; did you mean {near[0]}?" if near else "; remove it."
            # Which are known is told once, with the last of them.
            wrong = [told.removesuffix(known) for told in wrong]
            wrong.append(f"{name}, line 1, column {column!r} is unknown{hint}{known}")
        elif header.count(column) > 1:
            unknown.add(column)
            wrong.append(f"{name}, line 1, column {column} is there twice; remove one")
    all_there = f"add it: {', '.join(required)} must be there"
    missing = {**dict.fromkeys(required, all_there), **needed}
    for column, what in missing.items():
        if column not in header:
            unknown.add(column)
            wrong.append(f"{name}, line 1, column {column} is missing; {what}")
    if not set(columns) & set(header):  # it is a table of something else
        refuse(wrong)
    unknown -= {column for column in unknown if header.count(column) == 1}
    places = {column: place for place, column in enumerate(header) if column not in unknown}
    return wrong, _Header(places, frozenset(unknown))


def _mark(header: str, columns: Sequence[str]) -> str | None:
    """What stands between the columns of a header that is not separated by commas; None when that is not the fault."""
    for mark in MARKS:
        if any(part.strip(' "') in columns for part in header.split(mark)[1:]):
            return mark
    return None
