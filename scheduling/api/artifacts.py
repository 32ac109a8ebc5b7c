"""Artifacts: listed, seen, their bytes by range, what they were made from; new ones by upload."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.body import json_object, only, usable
from scheduling.api.door import Door, parameters, whole
from scheduling.api.paging import PARAMETERS, listed, refuse_filters
from scheduling.api.problems import Problem, not_found
from scheduling.api.ranges import file_response, headers_of, span_of, unchanged
from scheduling.api.shapes import artifacts as shapes
from scheduling.api.shapes.answers import BYTES, PAGING, documented, page_of, query
from scheduling.api.uploads import checked
from scheduling.services import artifact_deletion as deletion
from scheduling.services import artifact_files, filters
from scheduling.services import artifacts as service
from scheduling.services.artifacts import Owner, Refusal
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import lineage as family
from scheduling.store.queries.called import with_names

FLAGS = {"true": True, "false": False}
RANGE = query("Range", "One range: bytes=first-last.", where="header")


class ArtifactList(Door):
    """All artifacts one may know of, and new ones."""

    scopes = {"GET": "artifacts:read", "POST": "artifacts:write"}

    @documented("artifacts_list", "Artifacts, newest first", tag="artifacts",
                answer=page_of("Artifact", shapes.ArtifactShape),
                parameters=(query("kind", "Kind."), query("project", "Project."),
                            query("q", "Part of one of its names or of the digest."),
                            query("deleted", "true: those that were deleted; else those that are there."),
                            query("corrupt", "true: those whose bytes are known to be damaged; false: the others."),
                            *PAGING))  # fmt: skip
    def get(self, request: Request) -> Response:
        """One page of the artifacts that pass the filters."""
        given = parameters(request, ("kind", "project", "q", "deleted", "corrupt", *PARAMETERS))
        refuse_filters(filters.wrong_of_artifacts(self.actor, given))
        rows = queries.filtered(
            self.actor, kind=given.get("kind", ""), project=given.get("project", ""), q=given.get("q", ""),
            deleted=given.get("deleted") == "true", corrupt=FLAGS.get(given.get("corrupt", "")),
        )  # fmt: skip
        return Response(
            listed(
                request, given, with_names(rows), by="created_at", shown=lambda found: list(map(queries.as_dict, found))
            )
        )

    @documented(
        "artifacts_create",
        "Begin an upload",
        tag="artifacts",
        body=shapes.UploadRequest,
        answer=shapes.UploadShape,
        status=201,
    )
    def post(self, request: Request) -> Response:
        """201 with the open upload; a path at its full size needs no bytes."""
        body, _ = json_object(request)
        only(body, tuple(shapes.UploadRequest().fields))
        usable(body)
        return Response(checked(service.begin(Owner(actor=self.actor), body, self.now)), status=201)


class OfArtifact(Door):
    """Something of an artifact that the actor may know of."""

    scopes = {"GET": "artifacts:read"}

    def artifact(self, artifact_id: str) -> Any:
        """The artifact, or 404."""
        artifact = queries.one(self.actor, artifact_id)
        if artifact is None:
            raise not_found("artifact")
        return artifact


class ArtifactDetail(OfArtifact):
    """One artifact."""

    scopes = {"GET": "artifacts:read", "DELETE": "artifacts:write"}

    @documented("artifacts_retrieve", "One artifact with its files", tag="artifacts", answer=shapes.ArtifactShape)
    def get(self, request: Request, artifact_id: str) -> Response:
        """The artifact."""
        parameters(request, ())
        return Response(queries.as_dict(self.artifact(artifact_id)))

    @documented("artifacts_delete", "Delete an artifact; its record and lineage stay", tag="artifacts",
                answer=shapes.ArtifactShape,
                parameters=(query("all", "true: under all its names, where it has several; else that is refused."),
                            query("name", "Only this name of it; it stays under its others.")))  # fmt: skip
    def delete(self, request: Request, artifact_id: str) -> Response:
        """The artifact, deleted, or without the name; 403 for who did not make it, 409 while jobs need it or it has
        other names."""
        given = parameters(request, ("all", "name"))
        everywhere, name = given.get("all") or "false", given.get("name", "")
        if everywhere not in FLAGS:
            words = f"all must be true or false, not {everywhere[:40]!r}"
            raise Problem(400, "bad_parameter", words, field="all", limit=list(FLAGS))
        if name and FLAGS[everywhere]:
            words = "name removes one name and all=true every one: give one of them"
            raise Problem(400, "bad_parameter", words, field="name")
        return _changed(deletion.delete(artifact_id, self.actor, self.now, everywhere=FLAGS[everywhere], name=name))


class ArtifactRestore(Door):
    """A deleted artifact, again."""

    scopes = {"POST": "artifacts:write"}

    @documented("artifacts_restore", "Take a deletion back while the bytes are kept", tag="artifacts",
                answer=shapes.ArtifactShape)  # fmt: skip
    def post(self, request: Request, artifact_id: str) -> Response:
        """The artifact as it was; 403 for who did not make it, 410 when its bytes are gone."""
        parameters(request, ())
        return _changed(deletion.restore(artifact_id, self.actor, self.now))


def _changed(result: dict[str, Any] | Refusal | None) -> Response:
    if result is None:
        raise not_found("artifact")
    return Response(checked(result))


class ArtifactLineage(OfArtifact):
    """Where an artifact comes from and what came of it."""

    @documented("artifacts_lineage", "Ancestors and descendants", tag="artifacts", answer=shapes.LineageShape,
                parameters=(query("direction", "up: what it was made from; down: what came of it; else both."),
                            query("depth", "So many steps away at most.", OpenApiTypes.INT)))  # fmt: skip
    def get(self, request: Request, artifact_id: str) -> Response:
        """Nodes and edges; those of other projects are left out and counted."""
        given = parameters(request, ("direction", "depth"))
        direction = given.get("direction") or "both"
        if direction not in family.DIRECTIONS:
            words = f"direction must be one of {', '.join(family.DIRECTIONS)}, not {direction[:40]!r}"
            raise Problem(400, "bad_parameter", words, field="direction", limit=list(family.DIRECTIONS))
        depth = whole(given, "depth", default=family.MAX_DEPTH, least=1, most=family.MAX_DEPTH)
        return Response(family.lineage(self.actor, self.artifact(artifact_id), direction=direction, depth=depth))


class ArtifactFile(OfArtifact):
    """The bytes of one file."""

    @documented("artifacts_file", "Download a file", tag="artifacts", answer=OpenApiTypes.BINARY, media=BYTES,
                parameters=(RANGE,), more={(206, BYTES): OpenApiTypes.BINARY})  # fmt: skip
    def get(self, request: Request, artifact_id: str, path: str) -> HttpResponseBase:
        """The file or one range of it, as an attachment; its sha256 is its ETag."""
        parameters(request, ())
        artifact = self.artifact(artifact_id)
        if artifact.deleted_at is not None:
            words = f"it was deleted ({artifact.deleted_why}): restore it while its bytes are kept"
            raise Problem(410, "deleted_artifact", words)
        return download(request, artifact.files, path)


def download(request: Request, files: list[dict[str, Any]], path: str) -> HttpResponseBase:
    """The response with the bytes of ``path``, which must be one of ``files`` word for word."""
    entry = next((f for f in files if f["path"] == path), None)
    if entry is None:
        raise not_found("file in this artifact")
    http, etag = request._request, f'"{entry["sha256"]}"'
    if (same := unchanged(http, etag)) is not None:
        return same
    span = span_of(http, entry["size"], etag)
    try:
        file = artifact_files.open_blob(entry["sha256"])
    except FileNotFoundError as gone:
        raise Problem(500, "bytes_missing", "the stored bytes of this file are missing; tell an admin") from gone
    return file_response(http, file, span, headers_of(span, etag, PurePosixPath(path).name))
