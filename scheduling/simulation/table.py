"""What does a CSV file say, cell by cell? Every fault is named by file, line and column, with what to do."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

MAX_NUMBER = 2**31 - 1
_GZIP = b"\x1f\x8b"


class TableError(ValueError):
    """The file can't be used; the message names the file, the line, the column and what to do."""


class Row:
    """One line of the file below its header. A column that the file does not have is empty everywhere."""

    __slots__ = ("_cells", "_name", "_places", "line")

    def __init__(self, name: str, line: int, cells: Sequence[str], places: dict[str, int]) -> None:
        self._name, self.line, self._cells, self._places = name, line, cells, places

    def text(self, column: str) -> str:
        """The cell without the blanks around it; "" when it is empty."""
        place = self._places.get(column)
        return "" if place is None else self._cells[place].strip()

    def number(self, column: str) -> float | None:
        """The number in the cell, None when it is empty; TableError unless it is finite and at most ``MAX_NUMBER``."""
        text = self.text(column)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not abs(value) <= MAX_NUMBER:
            raise self.wrong(
                column, f"is {text!r}, not a number of at most {MAX_NUMBER}; write one like 3600, or leave it empty"
            )
        return value

    def whole(self, column: str, *, most: int = MAX_NUMBER) -> int | None:
        """The whole number in the cell, None when it is empty; TableError for a fraction or one above ``most``."""
        value = self.number(column)
        if value is None:
            return None
        if value != int(value) or value > most:
            raise self.wrong(column, f"is {self.text(column)!r}; write a whole number of at most {most}")
        return int(value)

    def wrong(self, column: str, what: str) -> TableError:
        """The error that says ``what`` is wrong with this cell."""
        return TableError(f"{self._name}, line {self.line}, column {column}: {what}")


def read_table(path: Path, columns: Sequence[str], *, required: Sequence[str]) -> Iterator[Row]:
    """The rows of a CSV file with a header, plain or gzip; blank lines are passed over.

    TableError when the file can't be read, has no rows, lacks a ``required`` column, has one that is not among
    ``columns`` (a misspelt column would count as empty), or has a line of another length than the header.
    """
    lines = csv.reader(io.StringIO(_text_of(path), newline=""))
    try:
        header = [name.strip() for name in next(lines, [])]
        places = _places(path.name, header, columns, required=required)
        found = False
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(header):
                raise TableError(
                    f"{path.name}, line {lines.line_num}: {len(cells)} cells where the header has {len(header)}; "
                    "add or remove commas"
                )
            found = True
            yield Row(path.name, lines.line_num, cells, places)
    except csv.Error as unreadable:
        raise TableError(f"{path.name}, line {lines.line_num}: not CSV ({unreadable}); mend this line") from unreadable
    if not found:
        raise TableError(f"{path.name} has a header and no rows; add at least one line below the header")


def _text_of(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as unreadable:
        reason = getattr(unreadable, "strerror", None) or "the gzip data is broken"
        raise TableError(f"{path} can't be read ({reason}); name a CSV file, plain or gzip") from unreadable
    except UnicodeDecodeError as unreadable:
        raise TableError(f"{path} is not UTF-8 text; name a CSV file, plain or gzip") from unreadable


def _places(name: str, header: Sequence[str], columns: Sequence[str], *, required: Sequence[str]) -> dict[str, int]:
    if not any(header):
        raise TableError(f"{name} is empty; its first line must name the columns: {', '.join(columns)}")
    for column in header:
        if column not in columns:
            near = get_close_matches(column, columns, 1)
            hint = f"; did you mean {near[0]}?" if near else "; remove it"
            raise TableError(f"{name}, line 1, column {column!r} is unknown{hint} Known are {', '.join(columns)}")
        if header.count(column) > 1:
            raise TableError(f"{name}, line 1, column {column} is there twice; remove one")
    missing = [column for column in required if column not in header]
    if missing:
        raise TableError(f"{name}, line 1, column {missing[0]} is missing; add it: {', '.join(required)} must be there")
    return {column: place for place, column in enumerate(header)}
