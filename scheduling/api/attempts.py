"""What agents call about an attempt they hold: claim, reports, bytes of its inputs and outputs. Fenced by the epoch."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.artifacts import RANGE, download
from scheduling.api.body import node_message, read
from scheduling.api.door import NodeDoor, parameters, whole
from scheduling.api.nodes import taken
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import nodes as shapes
from scheduling.api.shapes.answers import BYTES, documented, query
from scheduling.api.shapes.artifacts import OffsetShape, UploadShape
from scheduling.api.uploads import OFFSET, checked, refused, send_part
from scheduling.services import artifact_bundles as bundles
from scheduling.services import artifacts as store
from scheduling.services import pool as service
from scheduling.services.artifacts import Owner, Refusal
from scheduling.store.queries import artifacts as queries
from scheduling.store.queries import dispatch
from workers.bundles import MAX_BYTES, MAX_HEAD

REFUSALS = {"stale_epoch": 409, "unknown_attempt": 404}
EPOCH = query("epoch", "The attempt's epoch.", OpenApiTypes.INT)
EPOCH_HEADER = query("X-EMEP-Epoch", "The attempt's epoch; ?epoch= is taken too.", OpenApiTypes.INT, where="header")


def epoch_of(message: dict[str, Any]) -> int:
    """The epoch that every message about an attempt carries; 422 without it."""
    epoch = message.get("epoch")
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch < 2**62:
        raise Problem(422, "bad_epoch", "epoch must be the attempt's whole number", field="epoch", limit=0)
    return epoch


class AttemptClaim(NodeDoor):
    """An attempt wanted on this node."""

    @documented(
        "attempts_claim", "Take the attempt", tag="attempts", body=shapes.EpochRequest, answer=shapes.LaunchShape
    )
    def post(self, request: Request, attempt: str) -> Response:
        """The launch document; the same claim again is answered the same."""
        message = node_message(request)
        return Response(taken(service.claim(self.node, attempt, epoch_of(message), self.now)))


class AttemptReady(NodeDoor):
    """A node whose part of the attempt could start."""

    @documented(
        "attempts_ready", "May the processes start?", tag="attempts", body=shapes.ReadyRequest, answer=shapes.GoShape
    )
    def post(self, request: Request, attempt: str) -> Response:
        """Whether it may: an attempt on several nodes starts when all are ready, and its ranks meet at the address and
        port that come with it. 409 when it isn't this node's any more."""
        message = node_message(request)
        epoch = epoch_of(message)
        answer = service.report(self.node, {**message, "type": "ready", "attempt": attempt}, self.now)
        if not answer["ok"]:
            raise Problem(REFUSALS.get(answer["code"], 422), answer["code"], answer["message"])
        wanted = {(d["attempt"], d["epoch"]): d for d in dispatch.desired(self.node, self.now)}
        item = wanted.get((attempt.lower(), epoch))
        if item is None:
            raise _stale()
        meeting = item.get("go", {})
        return Response({"go": item["action"] == "run" and meeting is not None, **(meeting or {})})


def _stale() -> Problem:
    return Problem(409, "stale_epoch", "the attempt is not live at this epoch on this node")


class AttemptReport(NodeDoor):
    """One report about an attempt; the heartbeat carries the same in batches."""

    kind: ClassVar[str] = ""

    def post(self, request: Request, attempt: str) -> Response:
        """The report was taken; 409 for a stale epoch, and nothing has changed."""
        message = node_message(request)
        epoch_of(message)
        answer = service.report(self.node, {**message, "type": self.kind, "attempt": attempt}, self.now)
        if not answer["ok"]:
            raise Problem(REFUSALS.get(answer["code"], 422), answer["code"], answer["message"])
        return Response(answer)


def _reported(kind: str, about: str) -> Any:
    entry = documented(f"attempts_{kind}", about, tag="attempts", body=shapes.ReportRequest, answer=shapes.AnswerShape)
    return extend_schema_view(post=entry)


@_reported("started", "The processes run: {pid}")
class AttemptStarted(AttemptReport):
    """Its processes run."""

    kind = "started"


@_reported("progress", "How far it is: {step, total, unit, rate?}")
class AttemptProgress(AttemptReport):
    """How far it is."""

    kind = "progress"


@_reported("metric", "A value of a series: {step, name, value}")
class AttemptMetric(AttemptReport):
    """A value of a series."""

    kind = "metric"


@_reported("logs", "A piece of its log: {offset, text}; `next` is the offset wanted next")
class AttemptLogs(AttemptReport):
    """What it wrote."""

    kind = "logs"


@_reported("checkpoint", "A committed checkpoint: {artifact, step}")
class AttemptCheckpoint(AttemptReport):
    """A checkpoint is in the store."""

    kind = "checkpoint"


@_reported("finished", "Its end: {outcome, exit_code, error, artifacts, checkpoint, why, detail}")
class AttemptFinished(AttemptReport):
    """It has ended."""

    kind = "finished"


class AttemptInput(NodeDoor):
    """Bytes that the attempt reads."""

    @documented("attempts_input", "Download an input or the checkpoint to resume from", tag="attempts",
                answer=OpenApiTypes.BINARY, media=BYTES, parameters=(EPOCH, RANGE),
                more={(206, BYTES): OpenApiTypes.BINARY})  # fmt: skip
    def get(self, request: Request, attempt: str, artifact: str, path: str) -> HttpResponseBase:
        """The file or one range of it, while the attempt is live on this node at this epoch."""
        epoch = whole(parameters(request, ("epoch",)), "epoch", default=-1)
        return download(request, _readable(self.node, attempt, epoch, artifact, now=self.now).files, path)


class AttemptInputBundle(NodeDoor):
    """Many small files that the attempt reads."""

    @documented("attempts_inputs", "Download many small files at once", tag="attempts", body=shapes.BundleRequest,
                answer=OpenApiTypes.BINARY, media=BYTES)  # fmt: skip
    def post(self, request: Request, attempt: str, artifact: str) -> HttpResponse:
        """A line of JSON that names each file with its size and sha256, then their bytes one after the other."""
        message = node_message(request)
        found = _readable(self.node, attempt, epoch_of(message), artifact, now=self.now)
        bundle = bundles.send(found.files, message.get("paths"))
        if isinstance(bundle, Refusal):
            raise refused(bundle)
        return HttpResponse(bundle, content_type="application/octet-stream")


def _readable(node: str, attempt: str, epoch: int, artifact: str, *, now: datetime) -> Any:
    """The artifact, while the attempt is live on the node at this epoch and reads it."""
    if not any(d["attempt"] == attempt.lower() and d["epoch"] == epoch for d in dispatch.desired(node, now)):
        raise _stale()
    found = queries.readable_by(UUID(attempt), epoch, node, artifact)
    if found is None:
        raise not_found("input of this attempt")
    return found


class AttemptUploads(NodeDoor):
    """Outputs and checkpoints of the attempt."""

    @documented(
        "attempts_upload",
        "Begin an upload",
        tag="attempts",
        body=shapes.AttemptUploadRequest,
        answer=UploadShape,
        status=201,
    )
    def post(self, request: Request, attempt: str) -> Response:
        """201 with the open upload; a path at its full size needs no bytes."""
        message = node_message(request)
        owner = Owner(node=self.node, attempt=attempt, epoch=epoch_of(message))
        return Response(checked(store.begin(owner, message, self.now)), status=201)


class AttemptUploadFile(NodeDoor):
    """One file of such an upload."""

    @documented("attempts_put", "Send a part of a file", tag="attempts", answer=OffsetShape,
                parameters=(OFFSET, EPOCH, EPOCH_HEADER), body={BYTES: OpenApiTypes.BINARY})  # fmt: skip
    def put(self, request: Request, attempt: str, upload: str, path: str) -> Response:
        """The file has grown by the body; any offset but the number of bytes here is 409 with that number."""
        given = parameters(request, ("offset", "epoch"))
        owner = Owner(node=self.node, attempt=attempt, epoch=_epoch_beside(request, given))
        return send_part(request, owner, upload, path, offset=whole(given, "offset", default=0))


def _epoch_beside(request: Request, given: dict[str, str]) -> int:
    """The epoch of a message whose body is bytes; 422 without it."""
    header = request.headers.get("X-EMEP-Epoch", "")
    epoch = int(header) if re.fullmatch(r"[0-9]{1,18}", header, re.ASCII) else whole(given, "epoch", default=-1)
    if epoch < 0:
        raise Problem(422, "bad_epoch", "send the attempt's epoch as X-EMEP-Epoch or ?epoch=", field="epoch")
    return epoch


class AttemptUploadBundle(NodeDoor):
    """Many small files of such an upload."""

    @documented("attempts_bundle", "Send many small files at once", tag="attempts", answer=shapes.ReceivedShape,
                parameters=(EPOCH, EPOCH_HEADER), body={BYTES: OpenApiTypes.BINARY})  # fmt: skip
    def post(self, request: Request, attempt: str, upload: str) -> Response:
        """All of them are here and have the sha256 they should, or none is: a line of JSON that names each whole file
        with its size and sha256, then their bytes one after the other."""
        owner = Owner(node=self.node, attempt=attempt, epoch=_epoch_beside(request, parameters(request, ("epoch",))))
        content = read(request, most=MAX_HEAD + MAX_BYTES)
        return Response(checked(bundles.receive(owner, upload, content)))


class AttemptUploadCommit(NodeDoor):
    """The end of such an upload."""

    @documented("attempts_commit", "Make an upload an artifact", tag="attempts", body=shapes.AttemptCommitRequest,
                answer=shapes.AttemptArtifact, status=201)  # fmt: skip
    def post(self, request: Request, attempt: str, upload: str) -> Response:
        """Every byte is hashed and compared; the store refuses a stale epoch."""
        message = node_message(request)
        owner = Owner(node=self.node, attempt=attempt, epoch=epoch_of(message))
        return Response(checked(store.commit(owner, upload, message, self.now)), status=201)
