"""What has this job written, on each of its nodes?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, JsonResponse, StreamingHttpResponse

from scheduling.store.queries import changes
from scheduling.store.queries import jobs as queries
from scheduling.store.queries.access import Actor
from scheduling.web.access import signed_in

LOG_TAIL = 64 * 1024


def known_job(actor: Actor, job_id: UUID) -> Any:
    """The job's row; 404 when the actor may not know of it."""
    row = queries.one(actor, str(job_id))
    if row is None:
        raise Http404("there is no such job in your projects")
    return row


def tail_of(row: Any, runs: Sequence[Mapping[str, Any]], wanted: Mapping[str, str]) -> dict[str, Any]:
    """The newest part of a run's log on one node, and on which nodes there are others.

    ``runs``: the job's attempts, first to last. ``wanted``: the ``attempt`` by its number (the newest by default, then
    ``chosen`` is empty) and the ``node`` by its name (that of rank 0). 404 for one that is not there.
    """
    chosen, node = wanted.get("attempt", ""), wanted.get("node", "")
    known = [each for each in runs if not chosen or str(each["number"]) == chosen]
    run = known[-1] if known else None
    if chosen and run is None:
        raise Http404("this job has no such attempt")
    names = [part["node"] for part in run["nodes"]] if run else []
    if node and node not in names:
        raise Http404("that node has no part in this run of the job")
    rank, number = names.index(node) if node else 0, run["number"] if run else None
    end = queries.log_end(row, rank, attempt=number)
    piece = queries.log(row, attempt=number, rank=rank, offset=max(0, end - LOG_TAIL))
    others = names if len(names) > 1 else []
    shown = names[rank] if others else ""
    return {**piece, "cut": end > LOG_TAIL, "node": shown, "nodes": others, "chosen": chosen}


@signed_in
def log(request: HttpRequest, actor: Actor, job_id: UUID) -> JsonResponse:
    """The log of an attempt from a byte offset, as REST gives it."""
    row, wanted = known_job(actor, job_id), _number(request, "attempt")
    rank = _rank(row, wanted, request)
    return JsonResponse(queries.log(row, attempt=wanted, rank=rank, offset=_number(request, "offset") or 0))


@signed_in
def log_file(request: HttpRequest, actor: Actor, job_id: UUID) -> StreamingHttpResponse:
    """The whole log of an attempt on one node, as a download."""
    row, wanted, node = known_job(actor, job_id), _number(request, "attempt"), request.GET.get("node", "")
    pieces = _pieces(row, wanted, _rank(row, wanted, request))
    response = StreamingHttpResponse(pieces, content_type="text/plain; charset=utf-8")
    name = ".".join(str(part) for part in (job_id, wanted or "log", node) if part)
    response["Content-Disposition"] = f'attachment; filename="{name}.txt"'
    return response


def _rank(row: Any, attempt: int | None, request: HttpRequest) -> int:
    node = request.GET.get("node", "")
    rank = changes.rank_of(row.pk, attempt, node) if node else 0
    if rank is None:
        raise Http404("that node has no part in this run of the job")
    return rank


def _pieces(row: Any, attempt: int | None, rank: int) -> Iterator[str]:
    offset = 0
    while True:
        piece = queries.log(row, attempt=attempt, rank=rank, offset=offset)
        if piece["next"] == offset:
            return
        yield piece["text"]
        offset = piece["next"]


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
