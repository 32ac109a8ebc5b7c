"""What would a change have done to the last days? Replays asked for, watched, cancelled."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.body import json_object, unusable
from scheduling.api.door import Door, parameters
from scheduling.api.paging import envelope
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import whatif as shapes
from scheduling.api.shapes.answers import documented, page_of
from scheduling.services import whatif_runs, whatif_shown


class WhatIfList(Door):
    """One's replays, and new ones."""

    scopes = {"GET": "pool:read", "POST": "jobs:submit"}

    @documented(
        "what_if_list", "Your newest 50 replays of recent history (an admin's: everybody's)", tag="pool",
        answer=page_of("WhatIf", shapes.WhatIfShape),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The replays, the newest first, without their results."""
        parameters(request, ())
        return Response(envelope(whatif_shown.many(self.actor)))

    @documented(
        "what_if_create", "Play the last days again with a change; a worker does it", tag="pool",
        body=shapes.WhatIfRequest, answer=shapes.WhatIfWholeShape, status=202,
        examples={
            "Weights": {"days": 7, "policy": {"project_weights": {"alpha": 3}}},
            "Nodes": {"add_nodes": [{"count": 2, "gpus": 8, "memory": "80GB", "nvlink": 8}], "remove_nodes": ["n1"]},
            "Who may preempt whom": {"policy": {"preemption": []}},
        },
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """202 with the replay, which waits for a worker; 422 with every fault at once, 409 while too many go."""
        body, _ = json_object(request)
        made = whatif_runs.ask(body, self.actor, self.now, unusable(body))
        if isinstance(made, whatif_runs.Unplayable):
            raise Problem(422, made.errors[0]["code"], made.errors[0]["message"], errors=made.errors)
        if isinstance(made, whatif_runs.TooMany):
            raise Problem(409, "too_many_replays", made.message, limit=made.limit)
        return Response(whatif_shown.one(made, self.actor), status=202)


class WhatIfDetail(Door):
    """One replay."""

    scopes = {"GET": "pool:read"}

    @documented("what_if_get", "A replay with its result", tag="pool", answer=shapes.WhatIfWholeShape)
    def get(self, request: Request, run: str) -> Response:
        """The replay; its result is null until it is done."""
        parameters(request, ())
        return Response(_found(run, self))


class WhatIfCancel(Door):
    """Stops one."""

    scopes = {"POST": "jobs:submit"}

    @documented("what_if_cancel", "Stop a replay", tag="pool", answer=shapes.WhatIfWholeShape)
    def post(self, request: Request, run: str) -> Response:
        """The replay, which stops within seconds; one that is over stays as it is."""
        json_object(request, optional=True)
        whatif_runs.cancel(UUID(_found(run, self)["id"]), self.actor, self.now)
        return Response(_found(run, self))


def _found(run: str, door: Door) -> dict[str, str]:
    found = whatif_shown.one(_uuid(run), door.actor)
    if found is None:
        raise not_found("replay")
    return found


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as none:
        raise not_found("replay") from none
