"""Files, and what a job has made of them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers


class FileShape(serializers.Serializer[Any]):
    """One file of an artifact."""

    path = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()
    unsafe = serializers.CharField(
        allow_null=True, help_text="The format in which the file can run code when it is loaded, by name or content."
    )


class OutputShape(serializers.Serializer[Any]):
    """An artifact that the job made."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField(help_text="Of the canonical manifest.")
    files = FileShape(many=True)
    deleted = serializers.BooleanField(help_text="Its files are gone, or will be.")
