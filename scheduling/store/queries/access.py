"""Who is asking, and what may they know of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model

from scheduling.models import ApiToken, Membership, Node, Project


@dataclass(frozen=True, slots=True)
class Actor:
    """A person (or their token). ``projects`` are those they belong to; an admin sees every project.

    ``scopes`` is None for a signed-in browser, which may do whatever the person may.
    """

    user_id: int
    username: str
    projects: tuple[str, ...]
    level_cap: int
    is_admin: bool
    may_critical: bool
    may_unpreemptible: bool
    may_operate: bool
    scopes: frozenset[str] | None = None

    def may(self, scope: str) -> bool:
        """True when this actor's credential carries the scope (``admin`` carries all)."""
        return self.scopes is None or scope in self.scopes or ("admin" in self.scopes and self.is_admin)

    def sees(self, project: str | None) -> bool:
        """True when objects of the project may be known to this actor."""
        return self.is_admin or (project is not None and project in self.projects)

    @property
    def label(self) -> str:
        """How this actor is named in events."""
        return f"user {self.username}"


def actor_of(user: Any, scopes: frozenset[str] | None = None) -> Actor:
    """The actor behind a user row, with memberships and permissions read now."""
    rows = list(
        Membership.objects.filter(user=user).values_list("project__name", "level_cap").order_by("project__name")
    )
    if user.is_superuser:
        projects = tuple(Project.objects.order_by("name").values_list("name", flat=True))
    else:
        projects = tuple(name for name, _ in rows)
    critical = user.has_perm("scheduling.submit_critical") and (
        scopes is None or "jobs:submit:critical" in scopes or "admin" in scopes
    )
    return Actor(
        user_id=user.pk,
        username=user.get_username(),
        projects=projects,
        level_cap=max((cap for _, cap in rows), default=4 if user.is_superuser else 0),
        is_admin=bool(user.is_superuser),
        may_critical=critical,
        may_unpreemptible=user.has_perm("scheduling.submit_unpreemptible"),
        may_operate=user.has_perm("scheduling.operate_pool"),
        scopes=scopes,
    )


def level_cap(actor: Actor, project: str) -> int:
    """The highest level value the actor may ask for in that project."""
    if actor.is_admin:
        return 99
    cap = Membership.objects.filter(user_id=actor.user_id, project__name=project).values_list("level_cap", flat=True)
    return cap.first() or 0


def actor_by_id(user_id: int) -> Actor | None:
    """The actor behind an active user's id."""
    user = get_user_model().objects.filter(pk=user_id, is_active=True).first()
    return actor_of(user) if user else None


def user_id_of(username: str) -> int | None:
    """The id of the active user of that name."""
    found = get_user_model().objects.filter(username=username, is_active=True)
    return found.values_list("pk", flat=True).first()


def first_admin() -> int | None:
    """The id of the active admin who has been there longest."""
    admins = get_user_model().objects.filter(is_superuser=True, is_active=True)
    return admins.order_by("date_joined", "pk").values_list("pk", flat=True).first()


def node_of_token(token_sha256: str) -> str | None:
    """The node whose token has this sha256."""
    return (
        Node.objects.filter(token_sha256=token_sha256).exclude(token_sha256="").values_list("name", flat=True).first()
    )


def tokens_of(user_id: int) -> list[dict[str, Any]]:
    """The user's tokens, never their secret."""
    return [
        {
            "id": t.digest[:16],
            "name": t.name,
            "prefix": t.token_key,
            "scopes": t.scopes,
            "created": t.created,
            "expires": t.expiry,
            "last_used": t.last_used_at,
        }
        for t in ApiToken.objects.filter(user_id=user_id)
    ]
