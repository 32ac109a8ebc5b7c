"""API tokens."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class TokenRequest(serializers.Serializer[Any]):
    """A token to be made."""

    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    days = serializers.IntegerField(required=False, help_text="1 to 365, 90 by default.")


class TokenMade(serializers.Serializer[Any]):
    """The new token; its secret is shown this once."""

    id = serializers.CharField()
    token = serializers.CharField()
    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    expires = serializers.DateTimeField()


class TokenShape(serializers.Serializer[Any]):
    """A token without its secret."""

    id = serializers.CharField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    created = serializers.DateTimeField()
    expires = serializers.DateTimeField(allow_null=True)
    last_used = serializers.DateTimeField(allow_null=True)
