"""Webhooks and notices of the person who asks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.body import json_object
from scheduling.api.door import Door, parameters
from scheduling.api.paging import PARAMETERS, envelope, listed
from scheduling.api.problems import Problem, not_found
from scheduling.api.shapes import notices as shapes
from scheduling.api.shapes.answers import PAGING, documented, page_of
from scheduling.services import notice_choices, webhooks
from scheduling.store.queries import notices as queries

# Whoever holds a secret once may be told for as long as the webhook is there: a scope of its own, beyond reading.
READ, WRITE = "jobs:read", "webhooks:write"
ONCE = {"Cache-Control": "no-store"}


def _key(text: str, what: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as wrong:
        raise not_found(what) from wrong


def _refused(errors: tuple[dict[str, Any], ...]) -> Problem:
    return Problem(422, errors[0]["code"], errors[0]["message"], errors=errors)


class WebhookDoor(Door):
    """What the views of one webhook have in common."""

    def shown(self, webhook: UUID) -> dict[str, Any]:
        """The webhook as it is now; 404 where the person has none such."""
        found = queries.webhook(self.actor.user_id, webhook)
        if found is None:
            raise not_found("webhook")
        return found

    def queued(self, made: UUID | bool | webhooks.NotNow | None, delivery: UUID | None = None) -> Response:
        """202 with the delivery; 404 or 409 where there is nothing to send."""
        if made is None:
            raise not_found("webhook or delivery")
        if isinstance(made, webhooks.NotNow):
            raise Problem(429 if made.code == "too_many_tests" else 409, made.code, made.message)
        return Response({"delivery": str(delivery or made)}, status=202)


class WebhookList(WebhookDoor):
    """The person's webhooks."""

    scopes = {"GET": READ, "POST": WRITE}

    @documented("webhooks_list", "Your webhooks", tag="notices", answer=page_of("Webhook", shapes.WebhookShape))
    def get(self, request: Request) -> Response:
        """All of them, never a secret."""
        parameters(request, ())
        return Response(envelope(queries.webhooks(self.actor.user_id)))

    @documented(
        "webhooks_create", "Be told by POST", tag="notices", body=shapes.WebhookRequest, answer=shapes.WebhookMade,
        status=201,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """201 with the secret that every POST is signed with, shown this once; 422 with every fault."""
        body, _ = json_object(request)
        made = webhooks.add(self.actor, body, self.now)
        if not isinstance(made, webhooks.Secret):
            raise _refused(made)
        return Response({**self.shown(UUID(made.webhook)), "secret": made.secret}, status=201, headers=ONCE)


class WebhookDetail(WebhookDoor):
    """One webhook."""

    scopes = {"GET": READ, "PUT": WRITE, "DELETE": WRITE}

    @documented("webhooks_get", "A webhook", tag="notices", answer=shapes.WebhookShape)
    def get(self, request: Request, webhook_id: str) -> Response:
        """The webhook, never its secret."""
        parameters(request, ())
        return Response(self.shown(_key(webhook_id, "webhook")))

    @documented(
        "webhooks_change", "Change a webhook", tag="notices", body=shapes.WebhookRequest, answer=shapes.WebhookShape
    )
    def put(self, request: Request, webhook_id: str) -> Response:
        """The webhook as it is now. What is left out stays; `active: true` switches it on again."""
        key = _key(webhook_id, "webhook")
        body, _ = json_object(request)
        changed = webhooks.change(self.actor, key, body, self.now)
        if isinstance(changed, tuple):
            raise _refused(changed)
        return Response(self.shown(key))

    @documented("webhooks_delete", "Remove a webhook", tag="notices", status=204)
    def delete(self, request: Request, webhook_id: str) -> Response:
        """204: nothing more is sent to it, and its log is gone."""
        if not webhooks.remove(self.actor, _key(webhook_id, "webhook")):
            raise not_found("webhook")
        return Response(status=204)


class WebhookSecret(WebhookDoor):
    """A webhook's secret."""

    scopes = {"POST": WRITE}

    @documented("webhooks_secret", "A new secret for a webhook", tag="notices", answer=shapes.WebhookSecret, status=201)
    def post(self, request: Request, webhook_id: str) -> Response:
        """201 with the new secret, shown this once; the old one signs nothing any more."""
        made = webhooks.renew_secret(self.actor, _key(webhook_id, "webhook"))
        if made is None:
            raise not_found("webhook")
        return Response({"id": made.webhook, "secret": made.secret}, status=201, headers=ONCE)


class WebhookTest(WebhookDoor):
    """A test of a webhook."""

    scopes = {"POST": WRITE}

    @documented("webhooks_test", "Send a test to a webhook", tag="notices", answer=shapes.Queued, status=202)
    def post(self, request: Request, webhook_id: str) -> Response:
        """202: an event of type `test` is sent in a moment, as every message is; at most five a minute."""
        return self.queued(webhooks.test(self.actor, _key(webhook_id, "webhook"), self.now))


class WebhookDeliveries(WebhookDoor):
    """What was sent to a webhook."""

    scopes = {"GET": READ}

    @documented(
        "webhooks_deliveries", "What was sent to a webhook", tag="notices", parameters=PAGING,
        answer=page_of("Delivery", shapes.DeliveryShape),
    )  # fmt: skip
    def get(self, request: Request, webhook_id: str) -> Response:
        """The newest first, each with every try."""
        given = parameters(request, PARAMETERS)
        key = UUID(self.shown(_key(webhook_id, "webhook"))["id"])
        return Response(listed(request, given, queries.deliveries(key), by="created_at", shown=queries.delivered))


class WebhookRedeliver(WebhookDoor):
    """A delivery once more."""

    scopes = {"POST": WRITE}

    @documented("webhooks_redeliver", "Send a delivery again", tag="notices", answer=shapes.Queued, status=202)
    def post(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        """202: the same events with the same ids are sent in a moment; 409 while it is still being tried."""
        delivery = _key(delivery_id, "delivery")
        made = webhooks.redeliver(self.actor, _key(webhook_id, "webhook"), delivery, self.now)
        return self.queued(made, delivery)


class Notices(Door):
    """What the person is told by e-mail."""

    scopes = {"GET": READ, "PUT": WRITE}

    @documented("notices_get", "What you are told by e-mail", tag="notices", answer=shapes.ChoicesShape)
    def get(self, request: Request) -> Response:
        """The choices; nothing is told unasked."""
        parameters(request, ())
        return Response(notice_choices.chosen(self.actor))

    @documented(
        "notices_change", "Choose what you are told by e-mail", tag="notices", body=shapes.ChoicesRequest,
        answer=shapes.ChoicesShape,
    )  # fmt: skip
    def put(self, request: Request) -> Response:
        """The choices as they are now. What is left out stays; `events: []` stops all e-mail."""
        body, _ = json_object(request)
        wrong = notice_choices.choose(self.actor, body, self.now)
        if wrong:
            raise _refused(wrong)
        return Response(notice_choices.chosen(self.actor))


class NoticeTest(Door):
    """A test e-mail."""

    scopes = {"POST": WRITE}

    @documented("notices_test", "Send yourself a test e-mail", tag="notices", answer=shapes.Queued, status=202)
    def post(self, request: Request) -> Response:
        """202: it is sent in a moment; 409 says why no e-mail reaches you."""
        made = notice_choices.test(self.actor, self.now)
        if isinstance(made, tuple):
            raise Problem(429 if made[0] == "too_many_tests" else 409, *made)
        return Response({"delivery": str(made)}, status=202)
