"""Bytes over HTTP: one range of a file or a text, ETag, HEAD, always as an attachment (RFC 9110, 14)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.utils.http import content_disposition_header, parse_etags

from scheduling.api.problems import Problem
from scheduling.store.queries.changes import let_go

CHUNK = 256 * 1024
ONE_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from ``start`` up to and without ``stop``, of ``size``."""

    start: int
    stop: int
    size: int
    partial: bool


def span_of(request: HttpRequest, size: int, etag: str) -> Span:
    """What of ``size`` bytes is asked for: everything, or one range; 416 for one that lies outside.

    A header that is no single byte range, or an ``If-Range`` of another version, means everything.
    """
    whole = Span(0, size, size, partial=False)
    asked = ONE_RANGE.fullmatch(request.headers.get("Range", "").strip())
    if asked is None or asked.groups() == ("", ""):
        return whole
    if request.headers.get("If-Range", etag).strip() != etag:
        return whole
    first, last = asked.groups()
    if first == "":
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), size if last == "" else min(size, int(last) + 1)
        if last and int(last) < start:
            return whole
    if start >= size or start >= stop:
        raise Problem(
            416, "range_not_satisfiable", f"the range lies outside: there are {size} bytes", limit=size,
            headers={"Content-Range": f"bytes */{size}"},
        )  # fmt: skip
    return Span(start, stop, size, partial=True)


def unchanged(request: HttpRequest, etag: str) -> HttpResponse | None:
    """304 when the client says that it has this version already."""
    known = parse_etags(request.headers.get("If-None-Match", ""))
    return HttpResponse(status=304, headers={"ETag": etag}) if etag in known or "*" in known else None


def headers_of(span: Span, etag: str, name: str) -> dict[str, str]:
    """The headers of the response that carries the span."""
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Content-Length": str(span.stop - span.start),
        "Content-Disposition": content_disposition_header(True, name) or "attachment",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
    }
    if span.partial:
        headers["Content-Range"] = f"bytes {span.start}-{span.stop - 1}/{span.size}"
    return headers


def file_response(request: HttpRequest, file: BinaryIO, span: Span, headers: dict[str, str]) -> HttpResponseBase:
    """The span of the open file, streamed; the file is closed with the response."""
    status = 206 if span.partial else 200
    if request.method == "HEAD":
        file.close()
        return HttpResponse(status=status, headers=headers, content_type="application/octet-stream")
    file.seek(span.start)
    # A plain iterator would be read to its end in memory by the async handler, and the other way round.
    if isinstance(request, ASGIRequest):
        let_go()  # a slow client may read for hours
        pieces: AsyncIterator[bytes] | Iterator[bytes] = _later(file, span)
    else:
        pieces = _now(file, span)
    response = StreamingHttpResponse(pieces, status=status, headers=headers, content_type="application/octet-stream")
    response._resource_closers.append(file.close)  # type: ignore[attr-defined]
    return response


def _now(file: BinaryIO, span: Span) -> Iterator[bytes]:
    left = span.stop - span.start
    while left and (piece := file.read(min(CHUNK, left))):
        left -= len(piece)
        yield piece


async def _later(file: BinaryIO, span: Span) -> AsyncIterator[bytes]:
    left = span.stop - span.start
    while left and (piece := await asyncio.to_thread(file.read, min(CHUNK, left))):
        left -= len(piece)
        yield piece
