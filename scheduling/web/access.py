"""Every page asks who is there; every change is a POST."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase

from scheduling.store.queries.access import actor_of

View = Callable[..., HttpResponseBase]


def signed_in(view: View) -> View:
    """The view is called as ``view(request, actor, ...)``; whoever is not signed in is sent to do so."""

    @login_required
    @wraps(view)
    def asked(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        return view(request, actor_of(request.user), *args, **kwargs)

    return asked
