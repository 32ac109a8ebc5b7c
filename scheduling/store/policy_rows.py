"""The whole policy as plain values, in the words that a change of it has; and rows that take such a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import models, transaction
from django.db.models import ProtectedError

from scheduling.core.policy import Policy
from scheduling.models import (
    BillingWeight,
    FairShareSettings,
    Level,
    Membership,
    PlanningSettings,
    PolicyVersion,
    PreemptionRule,
    Project,
    Queue,
)
from scheduling.store.load_policy import policy_of

# The keys of a change that rows hold; others are fixed in the program.
QUEUE_KEYS = ("weight", "levels", "default_level", "default_max_duration_s", "max_duration_cap_s", "grace_s")
PLAIN = ("prefer", "nvlink_mode", "in_flight")
BACKFILL = ("reservations_per_level", "aged_after_s", "aged_reservations", "rack_patience_s")
EVICT = ("protect_s", "protect_times", "nomination_slack_s")


class Kept(Exception):
    """A part of the change can't be made by rows; the message says which and what to do."""


def whole(policy: Policy | None = None) -> dict[str, Any]:
    """The policy as a change that would make it, as far as rows hold it."""
    policy = policy or policy_of()
    return {
        "half_life_s": policy.half_life_s,
        "ledgers": list(policy.ledgers),
        **{name: getattr(policy, name) for name in PLAIN},
        "queues": {
            queue.name: {
                **{name: getattr(queue, name) for name in QUEUE_KEYS if name != "levels"},
                "levels": {level.name: level.value for level in queue.levels},
            }
            for queue in policy.queues
        },
        "project_weights": dict(policy.project_weights),
        "user_weights": {"/".join(key): weight for key, weight in policy.user_weights.items()},
        "billing": dict(policy.billing),
        "preemption": sorted(
            (
                {"queue": r.queue, "level": r.level, "victim_queue": r.victim_queue, "victim_level": r.victim_level}
                for r in policy.preemption
            ),
            key=lambda rule: tuple(rule.values()),
        ),
        "backfill": {name: getattr(policy.backfill, name) for name in BACKFILL},
        "evict": {name: getattr(policy.evict, name) for name in EVICT},
    }


@transaction.atomic
def write(patch: Mapping[str, Any], policy: Policy, *, user_id: int, why: str) -> None:
    """The rows that ``patch`` names have the values of ``policy``, which is what it makes of the present one; each
    changed row keeps its history with who and why. Kept when a part of it can't be, and nothing is changed."""
    keep = _Keeper(user_id, why)
    if "half_life_s" in patch:
        keep.changed(_one(FairShareSettings), half_life_s=_seconds("half_life_s", policy.half_life_s))
    planning = {name: getattr(policy, name) for name in PLAIN if name in patch}
    if "ledgers" in patch:
        planning["ledgers"] = " ".join(policy.ledgers)
    for part, names in (("backfill", BACKFILL), ("evict", EVICT)):
        for name in patch.get(part, {}):
            if name in names:
                planning[name] = _seconds(f"{part}.{name}", getattr(getattr(policy, part), name))
    if planning:
        keep.changed(_one(PlanningSettings), **planning)
    for name in patch.get("queues", {}):
        _queue(name, patch["queues"][name], policy, keep)
    if "preemption" in patch:
        _rules(policy, keep)
    for name in patch.get("project_weights", {}):
        keep.changed(Project.objects.get(name=name), weight=policy.project_weights[name])
    for name in patch.get("user_weights", {}):
        project, _, user = name.partition("/")
        member = Membership.objects.get(project__name=project, user__username=user)
        keep.changed(member, weight=policy.user_weights[(project, user)])
    for name in patch.get("billing", {}):
        billed, made = BillingWeight.objects.get_or_create(gpu_model=name, defaults={"weight": policy.billing[name]})
        if not made:
            keep.changed(billed, weight=policy.billing[name])


class _Keeper:
    """Saves rows whose values differ, with who changed them and why."""

    def __init__(self, user_id: int, why: str) -> None:
        self._user, self._why = get_user_model().objects.get(pk=user_id), why[:100]

    def changed(self, row: models.Model, **values: Any) -> None:
        """The row has these values."""
        if all(getattr(row, name) == value for name, value in values.items()):
            return
        for name, value in values.items():
            setattr(row, name, value)
        self.save(row)

    def save(self, row: models.Model) -> None:
        """The row is kept, and its history."""
        self._mark(row)
        row.full_clean()
        row.save()

    def delete(self, row: models.Model) -> None:
        """The row is gone, and its history says so."""
        self._mark(row)
        row.delete()

    def _mark(self, row: models.Model) -> None:
        row._history_user = self._user  # type: ignore[attr-defined]
        row._change_reason = self._why  # type: ignore[attr-defined]


def _one(model: type[models.Model]) -> models.Model:
    return model._default_manager.order_by("pk").first() or model()


def _seconds(path: str, value: float) -> int:
    """The value of a column that holds whole numbers."""
    if value != int(value):
        raise Kept(f"{path} can only be a whole number here, not {value:g}: change it to one, and play it again")
    return int(value)


def _queue(name: str, given: Mapping[str, Any], policy: Policy, keep: _Keeper) -> None:
    queue = policy.queue(name)
    if queue is None:
        raise Kept(f"there is no queue {name} any more")
    row = Queue.objects.get(name=name)
    keep.changed(row, **{key: getattr(queue, key) for key in given if key in QUEUE_KEYS and key != "levels"})
    if "levels" not in given:
        return
    rows = {level.name: level for level in row.levels.all()}
    for level in queue.levels:
        if level.name in rows:
            keep.changed(rows.pop(level.name), value=level.value)
        else:
            keep.save(Level(queue=row, name=level.name, value=level.value))
    for gone in rows.values():
        try:
            keep.delete(gone)
        except ProtectedError as used:
            message = f"queues.{name}.levels leaves out {gone.name}, and there are jobs of it: keep the level"
            raise Kept(message) from used


def _rules(policy: Policy, keep: _Keeper) -> None:
    levels = {(level.queue.name, level.name): level for level in Level.objects.select_related("queue")}
    wanted = {
        (levels[r.queue, r.level].pk, levels[r.victim_queue, r.victim_level].pk)
        for r in policy.preemption
        if (r.queue, r.level) in levels and (r.victim_queue, r.victim_level) in levels
    }
    for row in PreemptionRule.objects.all():
        if (row.preemptor_id, row.victim_id) in wanted:
            wanted.discard((row.preemptor_id, row.victim_id))
        else:
            keep.delete(row)
    for above, below in sorted(wanted):
        keep.save(PreemptionRule(preemptor_id=above, victim_id=below))


def newest() -> PolicyVersion | None:
    """The version that was kept last."""
    return PolicyVersion.objects.order_by("-id").first()


def keep_version(
    policy: Mapping[str, Any], now: datetime, *, user_id: int | None, why: str, what_if: UUID | None = None,
    reverts: int | None = None,
) -> int:  # fmt: skip
    """The policy is kept as a new version; returns its number."""
    made = PolicyVersion.objects.create(
        at=now, user_id=user_id, why=why[:200], what_if_id=what_if, reverts_id=reverts, policy=dict(policy)
    )
    return made.pk


def versions(limit: int) -> Sequence[PolicyVersion]:
    """The newest versions, the newest first."""
    return list(PolicyVersion.objects.select_related("user", "reverts").order_by("-id")[:limit])


def pair(number: int) -> tuple[PolicyVersion, PolicyVersion] | None:
    """The version of that number and the one before it; None where there is no such, or none before it."""
    rows = list(PolicyVersion.objects.filter(pk__lte=number).order_by("-id")[:2])
    return (rows[0], rows[1]) if len(rows) == 2 and rows[0].pk == number else None


def lock() -> None:
    """Whoever changes the policy does so alone until the transaction ends."""
    list(FairShareSettings.objects.select_for_update().order_by("pk")[:1])
