"""Every error as ``application/problem+json`` (RFC 9457), whoever raised it: a view, DRF, Django, the database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from django.core.exceptions import DisallowedHost, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.template.loader import render_to_string
from django.urls import Resolver404, resolve
from django.views import defaults
from rest_framework import exceptions

from scheduling.services.artifact_files import StoreAway

API = "/api/"
RETRY_AFTER_S = 2
UNKNOWN_HOST = (
    "this server does not go by the name that it was asked by; use its own address, or let whoever runs it set "
    "EMEP_URL to that name's, or add the name to EMEP_ALLOWED_HOSTS"
)
NOT_ALLOWED = "this needs a permission that you don't have; ask an admin, who can give it at /admin/"


class Problem(exceptions.APIException):
    """A refusal on its way out of a view. ``facts`` are members beside the standard ones, such as ``offset``."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str = "",
        limit: Any = None,
        errors: Iterable[Mapping[str, Any]] = (),
        facts: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail, code)
        self.status_code = status
        self.code = code
        self.sentence = detail
        self.errors = list(errors) or [{"field": field, "code": code, "message": detail, "limit": limit}]
        self.facts = dict(facts or {})
        self.headers = dict(headers or {})


def document(problem: Problem) -> HttpResponse:
    """The response that tells the problem: type, title, status, code, detail, every error, and the facts."""
    body = {
        "type": f"urn:emep:problem:{problem.code}",
        "title": HTTPStatus(problem.status_code).phrase,
        "status": problem.status_code,
        "code": problem.code,
        "detail": problem.sentence,
        "errors": [{k: v for k, v in e.items() if k != "limit" or v is not None} for e in problem.errors],
        **problem.facts,
    }
    # ASCII on the wire: no character that somebody sent can break the answer.
    return HttpResponse(
        json.dumps(body, default=str),
        status=problem.status_code,
        content_type="application/problem+json",
        headers=problem.headers,
    )


def not_found(what: str) -> Problem:
    """404 for what is not there and for what the asker may not know of: in the same words."""
    return Problem(404, "not_found", f"there is no such {what}, or it is not yours to see")


def handle(exc: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """DRF's exception handler: the problem document of ``exc``, or None for a bug, which Django logs and answers."""
    problem = _wrong_method(exc, context) if isinstance(exc, exceptions.MethodNotAllowed) else _as_problem(exc)
    return None if problem is None else document(problem)


def _wrong_method(exc: exceptions.MethodNotAllowed, context: Mapping[str, Any]) -> Problem:
    """405 that names the methods there are, as its ``Allow`` header does."""
    allowed = context["view"].allowed_methods
    method = getattr(context["request"], "method", None) or "this method"
    message = f"{method[:40]} is not possible here; use {' or '.join(allowed)}"
    return Problem(405, "method_not_allowed", message, limit=allowed, headers={"Allow": ", ".join(allowed)})


def _as_problem(exc: Exception) -> Problem | None:
    if isinstance(exc, Problem):
        return exc
    if isinstance(exc, Http404):
        return not_found("page")
    if isinstance(exc, PermissionDenied):
        return Problem(403, "permission_denied", str(exc) or NOT_ALLOWED)
    if isinstance(exc, RequestDataTooBig):
        return Problem(413, "too_large", "the body is larger than the server takes; send less")
    if isinstance(exc, DisallowedHost):
        return Problem(400, "unknown_host", UNKNOWN_HOST, field="Host")
    if isinstance(exc, (UnreadablePostError, SuspiciousOperation)):
        return Problem(400, "bad_request", "the request can't be read")
    if isinstance(exc, (OperationalError, InterfaceError)):
        # 503 and not 500: an agent takes it for a server that is away, and its jobs go on (D33).
        return Problem(
            503,
            "database_unavailable",
            "the database does not answer; try again",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )
    if isinstance(exc, StoreAway):  # an agent asks again, as it does where the database is away
        return Problem(503, "store_away", f"{exc}; nothing is lost", headers={"Retry-After": str(RETRY_AFTER_S)})
    if isinstance(exc, exceptions.APIException):
        return _of_drf(exc)
    return None


def _of_drf(exc: exceptions.APIException) -> Problem:
    headers = {}
    if header := getattr(exc, "auth_header", None):
        headers["WWW-Authenticate"] = header
    if (wait := getattr(exc, "wait", None)) is not None:
        headers["Retry-After"] = str(int(wait) + 1)
    detail = exc.detail if isinstance(exc.detail, str) else json.dumps(exc.detail, default=str)
    code = getattr(exc.detail, "code", None) or exc.default_code
    if isinstance(exc, exceptions.NotAuthenticated):
        detail = "sign in, or send an API token: Authorization: Bearer emep_..."
    return Problem(exc.status_code, code, str(detail), headers=headers)


# ---------------------------------------------------------------- what no view answered


def unknown_path(request: HttpRequest, *_: object, **__: object) -> HttpResponse:
    """404 for an address under ``/api/`` that there is not; says so when only the slash at the end is missing."""
    if not request.path.endswith("/"):
        try:
            if resolve(f"{request.path}/").func is not unknown_path:
                return document(
                    Problem(404, "not_found", f"there is no such address; did you mean {request.path[:200]}/ ?")
                )
        except Resolver404:
            pass
    return document(Problem(404, "not_found", "there is no such address; /api/schema/ lists those there are"))


unknown_path.csrf_exempt = True  # type: ignore[attr-defined]  # it does nothing, and its answer must be the 404


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler404."""
    return unknown_path(request) if request.path.startswith(API) else defaults.page_not_found(request, exception)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400."""
    if not request.path.startswith(API):
        if isinstance(exception, DisallowedHost):
            return HttpResponse(render_to_string("400.html", {"reason": UNKNOWN_HOST}), status=400)
        return defaults.bad_request(request, exception)
    return document(_as_problem(exception) or Problem(400, "bad_request", "the request can't be read"))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler403."""
    if not request.path.startswith(API):
        return defaults.permission_denied(request, exception)
    return document(Problem(403, "permission_denied", NOT_ALLOWED))


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's handler500: no trace, no inside of the server."""
    if not request.path.startswith(API):
        return defaults.server_error(request)
    return document(
        Problem(500, "server_error", "the server failed; the fault is in its log, and trying again may help")
    )
