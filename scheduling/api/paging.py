"""Lists in pages: ``{next, previous, results}`` with opaque cursors in full addresses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request

from scheduling.api.door import whole
from scheduling.api.problems import Problem
from scheduling.store.queries.keyset import Position, page

PAGE = 50
MAX_PAGE = 200
PARAMETERS = ("cursor", "limit")


def listed(
    request: Request,
    given: dict[str, str],
    rows: QuerySet[Any],
    *,
    by: str,
    shown: Callable[[list[Any]], list[dict[str, Any]]],
) -> dict[str, Any]:
    """The page that ``cursor`` and ``limit`` ask for, newest first."""
    size = whole(given, "limit", default=PAGE, least=1, most=MAX_PAGE)
    at = _read(given["cursor"]) if given.get("cursor") else None
    found = page(rows, by, at, size)
    return envelope(shown(found.rows), next=_address(request, found.next), previous=_address(request, found.previous))


def refuse_filters(wrong: Sequence[Mapping[str, Any]]) -> None:
    """400 with every wrong value of a filter, if there is any."""
    if wrong:
        raise Problem(400, wrong[0]["code"], wrong[0]["message"], errors=wrong)


def envelope(results: list[Any], *, next: str | None = None, previous: str | None = None) -> dict[str, Any]:
    """A list as REST gives it; without addresses it is all there is."""
    return {"next": next, "previous": previous, "results": results}


def address_with(request: Request, **changed: str) -> str:
    """The request's own address with these query parameters instead."""
    query = request.GET.copy()
    for name, value in changed.items():
        query[name] = value
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


def _address(request: Request, position: Position | None) -> str | None:
    return None if position is None else address_with(request, cursor=_written(position))


def _written(position: Position) -> str:
    text = f"{'p' if position.backwards else 'n'}{position.moment.isoformat()}~{position.id.hex}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(cursor: str) -> Position:
    try:
        text = base64.urlsafe_b64decode(cursor[:200] + "=" * (-len(cursor) % 4)).decode("ascii")
        moment, _, key = text[1:].partition("~")
        position = Position(datetime.fromisoformat(moment), UUID(hex=key), backwards={"p": True, "n": False}[text[:1]])
        if position.moment.tzinfo is None:
            raise ValueError("a moment without a zone")
    except (ValueError, KeyError, binascii.Error) as wrong:
        message = "cursor must be one that an earlier page gave (next or previous); leave it out to begin"
        raise Problem(400, "bad_cursor", message, field="cursor") from wrong
    return position
