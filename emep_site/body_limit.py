"""A form that is too large is answered before anything reads it: 413, with the limit and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from scheduling.web.wording import size

# REST limits its own bodies: it answers in JSON, and streams the bytes of artifacts past any limit.
API = "/api/"


class BodyLimit:
    """Middleware that refuses a request outside REST by its Content-Length, for both kinds of server."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.later = iscoroutinefunction(get_response)
        if self.later:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """The refusal or the next handler's response; a coroutine of it under an async server."""
        return self._later(request) if self.later else _refusal(request) or self.get_response(request)

    async def _later(self, request: HttpRequest) -> HttpResponse:
        return _refusal(request) or await self.get_response(request)


def _refusal(request: HttpRequest) -> HttpResponse | None:
    given, limit = request.headers.get("Content-Length", ""), settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    length = int(given) if given.isascii() and given.isdigit() else 0
    if request.path.startswith(API) or length <= limit:
        return None
    return render(request, "413.html", {"sent": size(length), "limit": size(limit)}, status=413)
