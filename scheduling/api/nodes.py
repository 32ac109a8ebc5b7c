"""What agents call about their node: register, heartbeat, the bell for nodes without the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api import waiting
from scheduling.api.body import node_message
from scheduling.api.door import NodeDoor, parameters, whole
from scheduling.api.problems import Problem
from scheduling.api.shapes import nodes as shapes
from scheduling.api.shapes.answers import documented, query
from scheduling.services import pool as service
from scheduling.services.pool import NodeRefused
from scheduling.store.queries import changes

BELL_S = 25


def taken(result: dict[str, Any] | NodeRefused) -> dict[str, Any]:
    """The service's answer, or its refusal as a problem."""
    if isinstance(result, NodeRefused):
        raise Problem(result.status, result.code, result.message)
    return result


class NodeRegister(NodeDoor):
    """A node that has started."""

    @documented(
        "nodes_register", "Register this node", tag="nodes", body=shapes.RegisterRequest, answer=shapes.RegisteredShape
    )
    def post(self, request: Request) -> Response:
        """The node is in the pool; what to keep and kill, and the timings."""
        return Response(taken(service.register(self.node, node_message(request), self.now)))


class NodeHeartbeat(NodeDoor):
    """A node that is alive."""

    @documented(
        "nodes_heartbeat",
        "Health, held attempts, reports",
        tag="nodes",
        body=shapes.HeartbeatRequest,
        answer=shapes.HeartbeatShape,
    )
    def post(self, request: Request) -> Response:
        """The lease is renewed; the whole desired set and an answer to each report."""
        return Response(taken(service.heartbeat(self.node, node_message(request), self.now)))


class NodeBell(NodeDoor):
    """The doorbell, for a node that may not reach the broker."""

    @documented("nodes_bell", "Wait for news", tag="nodes", answer=shapes.BellShape,
                parameters=(query("since", "The number of the last answer.", OpenApiTypes.INT),
                            query("timeout", "Seconds, at most 25.", OpenApiTypes.INT)))  # fmt: skip
    def get(self, request: Request) -> Response:
        """Whether something concerns the node since then."""
        given = parameters(request, ("since", "timeout"))
        whole(given, "timeout", default=BELL_S)
        since, look = changes.news(self.node, whole(given, "since", default=0))
        return Response({"since": since, "look": look})


async def bell(request: HttpRequest) -> HttpResponse:
    """``GET /nodes/bell/``: NodeBell, repeated until there is news or the time is up."""

    def enough(answer: Mapping[str, Any]) -> bool:
        return bool(answer["look"])

    return await waiting.answer_when(
        lambda: _bell(request),
        enough,
        listens_for=lambda what, key: what in ("job", "node"),
        seconds=lambda: min(BELL_S, whole(request.GET.dict(), "timeout", default=BELL_S)),
    )


_bell = NodeBell.as_view()
waiting.as_route(bell, NodeBell)
