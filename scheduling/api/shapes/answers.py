"""Problems and lists, and how an endpoint is documented."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers

PROBLEM = "application/problem+json"
BYTES = "application/octet-stream"


class FieldProblem(serializers.Serializer[Any]):
    """One thing wrong with a request."""

    field = serializers.CharField(help_text="Where: the path of the field, empty for the request as a whole.")
    code = serializers.CharField()
    message = serializers.CharField(help_text="What is wrong, what would be accepted, what to do.")
    limit = serializers.JSONField(required=False, help_text="The largest value, the bounds, or the accepted names.")
    limits = serializers.JSONField(
        required=False,
        help_text="Fields and what to set them to, all together, for this one to be taken as it is; null: left out.",
    )
    key = serializers.CharField(required=False, help_text="Of the job of a pipeline, where it is about one.")


class ProblemShape(serializers.Serializer[Any]):
    """An RFC 9457 problem document. Some codes carry more members, such as `state`, `offset` or `job`."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    errors = FieldProblem(many=True)  # type: ignore[assignment]


def page_of(name: str, row: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """The shape of a list of ``row``."""
    return inline_serializer(
        name=f"{name}List",
        fields={
            "next": serializers.CharField(allow_null=True, help_text="The address of the next page."),
            "previous": serializers.CharField(allow_null=True),
            "results": row(many=True),
        },
    )


def query(
    name: str,
    about: str,
    kind: Any = OpenApiTypes.STR,
    *,
    where: Literal["query", "header"] = "query",
    required: bool = False,
) -> OpenApiParameter:
    """A parameter of an endpoint."""
    return OpenApiParameter(name, kind, where, required=required, description=about)


PAGING = (
    query("cursor", "From `next` or `previous` of an earlier page."),
    query("limit", "Rows a page, 1 to 200.", OpenApiTypes.INT),
)


def documented(
    operation: str,
    summary: str,
    *,
    tag: str,
    answer: Any = None,
    status: int = 200,
    body: Any = None,
    parameters: Sequence[OpenApiParameter] = (),
    media: str = "application/json",
    more: dict[Any, Any] | None = None,
    examples: Mapping[str, Any] | None = None,
) -> Callable[[Any], Any]:
    """The endpoint's entry in OpenAPI, with problem documents as its errors. ``examples``: bodies by what they are."""
    return extend_schema(
        operation_id=operation,
        summary=summary,
        tags=[tag],
        request=body,
        parameters=list(parameters),
        examples=[OpenApiExample(name, value=sent, request_only=True) for name, sent in (examples or {}).items()],
        responses={
            **({status: None} if answer is None else {(status, media): answer}),
            **(more or {}),
            ("4XX", PROBLEM): ProblemShape,
            ("5XX", PROBLEM): ProblemShape,
        },
    )
