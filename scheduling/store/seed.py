"""First rows: the specification's policy, nodes, projects, people. What is there already stays."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from simple_history.utils import bulk_create_with_history

from scheduling.core.policy import DEFAULT_POLICY
from scheduling.models import (
    ApiToken,
    Artifact,
    FairShareSettings,
    Level,
    Membership,
    Node,
    NodeLive,
    PlanningSettings,
    PreemptionRule,
    Project,
    Queue,
    SchedulerState,
)


def policy() -> None:
    """Queues, levels, preemption table and pool-wide numbers exist, as the specification has them."""
    for order, q in enumerate(DEFAULT_POLICY.queues):
        queue, made = Queue.objects.get_or_create(
            name=q.name,
            defaults={
                "weight": q.weight,
                "order": order,
                "default_level": q.default_level,
                "default_max_duration_s": q.default_max_duration_s,
                "max_duration_cap_s": q.max_duration_cap_s,
                "grace_s": q.grace_s,
            },
        )
        if made:
            levels = [Level(queue=queue, name=level.name, value=level.value) for level in q.levels]
            bulk_create_with_history(levels, Level)
    if not PreemptionRule.objects.exists():
        known = {(level.queue.name, level.name): level for level in Level.objects.select_related("queue")}
        pairs = [
            (known.get((rule.queue, rule.level)), known.get((rule.victim_queue, rule.victim_level)))
            for rule in DEFAULT_POLICY.preemption
        ]
        rules = [PreemptionRule(preemptor=above, victim=below) for above, below in pairs if above and below]
        bulk_create_with_history(rules, PreemptionRule)
    FairShareSettings.objects.get_or_create(pk=1)
    PlanningSettings.objects.get_or_create(pk=1)
    SchedulerState.objects.get_or_create(pk=1)


def node(name: str, token_sha256: str) -> None:
    """The node exists and only this token is good for it; ValueError says what is wrong with the name."""
    row = Node.objects.filter(name=name).first() or Node(name=name)
    row.token_sha256 = token_sha256
    try:
        row.clean_fields(exclude=["registered_at"])
    except ValidationError as wrong:
        raise ValueError(f"node name {name!r}: {'; '.join(wrong.messages)}") from wrong
    row.save()
    NodeLive.objects.get_or_create(node=row)


def project(name: str, *, weight: float) -> None:
    """The project exists; an existing one keeps its weight."""
    Project.objects.get_or_create(name=name, defaults={"weight": weight})


def user(
    name: str,
    password: str,
    *,
    superuser: bool = False,
    projects: Iterable[tuple[str, int]] = (),
    permissions: Iterable[str] = (),
) -> bool:
    """The person exists with memberships ``(project, level cap)``; returns whether they are new (else unchanged)."""
    users = get_user_model().objects
    if users.filter(username=name).exists():
        return False
    made = users.create_superuser(name, "", password) if superuser else users.create_user(name, "", password)
    for project_name, cap in projects:
        Membership.objects.get_or_create(
            project=Project.objects.get(name=project_name), user=made, defaults={"level_cap": cap}
        )
    made.user_permissions.add(*Permission.objects.filter(codename__in=list(permissions)))
    return True


def password(name: str, new: str) -> bool:
    """The person's password is changed; False when there is no such person."""
    person = get_user_model().objects.filter(username=name).first()
    if person is None:
        return False
    person.set_password(new)
    person.save(update_fields=["password"])
    return True


def token(user_id: int, name: str, scopes: Iterable[str], *, days: int = 90) -> tuple[str, datetime]:
    """A new API token of the person, shown this once, and when it expires."""
    row, secret = ApiToken.objects.create(
        user=get_user_model().objects.get(pk=user_id), expiry=timedelta(days=days), name=name[:80], scopes=list(scopes)
    )
    assert row.expiry is not None  # noqa: S101  it was given
    return secret, row.expiry


def revoke(user_id: int, token_id: str) -> bool:
    """The token whose id (the first 16 digits of its digest) this is no longer works."""
    return (
        bool(ApiToken.objects.filter(user_id=user_id, digest__startswith=token_id).delete()[0])
        if len(token_id) == 16
        else False
    )


def user_id(name: str) -> int | None:
    """The id of the person of that name."""
    return get_user_model().objects.filter(username=name).values_list("pk", flat=True).first()


def artifact_named(project_name: str, name: str) -> str | None:
    """The id of the project's newest published artifact of that name."""
    found = (
        Artifact.objects.filter(project__name=project_name, name=name, published=True)
        .order_by("-created_at")
        .values_list("pk", flat=True)
        .first()
    )
    return str(found) if found else None


def node_has_token(name: str) -> bool:
    """True when the node exists and some token is good for it."""
    return Node.objects.filter(name=name).exclude(token_sha256="").exists()
