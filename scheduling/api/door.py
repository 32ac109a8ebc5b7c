"""What every REST view has in common: JSON in, JSON out, who may, and strict query parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from scheduling.api.access import BearerToken, BrowserSession, HasScope, IsNode, NodeToken, actor_of
from scheduling.api.problems import Problem
from scheduling.services import now
from scheduling.store.queries.access import Actor
from workers.catalog import nearest

OPERATE = "operate_pool"
WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)


class AlwaysJson(BaseContentNegotiation):
    """Whatever a client accepts, the answer is JSON: an error that can't be shown as asked would help nobody."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        """The only one there is."""
        return next(iter(parsers))

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The only one there is."""
        return renderers[0], renderers[0].media_type


class Base(APIView):
    """A view that answers in JSON only."""

    http_method_names = ["get", "head", "post", "put", "delete"]
    renderer_classes = [JSONRenderer]
    content_negotiation_class = AlwaysJson

    @cached_property
    def now(self) -> datetime:
        """The present, asked once a request (D34)."""
        return now()


class Door(Base):
    """A view for people. ``scopes`` names for each method the scope that a token needs."""

    authentication_classes = [BearerToken, BrowserSession]
    permission_classes = [HasScope]
    scopes: ClassVar[dict[str, str]] = {}

    @property
    def actor(self) -> Actor:
        """Who is asking."""
        return actor_of(self.request)


class OperatorDoor(Door):
    """A view in which operators change the pool."""

    def let_operate(self, doing: str) -> None:
        """403 unless the person may operate the pool; it says what is missing, and who can give it."""
        if not self.actor.may_operate:
            message = (
                f"{doing} needs the permission {OPERATE}, which operators have and {self.actor.username} does not: "
                "ask an admin, who can give it at /admin/"
            )
            raise Problem(403, "permission_denied", message, limit=OPERATE, facts={"permission": OPERATE})


class NodeDoor(Base):
    """A view for agents: only the node whose token it is, and only about itself."""

    authentication_classes = [NodeToken]
    permission_classes = [IsNode]

    @property
    def node(self) -> str:
        """The name of the node whose token this is."""
        return str(self.request.auth)


def parameters(request: Request, known: Sequence[str]) -> dict[str, str]:
    """The query parameters, each given once and known; every fault at once, with the nearest name."""
    errors = []
    for name, values in request.GET.lists():
        if name not in known:
            told = f"known are {', '.join(known)}" if known else "none is taken here: remove it"
            message = f"there is no parameter {name[:80]!r}{nearest(name, list(known))}; {told}"
            errors.append(_wrong(name[:80], "unknown_parameter", message, list(known)))
        elif len(values) > 1:
            errors.append(_wrong(name, "given_twice", f"{name} is given {len(values)} times; give it once", 1))
        elif "\x00" in values[0]:
            errors.append(_wrong(name, "bad_character", f"{name} holds a NUL character; remove it"))
    if errors:
        raise Problem(400, errors[0]["code"], errors[0]["message"], errors=errors)
    return {name: values[0] for name, values in request.GET.lists()}


def whole(given: dict[str, str], name: str, *, default: int, least: int = 0, most: int = 2**53) -> int:
    """The whole number of the query parameter within its limits; 400 names them."""
    text = given.get(name, "")
    if text == "":
        return default
    if not WHOLE.fullmatch(text) or not least <= int(text) <= most:
        message = f"{name} must be a whole number from {least} to {most}, not {text[:40]!r}"
        raise Problem(400, "bad_parameter", message, field=name, limit=[least, most])
    return int(text)


def _wrong(field: str, code: str, message: str, limit: Any = None) -> dict[str, Any]:
    return {"field": field, "code": code, "message": message, "limit": limit}
