"""Artifacts and uploads."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.api.shapes.files import FileShape


class DeletionShape(serializers.Serializer[Any]):
    """That an artifact was deleted. Its record stays; its bytes are removed after a while."""

    at = serializers.DateTimeField()
    by = serializers.CharField()
    why = serializers.CharField()


class AlsoShape(serializers.Serializer[Any]):
    """Another name of an artifact: equal bytes are one artifact of a project, whoever made or uploaded them."""

    name = serializers.CharField()
    job = serializers.UUIDField(allow_null=True, help_text="The job whose output it is; null for an upload.")
    user = serializers.CharField(allow_null=True)


class ArtifactShape(serializers.Serializer[Any]):
    """A set of files known by the digest of their manifest."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    also = AlsoShape(many=True)
    kind = serializers.CharField()
    project = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField(help_text="Of the canonical manifest.")
    digest = serializers.CharField()
    files = FileShape(many=True)
    meta = serializers.JSONField()
    created_at = serializers.DateTimeField()
    user = serializers.CharField(allow_null=True)
    job = serializers.UUIDField(allow_null=True)
    verified_at = serializers.DateTimeField(allow_null=True)
    corrupt = serializers.BooleanField()
    deleted = DeletionShape(allow_null=True)


class AnnouncedFile(serializers.Serializer[Any]):
    """A file that will be sent; with its sha256 here, bytes that are known already need not be."""

    path = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField(required=False)


class UploadRequest(serializers.Serializer[Any]):
    """An artifact that will be sent."""

    name = serializers.CharField()
    kind = serializers.CharField(required=False)
    project = serializers.CharField()
    meta = serializers.JSONField(required=False)
    files = AnnouncedFile(many=True)


class UploadShape(serializers.Serializer[Any]):
    """An open upload and how many bytes of each file are here."""

    upload = serializers.UUIDField()
    have = serializers.DictField(child=serializers.IntegerField())


class OffsetShape(serializers.Serializer[Any]):
    """Where to go on."""

    offset = serializers.IntegerField()


class CommitRequest(serializers.Serializer[Any]):
    """The sha256 of each file, by path; may be left out for those announced with one."""

    sha256 = serializers.DictField(child=serializers.CharField(), required=False)


class CodeShape(serializers.Serializer[Any]):
    """With which code an artifact was made, as far as its job told it."""

    agent_version = serializers.CharField(allow_null=True)
    engine_version = serializers.CharField(allow_null=True)
    device_class = serializers.CharField(allow_null=True)


class MadeByShape(serializers.Serializer[Any]):
    """The job that made an artifact."""

    job = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField()
    output = serializers.CharField(help_text="What it is called as the output of this job.")
    recipe = serializers.JSONField(help_text="What was done; where nothing else was told, the job's parameters.")
    derivation_key = serializers.CharField(
        allow_null=True, help_text="Equal for equal recipes, models, engine version and class of device."
    )
    attempt = serializers.IntegerField(allow_null=True, help_text="The number of the attempt.")
    code = CodeShape()


class LineageNode(serializers.Serializer[Any]):
    """The artifact itself, an ancestor or a descendant."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    also = AlsoShape(many=True)
    kind = serializers.CharField()
    project = serializers.CharField()
    size = serializers.IntegerField()
    sha256 = serializers.CharField()
    job = serializers.UUIDField(allow_null=True)
    user = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    meta = serializers.JSONField()
    corrupt = serializers.BooleanField()
    deleted = DeletionShape(allow_null=True)
    generation = serializers.IntegerField(help_text="Below 0: an ancestor; above: a descendant.")
    made_by = MadeByShape(allow_null=True, help_text="Null for what was uploaded or imported.")
    also_made_by = MadeByShape(many=True, help_text="The other jobs that came to the same bytes.")


class LineageEdge(serializers.Serializer[Any]):
    """`child` was made from `parent`."""

    parent = serializers.UUIDField()  # type: ignore[assignment]
    child = serializers.UUIDField()
    role = serializers.CharField()


class LineageShape(serializers.Serializer[Any]):
    """What an artifact was made from, and what was made from it."""

    artifact = serializers.UUIDField()
    nodes = LineageNode(many=True)
    edges = LineageEdge(many=True)
    hidden = serializers.IntegerField(help_text="So many next to these belong to projects that you may not know of.")
    cut = serializers.BooleanField(help_text="There is more, further away than the depth or than there is room for.")
