"""The Content-Security-Policy: no inline script or style, nothing from another origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Swagger UI styles its own elements inline; that page alone is allowed to.
DOCS_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace(
    "script-src 'self'", "script-src 'self' 'unsafe-inline'"
)


class SecurityHeaders:
    """Middleware that puts the policy on every page, for both kinds of server."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.later = iscoroutinefunction(get_response)
        if self.later:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """The response with the policy, or a coroutine of it under an async server."""
        return self._later(request) if self.later else _with_policy(request, self.get_response(request))

    async def _later(self, request: HttpRequest) -> HttpResponse:
        return _with_policy(request, await self.get_response(request))


def _with_policy(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    policy = DOCS_POLICY if request.path.startswith("/api/docs") else POLICY
    response.setdefault("Content-Security-Policy", policy)
    response.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
    return response
