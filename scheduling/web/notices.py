"""My notices: what I am told by e-mail, and my webhooks with what was sent to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from scheduling.services import notice_choices, now, webhooks
from scheduling.store.queries import notices as queries
from scheduling.store.queries.access import Actor
from scheduling.web import account, notice_words
from scheduling.web.access import posted, signed_in

LOG = 50
SOON = "It is sent within a few seconds."


@posted
@signed_in
def choose(request: HttpRequest, actor: Actor) -> HttpResponse:
    """The choices are as posted; or the form again with what is wrong."""
    message = {
        "events": request.POST.getlist("event"),
        "of": request.POST.get("of", ""),
        "long_wait_minutes": request.POST.get("long_wait_minutes", ""),
    }
    wrong = notice_choices.choose(actor, message, now())
    if wrong:
        return account.page(request, actor, mail=message, errors=_by_field(wrong, "mail_"), status=422)
    messages.success(request, "What you are told by e-mail is changed.")
    return redirect("/account/#notices")


@posted
@signed_in
def test_mail(request: HttpRequest, actor: Actor) -> HttpResponse:
    """A test e-mail is on its way, or why it is not."""
    made = notice_choices.test(actor, now())
    if isinstance(made, tuple):
        messages.error(request, f"No test was sent: {made[1]}.")
    else:
        messages.success(request, f"A test e-mail is on its way. {SOON}")
    return redirect("/account/#notices")


@posted
@never_cache
@signed_in
def make(request: HttpRequest, actor: Actor) -> HttpResponse:
    """A new webhook with its secret, shown on this answer only; or the form again with what is wrong."""
    message = _hook(request)
    made = webhooks.add(actor, message, now())
    if not isinstance(made, webhooks.Secret):
        return account.page(request, actor, hook=message, errors=_by_field(made, "hook_"), status=422)
    return _page(request, actor, UUID(made.webhook), secret=made.secret)


@signed_in
def webhook(request: HttpRequest, actor: Actor, webhook_id: UUID) -> HttpResponse:
    """One webhook: whether it is told, what was sent, and a form to change it."""
    return _page(request, actor, webhook_id)


@posted
@never_cache
@signed_in
def act(request: HttpRequest, actor: Actor, webhook_id: UUID, verb: str) -> HttpResponse:
    """The webhook is changed, tested, switched on or off, given a new secret, or removed."""
    if verb == "change":
        message = _hook(request)
        changed = webhooks.change(actor, webhook_id, message, now())
        if isinstance(changed, tuple):
            return _page(request, actor, webhook_id, hook=message, errors=_by_field(changed, "hook_"), status=422)
        return _done(request, webhook_id, found=changed, words="The webhook is changed.")
    if verb == "secret":
        made = webhooks.renew_secret(actor, webhook_id)
        return _page(request, actor, webhook_id, secret=made.secret if made else "")
    if verb == "remove":
        if not webhooks.remove(actor, webhook_id):
            raise Http404("there is no such webhook of yours")
        messages.success(request, "The webhook is removed.")
        return redirect("/account/#notices")
    if verb == "test":
        return _sent(request, webhook_id, webhooks.test(actor, webhook_id, now()), "A test is on its way.")
    on = verb == "on"
    words = "It is told again, of what happens from now on." if on else "Nothing more is sent to it."
    return _done(request, webhook_id, found=webhooks.change(actor, webhook_id, {"active": on}, now()), words=words)


@posted
@signed_in
def redeliver(request: HttpRequest, actor: Actor, webhook_id: UUID, delivery_id: UUID) -> HttpResponse:
    """The delivery is sent again."""
    made = webhooks.redeliver(actor, webhook_id, delivery_id, now())
    return _sent(request, webhook_id, made, "It is sent again.")


def _hook(request: HttpRequest) -> dict[str, Any]:
    return {
        "name": request.POST.get("name", ""),
        "url": request.POST.get("url", "").strip(),
        "events": request.POST.getlist("event"),
        "of": request.POST.get("of", ""),
    }


def _done(request: HttpRequest, webhook_id: UUID, *, found: object, words: str) -> HttpResponse:
    if found is not True:
        raise Http404("there is no such webhook of yours")
    messages.success(request, words)
    return redirect("webhook", webhook_id)


def _sent(request: HttpRequest, webhook_id: UUID, made: object, words: str) -> HttpResponse:
    if made is None:
        raise Http404("there is no such webhook or delivery of yours")
    if isinstance(made, webhooks.NotNow):
        messages.error(request, f"Nothing was sent: {made.message}.")
    else:
        messages.success(request, f"{words} {SOON}")
    return redirect("webhook", webhook_id)


def _page(
    request: HttpRequest, actor: Actor, webhook_id: UUID, *, secret: str = "", hook: Mapping[str, Any] | None = None,
    errors: dict[str, str] | None = None, status: int = 200,
) -> HttpResponse:  # fmt: skip
    found = queries.webhook(actor.user_id, webhook_id)
    if found is None:
        raise Http404("there is no such webhook of yours")
    rows = queries.delivered(list(queries.deliveries(webhook_id).order_by("-created_at", "-id")[: LOG + 1]))
    given = {**found, **(hook or {})}
    context = {
        "webhook": found,
        "hook": given,
        "hook_kinds": notice_words.kinds(given["events"]),
        "hook_whose": notice_words.whose(given["of"]),
        "secret": secret,
        "errors": errors or {},
        "log": [notice_words.shown(each) for each in rows[:LOG]],
        "more": len(rows) > LOG,
        "soon": notice_words.soon(rows, now()),
        "sentence": notice_words.standing(found),
        "tries": notice_words.TRIES,
    }
    return render(request, "webhook.html", context, status=status)


def _by_field(errors: Iterable[Mapping[str, Any]], prefix: str) -> dict[str, str]:
    """The first error of each field of the form; what belongs to none stands above it."""
    found: dict[str, str] = {}
    for each in errors:
        name = str(each["field"]).split(".")[0] or "form"
        found.setdefault(prefix + name, str(each["message"]))
    return found
