"""Windows over REST: everyone may see when nodes are closed, operators close and open them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.body import json_object
from scheduling.api.door import OperatorDoor, parameters
from scheduling.api.paging import envelope
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import pool as shapes
from scheduling.api.shapes.answers import documented, page_of
from scheduling.services import windows as service
from scheduling.store.queries import windows as queries


class WindowList(OperatorDoor):
    """All windows that have not ended, and new ones."""

    scopes = {"GET": "pool:read", "POST": "pool:operate"}

    @documented(
        "windows_list", "Times in which nodes are closed", tag="pool", answer=page_of("Window", shapes.WindowShape)
    )
    def get(self, request: Request) -> Response:
        """The windows that have not ended, by their start."""
        parameters(request, ())
        return Response(envelope(queries.windows(self.actor, self.now)))

    @documented(
        "windows_create", "Close nodes for a time: maintenance, or a reservation for a project", tag="pool",
        body=shapes.WindowRequest, answer=shapes.WindowShape, status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """201 with the window; 422 with every fault at once."""
        self.let_operate("closing nodes")
        body, _ = json_object(request)
        made = service.add(body, self.actor, self.now)
        if not isinstance(made, int):
            raise Problem(422, made[0]["code"], made[0]["message"], errors=made)
        return Response(queries.window(made, self.actor), status=201)


class WindowDetail(OperatorDoor):
    """One window."""

    scopes = {"DELETE": "pool:operate"}

    @documented("windows_delete", "Open the nodes again", tag="pool", status=204)
    def delete(self, request: Request, window: int) -> Response:
        """204: the window is gone."""
        self.let_operate("opening closed nodes")
        if not service.remove(window, self.actor, self.now):
            raise not_found("window")
        return Response(status=204)
