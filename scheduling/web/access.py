"""Every page asks who is there; every change is a POST."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase, HttpResponseNotAllowed

from scheduling.store.queries.access import actor_of

View = Callable[..., HttpResponseBase]


def signed_in(view: View) -> View:
    """The view is called as ``view(request, actor, ...)``; whoever is not signed in is sent to do so."""

    @login_required
    @wraps(view)
    def asked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        return view(request, actor_of(request.user), *args, **kwargs)

    return asked


def posted(view: View) -> View:
    """The view is asked by POST only; anything else gets 405, which says so in its ``Allow`` header and in words."""

    @wraps(view)
    def asked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.method == "POST":
            return view(request, *args, **kwargs)
        words = f"{request.method} is not possible here; use POST, as the button on the page does."
        return HttpResponseNotAllowed(["POST"], words, content_type="text/plain; charset=utf-8")

    return asked
