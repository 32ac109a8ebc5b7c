"""The policy as operators have set it: rows become values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from django.conf import settings

from scheduling.core.policy import (
    DEFAULT_POLICY,
    Backfill,
    Level,
    Policy,
    Preemption,
    PreemptRule,
    QueuePolicy,
    goes_down,
)
from scheduling.models import (
    BillingWeight,
    FairShareSettings,
    Membership,
    PlanningSettings,
    PreemptionRule,
    Project,
    Queue,
)
from scheduling.models import Level as LevelRow
from scheduling.store.fixed import Fixed

_RULES = Fixed(
    lambda: PreemptionRule.objects.values_list(
        "preemptor__queue__name", "preemptor__name", "victim__queue__name", "victim__name"
    )
)
_HALF_LIFE = Fixed(lambda: FairShareSettings.objects.order_by("pk").values_list("half_life_s")[:1])
_PROJECTS = Fixed(lambda: Project.objects.values_list("name", "weight"))
_MEMBERS = Fixed(lambda: Membership.objects.values_list("project__name", "user__username", "weight"))
_BILLING = Fixed(lambda: BillingWeight.objects.values_list("gpu_model", "weight"))
_QUEUES = Fixed(
    lambda: Queue.objects.values_list(
        "pk", "name", "weight", "default_level", "grace_s", "default_max_duration_s", "max_duration_cap_s",
        "never_without_checkpoint",
    )
)  # fmt: skip
_LEVELS = Fixed(lambda: LevelRow.objects.values_list("queue_id", "name", "value"))
_PLANNING = Fixed(
    lambda: PlanningSettings.objects.order_by("pk").values_list(
        "prefer", "nvlink_mode", "in_flight", "ledgers", "reservations_per_level", "aged_after_s", "aged_reservations",
        "rack_patience_s", "protect_s", "protect_times", "nomination_slack_s",
    )[:1]
)  # fmt: skip


def policy_of() -> Policy:
    """The policy as the admin has set it; waits are scaled as the settings say."""
    scale = settings.TIME_SCALE
    half_life = next((seconds for (seconds,) in _HALF_LIFE()), DEFAULT_POLICY.half_life_s)
    queued = replace(DEFAULT_POLICY, queues=_queues())
    return replace(
        queued,
        # The admin refuses a rule that goes up; the numbers of its levels may have been changed since.
        preemption=tuple(rule for rule in (PreemptRule(*row) for row in _RULES()) if goes_down(queued, rule)),
        project_weights=dict(_PROJECTS()),
        user_weights={(project, user): weight for project, user, weight in _MEMBERS()},
        billing=billing_weights(),
        half_life_s=float(half_life),
        retry=replace(
            DEFAULT_POLICY.retry,
            backoff_s=DEFAULT_POLICY.retry.backoff_s * scale,
            backoff_cap_s=DEFAULT_POLICY.retry.backoff_cap_s * scale,
        ),
        lease_s=lease_s(),
        claim_s=DEFAULT_POLICY.claim_s * scale,
        ready_s=DEFAULT_POLICY.ready_s * scale,
        **_planning(),
    )


def lease_s() -> float:
    """How long a node may be silent before its work is taken back, in seconds, scaled as the settings say."""
    return DEFAULT_POLICY.lease_s * float(settings.TIME_SCALE)


def _queues() -> tuple[QueuePolicy, ...]:
    levels: dict[int, list[Level]] = defaultdict(list)
    for queue, name, value in _LEVELS():
        levels[queue].append(Level(name, value))
    return tuple(
        QueuePolicy(
            name, weight, tuple(levels[key]), default_level=default, grace_s=grace, default_max_duration_s=usual,
            max_duration_cap_s=cap, never_without_checkpoint=bool(careful),
        )
        for key, name, weight, default, grace, usual, cap, careful in _QUEUES()
    )  # fmt: skip


def _planning() -> dict[str, Any]:
    """What the row of planning settings says, as arguments of :class:`Policy`; nothing while there is no row."""
    for (prefer, nvlink_mode, in_flight, ledgers, per_level, aged_after, aged, rack_patience, protect, protect_times,
         slack) in _PLANNING():  # fmt: skip
        return {
            "prefer": prefer,
            "nvlink_mode": nvlink_mode,
            "in_flight": in_flight,
            "ledgers": tuple(ledgers.split()),
            "backfill": Backfill(
                reservations_per_level=per_level,
                aged_after_s=float(aged_after),
                aged_reservations=aged,
                rack_patience_s=float(rack_patience),
            ),
            "evict": Preemption(protect_s=float(protect), protect_times=protect_times, nomination_slack_s=float(slack)),
        }
    return {}


def billing_weights() -> dict[str, float]:
    """The billing weight of each GPU model that has one."""
    return dict(_BILLING())
