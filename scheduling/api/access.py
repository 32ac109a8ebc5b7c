"""Who is asking? People by session or API token with scopes, nodes by their own token."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast

from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError
from django.db.models import Q
from knox.auth import TokenAuthentication
from knox.crypto import hash_token
from knox.models import get_token_model
from rest_framework.authentication import BaseAuthentication, SessionAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from scheduling.api.problems import Problem
from scheduling.services import now
from scheduling.store.queries import access
from scheduling.store.queries.access import Actor

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which reads the settings, which name this file

NODE_PREFIX = "emepn_"
ANY = "any"  # a method that every signed-in credential may use
USED_EVERY = timedelta(minutes=1)
CHALLENGE = 'Bearer realm="emep"'


def _secret(request: Request) -> str | None:
    """The token of an ``Authorization: Bearer`` header, None when there is no such header."""
    words = get_authorization_header(request).split()
    if not words or words[0].lower() != b"bearer":
        return None
    if len(words) != 2:
        raise AuthenticationFailed("the header must read: Authorization: Bearer <token>", "bad_header")
    try:
        return words[1].decode("ascii")
    except UnicodeDecodeError as wrong:
        raise AuthenticationFailed("the token is not one of ours", "invalid_token") from wrong


class BearerToken(TokenAuthentication):
    """A person's API token, found by its digest; when it was last used is kept to the minute.

    Unlike its base it deletes nothing: an expired token says so, and the person's other tokens stay as they are.
    """

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """(user, token) of the header, None when there is none."""
        secret = _secret(request)
        if secret is None:
            return None
        if secret.startswith(NODE_PREFIX):
            raise AuthenticationFailed("this is a node's token; it is good for the node's own calls only", "node_token")
        user, row = self.authenticate_credentials(secret.encode())
        return user, row

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return CHALLENGE

    def authenticate_credentials(self, token: bytes) -> tuple[Any, Any]:
        """(user, token) while the token is good and its owner active; AuthenticationFailed says why not."""
        tokens = get_token_model().objects
        row = tokens.select_related("user").filter(pk=hash_token(token.decode())).first()
        if row is None:
            raise AuthenticationFailed("the token is wrong or was revoked; make a new one", "invalid_token")
        moment = now()
        if row.expiry is not None and row.expiry <= moment:
            raise AuthenticationFailed(
                f"the token expired at {row.expiry:%Y-%m-%d %H:%M} UTC; make a new one", "expired_token"
            )
        if not row.user.is_active:
            raise AuthenticationFailed("the token's owner is not active any more", "inactive_user")
        if row.last_used_at is None or moment - row.last_used_at >= USED_EVERY:
            stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=moment)
            # Whoever only reads is answered also while nothing can be written.
            with contextlib.suppress(OperationalError):
                tokens.filter(stale, pk=row.pk).update(last_used_at=moment)
        return row.user, row


class BrowserSession(SessionAuthentication):
    """A signed-in browser with CSRF enforced, and without reading a JSON body to look for the CSRF token in it."""

    def enforce_csrf(self, request: Any) -> None:
        """403 unless the header or form carries the CSRF token."""
        try:
            super().enforce_csrf(request._request)
        except PermissionDenied as missing:
            message = (
                f"{missing.detail}; a signed-in browser sends its csrftoken cookie as the header X-CSRFToken too: "
                "reload the page, or send an API token (Authorization: Bearer emep_...) and no cookies"
            )
            raise Problem(403, "permission_denied", message, limit="X-CSRFToken") from missing


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The node that a node token belongs to."""

    name: str
    is_authenticated: ClassVar[bool] = True
    is_active: ClassVar[bool] = True
    pk: ClassVar[None] = None


class NodeToken(BaseAuthentication):
    """A node's token: the node is derived from it and never from what the message says."""

    def authenticate(self, request: Request) -> tuple[NodeIdentity, str] | None:
        """(node, its name) of the header, None when there is none."""
        secret = _secret(request)
        if secret is None:
            return None
        if not secret.startswith(NODE_PREFIX):
            raise AuthenticationFailed(
                "only a node's own token is good here (manage.py addnode NAME)", "not_a_node_token"
            )
        name = access.node_of_token(hashlib.sha256(secret.encode()).hexdigest())
        if name is None:
            raise AuthenticationFailed(
                "the node token is wrong or was replaced; run manage.py addnode NAME", "invalid_token"
            )
        return NodeIdentity(name), name

    def authenticate_header(self, request: Request) -> str:
        """What a 401 asks for."""
        return CHALLENGE


def actor_of(request: Request) -> Actor:
    """The person behind the request with their rights as they are now; a session has whatever the person may."""
    kept: Actor | None = getattr(request, "_actor", None)
    if kept is None:
        scopes = None if request.auth is None else frozenset(cast(Any, request.auth).scopes)
        kept = access.actor_of(request.user, scopes)
        request._actor = kept  # type: ignore[attr-defined]
    return kept


class SignedIn(BasePermission):
    """Any person, by session or token."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True for a person; nobody else gets here with an identity."""
        return request.user is not None


class HasScope(BasePermission):
    """The person may use this method: the view's ``scopes`` names the scope a token needs for it."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True with the scope, False without any identity; a token that lacks it is told which one it lacks."""
        method = "GET" if request.method == "HEAD" else str(request.method)
        if request.user is None:
            return False
        if method.lower() not in view.http_method_names or not hasattr(view, method.lower()):
            return True  # the answer will be 405
        scope = getattr(view, "scopes", {}).get(method)
        if scope is None:
            raise ImproperlyConfigured(f"{type(view).__name__} names no scope for {method}")
        if scope != ANY and not actor_of(request).may(scope):
            raise Problem(403, "scope_missing", _lacks(scope, actor_of(request)), facts={"scope": scope}, limit=scope)
        return True


def _lacks(scope: str, actor: Actor) -> str:
    """What to do about a token without the scope; whoever may not have that scope has to ask first."""
    first = ""
    if scope == "pool:operate" and not actor.may_operate:
        first = f", once an admin has given {actor.username} the permission operate_pool at /admin/"
    make = "make one that has it on the page Account or by POST /api/v1/tokens/"
    return f"this token lacks the scope {scope}: {make}{first}"


class IsNode(BasePermission):
    """A node, by its own token."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True for a node; 401 without a credential."""
        if not isinstance(request.user, NodeIdentity):
            raise NotAuthenticated
        return True
