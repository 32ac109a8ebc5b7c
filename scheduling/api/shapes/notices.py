"""Webhooks, what was sent to them, and what a person is told by e-mail."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.core.notices import KINDS, OF

EVENTS = f"Any of {', '.join(KINDS)}."
WHOSE = "own: your jobs; projects: all jobs of your projects."


class WebhookRequest(serializers.Serializer[Any]):
    """A webhook to be made, or what is to be changed of one."""

    name = serializers.CharField(help_text="1 to 80 characters: who is told.")
    url = serializers.CharField(help_text="An https address in the Internet, unless the operator allows more.")
    events = serializers.ListField(child=serializers.ChoiceField(KINDS), help_text=EVENTS)
    of = serializers.ChoiceField(OF, required=False, help_text=WHOSE)
    active = serializers.BooleanField(required=False, help_text="false: nothing is sent; true: from now on again.")


class WebhookShape(serializers.Serializer[Any]):
    """A webhook without its secret."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    url = serializers.CharField()
    events = serializers.ListField(child=serializers.ChoiceField(KINDS))
    of = serializers.ChoiceField(OF)
    active = serializers.BooleanField()
    off_at = serializers.DateTimeField(allow_null=True)
    off_why = serializers.CharField(help_text="Why nothing is sent to it; empty while it is active.")
    failures = serializers.IntegerField(help_text="Tries in a row that did not get through.")
    created = serializers.DateTimeField()


class WebhookMade(WebhookShape):
    """The new webhook; its secret is shown this once."""

    secret = serializers.CharField()


class WebhookSecret(serializers.Serializer[Any]):
    """The new secret, shown this once."""

    id = serializers.UUIDField()
    secret = serializers.CharField()


class TryShape(serializers.Serializer[Any]):
    """One try to send a message."""

    at = serializers.DateTimeField()
    status = serializers.IntegerField(allow_null=True, help_text="Of HTTP, or of the mail server.")
    ms = serializers.IntegerField(allow_null=True, help_text="How long it took, in milliseconds.")
    answer = serializers.CharField(help_text="Its first 200 characters; never of an address inside a network.")
    error = serializers.CharField(help_text="Why it did not get through; empty when it did.")


class DeliveryShape(serializers.Serializer[Any]):
    """One message, with every try to send it."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField(("WAITING", "SENT", "FAILED", "DROPPED"))
    test = serializers.BooleanField()
    events = serializers.IntegerField(help_text="How many events it tells.")
    created = serializers.DateTimeField()
    due = serializers.DateTimeField(allow_null=True, help_text="When it is tried next.")
    ended = serializers.DateTimeField(allow_null=True)
    tries = TryShape(many=True)


class Queued(serializers.Serializer[Any]):
    """It is sent in a moment."""

    delivery = serializers.UUIDField()


class ChoicesRequest(serializers.Serializer[Any]):
    """What is to be changed of one's choices."""

    events = serializers.ListField(child=serializers.ChoiceField(KINDS), required=False, help_text=EVENTS)
    of = serializers.ChoiceField(OF, required=False, help_text=WHOSE)
    long_wait_minutes = serializers.IntegerField(required=False, help_text="1 to 43200: from when a wait is long.")


class ChoicesShape(serializers.Serializer[Any]):
    """What a person is told by e-mail; ``long_wait_minutes`` is of their webhooks too."""

    address = serializers.CharField(help_text="Where e-mail goes; an admin enters it.")
    events = serializers.ListField(child=serializers.ChoiceField(KINDS))
    of = serializers.ChoiceField(OF)
    long_wait_minutes = serializers.IntegerField()
    why_none = serializers.CharField(help_text="Why no e-mail is sent; empty when it is.")
