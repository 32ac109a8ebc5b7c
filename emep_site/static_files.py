"""WhiteNoise for both kinds of server: a request that is no static file costs no thread under ASGI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    """Serves what WhiteNoise serves; everything else goes straight on."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        self.later = iscoroutinefunction(get_response)
        if self.later:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """The file's response, or the next handler's; a coroutine of it under an async server."""
        return self._later(request) if self.later else super().__call__(request)

    async def _later(self, request: HttpRequest) -> Any:
        path = request.path_info
        found = await sync_to_async(self.find_file)(path) if self.autorefresh else self.files.get(path)
        if found is None:
            return await self.get_response(request)
        return await sync_to_async(_whole)(found, request)


def _whole(static_file: Any, request: HttpRequest) -> HttpResponse:
    """Static files are small: one piece, since a file iterator would block the event loop."""
    response = static_file.get_response(request.method, request.META)
    body = b""
    if response.file is not None:
        with response.file:
            body = response.file.read()
    answer = HttpResponse(body, status=int(response.status))
    del answer["Content-Type"]
    for name, value in response.headers:
        answer[name] = value
    return answer
