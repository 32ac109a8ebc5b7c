"""My tokens, what I am told, and my password."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from scheduling.services import now, tokens
from scheduling.services.tokens import TokenRefused
from scheduling.store.queries import access, pages
from scheduling.store.queries.access import Actor
from scheduling.web import notice_words
from scheduling.web.access import posted, signed_in
from scheduling.web.wording import amount

DAYS = (7, 30, 90, 365)


@signed_in
def account(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The person's tokens, never their secret, and a form for a new one."""
    return page(request, actor)


@posted
@never_cache
@signed_in
def make_token(request: HttpRequest, actor: Actor) -> HttpResponse:
    """A new token, shown on this answer only; or the form again with what is wrong."""
    days = request.POST.get("days", "")
    message = {
        "name": request.POST.get("name", ""),
        "scopes": request.POST.getlist("scope"),
        "days": int(days) if days.isascii() and days.isdigit() and len(days) < 6 else days,
    }
    made = tokens.issue(actor, message, now())
    if isinstance(made, TokenRefused):
        errors = {str(e["field"]).split(".")[0]: str(e["message"]) for e in made.errors}
        return page(request, actor, errors=errors, status=422)
    return page(request, actor, secret=made.token)


@posted
@signed_in
def revoke(request: HttpRequest, actor: Actor, token_id: str) -> HttpResponse:
    """The token no longer works."""
    if not tokens.revoke(actor, token_id):
        raise Http404("there is no such token of yours")
    messages.success(request, "The token no longer works.")
    return redirect("account")


def page(
    request: HttpRequest, actor: Actor, *, secret: str = "", errors: dict[str, str] | None = None,
    mail: Mapping[str, Any] | None = None, hook: Mapping[str, Any] | None = None, status: int = 200,
) -> HttpResponse:  # fmt: skip
    """The whole page; ``mail`` and ``hook`` are the forms of notices as they were posted and refused."""
    of_token = errors is not None and mail is None and hook is None
    moment = now()
    mine = [
        {**t, "expired": t["expires"] is not None and t["expires"] <= moment} for t in access.tokens_of(actor.user_id)
    ]
    good = sum(not t["expired"] for t in mine)
    chosen = request.POST.getlist("scope") if of_token else ["jobs:read", "jobs:submit", "artifacts:read", "pool:read"]
    belongs = (
        f"You belong to {' and '.join(actor.projects)}"
        if actor.projects
        else "You belong to no project yet: ask an admin"
    )
    context = {
        "tokens": mine,
        "secret": secret,
        "errors": errors or {},
        "scopes": [(s, s in chosen) for s in pages.scopes_for(actor)],
        "days": DAYS,
        "name": request.POST.get("name", "") if of_token else "",
        **notice_words.section(actor, mail=mail, hook=hook),
        "sentence": f"{belongs}; {amount(good, 'token')} can act for you.",
    }
    return render(request, "account.html", context, status=status)
