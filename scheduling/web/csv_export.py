"""A list as CSV that a spreadsheet opens without running anything in it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.http import StreamingHttpResponse

# A cell that begins so is a formula to a spreadsheet (OWASP, "CSV Injection").
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class _Line:
    """A file for the csv module that gives each line back."""

    def write(self, line: str) -> str:
        return line


def cell(value: Any) -> Any:
    """The value as a cell: text that would be a formula is quoted by an apostrophe."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value


def answer(name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> StreamingHttpResponse:
    """A download of the rows' columns under a header line."""
    response = StreamingHttpResponse(_lines(columns, rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([cell(row[c]) for c in columns])
