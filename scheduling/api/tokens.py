"""API tokens of the person who asks: listed, made, revoked."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.access import ANY
from scheduling.api.body import json_object
from scheduling.api.door import Door, parameters
from scheduling.api.paging import envelope
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import tokens as shapes
from scheduling.api.shapes.answers import documented, page_of
from scheduling.services import tokens as service
from scheduling.store.queries import access


class TokenList(Door):
    """The person's own tokens."""

    scopes = {"GET": ANY, "POST": ANY}

    @documented("tokens_list", "Your tokens", tag="tokens", answer=page_of("Token", shapes.TokenShape))
    def get(self, request: Request) -> Response:
        """All of them, never a secret."""
        parameters(request, ())
        return Response(envelope(access.tokens_of(self.actor.user_id)))

    @documented(
        "tokens_create", "Make a token", tag="tokens", body=shapes.TokenRequest, answer=shapes.TokenMade, status=201
    )
    def post(self, request: Request) -> Response:
        """201 with the secret, shown this once; it can do no more and lives no longer than the asking credential."""
        body, _ = json_object(request)
        maker = getattr(request.auth, "expiry", None)
        made = service.issue(self.actor, body, self.now, maker_expires=maker)
        if isinstance(made, service.TokenRefused):
            raise Problem(422, made.errors[0]["code"], made.errors[0]["message"], errors=made.errors)
        answer = {"id": made.id, "token": made.token, "name": made.name, "scopes": made.scopes, "expires": made.expires}
        return Response(answer, status=201, headers={"Cache-Control": "no-store"})


class TokenDetail(Door):
    """One of the person's tokens."""

    scopes = {"DELETE": ANY}

    @documented("tokens_revoke", "Revoke a token", tag="tokens", status=204)
    def delete(self, request: Request, token_id: str) -> Response:
        """204: it no longer works."""
        if not service.revoke(self.actor, token_id):
            raise not_found("token")
        return Response(status=204)
