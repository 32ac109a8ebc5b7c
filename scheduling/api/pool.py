"""The pool and the queues, as the board shows them; and what operators do to nodes."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.body import json_object, only
from scheduling.api.door import Door, OperatorDoor, parameters
from scheduling.api.paging import envelope
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import pool as shapes
from scheduling.api.shapes.answers import documented, page_of
from scheduling.services import health
from scheduling.services import pool as service
from scheduling.store.queries import pool as queries


class Reading(Door):
    """What every member may see of the pool."""

    scopes = {"GET": "pool:read"}


class QueueList(Reading):
    """The queues."""

    @documented(
        "queues_list", "Queues with what waits and runs", tag="pool", answer=page_of("Queue", shapes.QueueShape)
    )
    def get(self, request: Request) -> Response:
        """All queues, in their order."""
        parameters(request, ())
        return Response(envelope(queries.queues(self.now)))


class Pool(Reading):
    """The pool as a whole."""

    @documented("pool_retrieve", "Nodes, GPUs and who holds them", tag="pool", answer=shapes.PoolShape)
    def get(self, request: Request) -> Response:
        """One sentence, the scheduler's last tick, and every node."""
        parameters(request, ())
        nodes, tick = queries.pool(self.actor), queries.scheduler(self.now)
        said = queries.headline(nodes, queries.queues(self.now), tick, self.now)
        return Response({"headline": said, "scheduler": tick, "nodes": nodes})


class NodeDetail(Reading):
    """One node."""

    @documented("pool_node", "One node with its GPUs and events", tag="pool", answer=shapes.NodeDetailShape)
    def get(self, request: Request, name: str) -> Response:
        """The node, or 404."""
        parameters(request, ())
        nodes = queries.pool(self.actor, [name])
        if not nodes:
            raise not_found("node")
        return Response({**nodes[0], "events": queries.node_events(name)})


class GpuDetail(Reading):
    """One GPU."""

    @documented("pool_gpu", "One GPU", tag="pool", answer=shapes.GpuDetailShape)
    def get(self, request: Request, uuid: str) -> Response:
        """The GPU, or 404."""
        parameters(request, ())
        gpu = queries.gpu(uuid, self.actor)
        if gpu is None:
            raise not_found("GPU")
        return Response(gpu)


class GpuVerb(OperatorDoor):
    """Something an operator does to a GPU: twice is the same as once."""

    scopes = {"POST": "pool:operate"}
    verb: ClassVar[str] = ""

    def post(self, request: Request, uuid: str) -> Response:
        """The GPU's state after the verb; 409 while a job is in the way."""
        self.let_operate(f"to {self.verb} a GPU")
        result = health.operate(uuid, self.verb, self.actor, self.now)
        if result is None:
            raise not_found("GPU")
        lawful, state = result
        if not lawful:
            raise Problem(
                409, "gpu_busy", f"a job holds this GPU: wait for its end, or cancel it, then {self.verb} the GPU",
                facts={"state": state},
            )  # fmt: skip
        return Response({"uuid": uuid, "state": state})


@extend_schema_view(
    post=documented("pool_gpu_return", "Return a GPU to service", tag="pool", answer=shapes.OperatedGpuShape)
)
class GpuReturn(GpuVerb):
    """Back in service as soon as it has passed its test and three clean checks."""

    verb = "return"


@extend_schema_view(
    post=documented("pool_gpu_retire", "Take a GPU out of the pool", tag="pool", answer=shapes.OperatedGpuShape)
)
class GpuRetire(GpuVerb):
    """It counts as installed no more."""

    verb = "retire"


class SilenceConfirm(OperatorDoor):
    """The end of the guard over many silent nodes."""

    scopes = {"POST": "pool:operate"}

    @documented(
        "pool_silence_confirm", "Say that the many silent nodes are gone", tag="pool", answer=shapes.SilentShape
    )
    def post(self, request: Request) -> Response:
        """Their work is taken back as their leases end; 409 while there is no such alarm."""
        self.let_operate("to confirm that nodes are gone")
        only(json_object(request, optional=True)[0], ())
        silent = service.confirm_silence(self.actor, self.now)
        if silent is None:
            raise Problem(409, "no_mass_silence", "there is no alarm of many silent nodes, so nothing to confirm")
        return Response({"nodes": silent})


class NodeVerb(OperatorDoor):
    """Something an operator does to a node: twice is the same as once."""

    scopes = {"POST": "pool:operate"}
    verb: ClassVar[str] = ""
    takes: ClassVar[tuple[str, ...]] = ()

    def post(self, request: Request, name: str) -> Response:
        """The node's state after the verb; 409 in a state where it makes no sense."""
        self.let_operate(f"to {self.verb} a node")
        result = service.operate(name, self.verb, self.actor, self.now, **self.given(request))
        if result is None:
            raise not_found("node")
        lawful, state = result
        if not lawful:
            raise Problem(
                409, "wrong_state", f"{self.verb} makes no sense for a node that is {state}", facts={"state": state}
            )
        (node,) = queries.pool(self.actor, [name]) or [{"why": None, "drain_by": None}]
        return Response({"name": name, "state": state, "why": node["why"], "drain_by": node["drain_by"]})

    def given(self, request: Request) -> dict[str, Any]:
        """What the body says beside the verb: a reason, and of a drain its deadline in seconds from now."""
        body, _ = json_object(request, optional=True)
        only(body, self.takes)
        try:
            said = {"reason": service.reason_of(body.get("reason"))}
        except ValueError as wrong:
            raise Problem(422, "bad_reason", str(wrong), field="reason", limit=service.REASON_MAX) from wrong
        if "deadline" not in self.takes:
            return said
        try:
            return {**said, "deadline_s": service.deadline_s(body.get("deadline"))}
        except ValueError as wrong:
            raise Problem(
                422, "bad_deadline", str(wrong), field="deadline", limit=[1, service.DEADLINE_MAX_S]
            ) from wrong


@extend_schema_view(
    post=documented(
        "pool_cordon", "No new work for a node", tag="pool", body=shapes.CordonRequest, answer=shapes.OperatedShape
    )
)
class NodeCordon(NodeVerb):
    """No new work for the node."""

    verb = "cordon"
    takes = ("reason",)


@extend_schema_view(
    post=documented("pool_drain", "Empty a node", tag="pool", body=shapes.DrainRequest, answer=shapes.OperatedShape)
)
class NodeDrain(NodeVerb):
    """No new work; what runs goes on to its end, or until a deadline."""

    verb = "drain"
    takes = ("deadline", "reason")


@extend_schema_view(post=documented("pool_return", "Return a node to service", tag="pool", answer=shapes.OperatedShape))
class NodeReturn(NodeVerb):
    """Back in service."""

    verb = "return"
