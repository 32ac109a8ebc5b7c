"""A page that needs the artifact store while that is away says so, and who starts the web process is told why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from scheduling.services.blob_store import StoreAway

RETRY_AFTER_S = 10


class StoreAwayPages:
    """Middleware that answers 503 for a page that could not reach the store; REST tells it by itself."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """The response as it is."""
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The page that says that the store is away; None for any other exception."""
        if not isinstance(exception, StoreAway):
            return None
        page = render_to_string("503.html", {"title": "The artifact store is away", "words": str(exception)})
        return HttpResponse(page, status=503, headers={"Retry-After": str(RETRY_AFTER_S)})
