"""Bytes on their way in: announced, sent in parts at offsets, committed with every sha256. For people and for nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.body import json_object
from scheduling.api.door import Door, parameters, whole
from scheduling.api.problems import Problem
from scheduling.api.shapes import artifacts as shapes
from scheduling.api.shapes.answers import BYTES, documented, query
from scheduling.services import artifacts as service
from scheduling.services.artifacts import Owner, Refusal
from scheduling.store.queries import artifacts as queries

CHUNK = 1024 * 1024
# The web server holds a whole request before Django sees it, so a file comes in parts.
MAX_PART = 64 * 1024 * 1024
OFFSET = query(
    "offset", "Where these bytes begin: exactly the number of bytes received so far. 0 by default.", OpenApiTypes.INT
)


def checked(result: dict[str, Any] | Refusal) -> dict[str, Any]:
    """The service's answer, or its refusal as a problem with the facts beside it."""
    if isinstance(result, Refusal):
        raise refused(result)
    return result


def refused(refusal: Refusal) -> Problem:
    """The refusal as a problem with the facts beside it."""
    return Problem(refusal.status, refusal.code, refusal.message, field=refusal.field, facts=refusal.facts)


def send_part(request: Request, owner: Owner, upload: str, path: str, *, offset: int) -> Response:
    """The raw body has been written to disk at ``offset``, a chunk in memory at a time; ``{offset}`` to go on from."""
    http = request._request
    announced = http.META.get("CONTENT_LENGTH") or "0"
    if announced.isascii() and announced.isdigit() and int(announced) > MAX_PART:
        raise _too_large(offset)
    return Response(checked(service.put(owner, upload, path, offset, _chunks(http, offset))))


def _chunks(http: HttpRequest, offset: int) -> Iterator[bytes]:
    left = MAX_PART
    while piece := http.read(CHUNK):
        left -= len(piece)
        if left < 0:
            raise _too_large(offset)
        yield piece


def _too_large(offset: int) -> Problem:
    message = f"one part may have at most {MAX_PART} bytes; send the file in parts with ?offset="
    return Problem(413, "too_large", message, limit=MAX_PART, facts={"offset": offset})


class UploadOffsets(Door):
    """An upload under way."""

    scopes = {"GET": "artifacts:write", "DELETE": "artifacts:write"}

    @documented("uploads_retrieve", "How far an upload is", tag="artifacts", answer=shapes.UploadShape)
    def get(self, request: Request, upload: str) -> Response:
        """Bytes here of each file."""
        parameters(request, ())
        return Response(checked(service.offsets(Owner(actor=self.actor), upload)))

    @documented("uploads_abandon", "Give an upload up", tag="artifacts", status=204)
    def delete(self, request: Request, upload: str) -> Response:
        """204: it is gone with what has come of it, and counts against no quota; 409 once it is committed."""
        parameters(request, ())
        if (refusal := service.abandon(self.actor, upload)) is not None:
            raise refused(refusal)
        return Response(status=204)


class UploadFile(Door):
    """One file of an upload."""

    scopes = {"PUT": "artifacts:write"}

    @documented("uploads_put", "Send a part of a file", tag="artifacts", answer=shapes.OffsetShape,
                parameters=(OFFSET,), body={BYTES: OpenApiTypes.BINARY})  # fmt: skip
    def put(self, request: Request, upload: str, path: str) -> Response:
        """The file has grown by the body; any offset but the number of bytes here is 409 with that number."""
        offset = whole(parameters(request, ("offset",)), "offset", default=0)
        return send_part(request, Owner(actor=self.actor), upload, path, offset=offset)


class UploadCommit(Door):
    """The end of an upload."""

    scopes = {"POST": "artifacts:write"}

    @documented("uploads_commit", "Make an upload an artifact", tag="artifacts", body=shapes.CommitRequest,
                answer=shapes.ArtifactShape, status=201)  # fmt: skip
    def post(self, request: Request, upload: str) -> Response:
        """Every byte is hashed and compared; 201 with the artifact."""
        body, _ = json_object(request, optional=True)
        made = checked(service.commit(Owner(actor=self.actor), upload, body, self.now))
        artifact = queries.one(self.actor, made["artifact"])
        if artifact is None:
            raise AssertionError("an artifact just committed by its owner can't be seen by him")
        return Response(queries.as_dict(artifact), status=201)
