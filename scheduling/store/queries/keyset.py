"""One page of a list that grows while it is read: by the last row seen, never by counting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list: just after the row with this moment and id, or just before it when ``backwards``."""

    moment: datetime
    id: UUID
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first, and where the pages before and after them begin (None at either end)."""

    rows: list[Any]
    next: Position | None
    previous: Position | None


def page(rows: QuerySet[Row], by: str, at: Position | None, size: int) -> Page:
    """The ``size`` rows at the position, in the order (``by`` descending, id descending); one query, no count."""
    backwards = at is not None and at.backwards
    if at is not None:
        side = "gt" if backwards else "lt"
        rows = rows.filter(Q(**{f"{by}__{side}": at.moment}) | Q(**{by: at.moment, f"id__{side}": at.id}))
    order = (by, "id") if backwards else (f"-{by}", "-id")
    found = list(rows.order_by(*order)[: size + 1])
    more = len(found) > size
    found = found[:size]
    if backwards:
        found.reverse()
    if not found:
        return Page([], None, None)
    first, last = _position(found[0], by), _position(found[-1], by)
    behind = more if not backwards else True
    before = more if backwards else at is not None
    return Page(found, last if behind else None, Position(first.moment, first.id, backwards=True) if before else None)


def _position(row: Any, by: str) -> Position:
    return Position(getattr(row, by), row.pk)
