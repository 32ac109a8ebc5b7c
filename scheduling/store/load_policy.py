"""The policy as operators have set it: rows become values."""

from __future__ import annotations

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


def policy_of() -> Policy:
    """The policy as the admin has set it; waits are scaled as the settings say."""
    rules = PreemptionRule.objects.values_list(
        "preemptor__queue__name", "preemptor__name", "victim__queue__name", "victim__name"
    )
    scale = settings.TIME_SCALE
    half_life = FairShareSettings.objects.values_list("half_life_s", flat=True).first()
    queued = replace(DEFAULT_POLICY, queues=_queues())
    return replace(
        queued,
        # The admin refuses a rule that goes up; the numbers of its levels may have been changed since.
        preemption=tuple(rule for rule in (PreemptRule(*row) for row in rules) if goes_down(queued, rule)),
        project_weights=dict(Project.objects.values_list("name", "weight")),
        user_weights={
            (p, u): w for p, u, w in Membership.objects.values_list("project__name", "user__username", "weight")
        },
        billing=billing_weights(),
        half_life_s=float(DEFAULT_POLICY.half_life_s if half_life is None else half_life),
        retry=replace(
            DEFAULT_POLICY.retry,
            backoff_s=DEFAULT_POLICY.retry.backoff_s * scale,
            backoff_cap_s=DEFAULT_POLICY.retry.backoff_cap_s * scale,
        ),
        lease_s=DEFAULT_POLICY.lease_s * scale,
        claim_s=DEFAULT_POLICY.claim_s * scale,
        ready_s=DEFAULT_POLICY.ready_s * scale,
        **_planning(),
    )


def _queues() -> tuple[QueuePolicy, ...]:
    queues = []
    for q in Queue.objects.prefetch_related("levels"):
        levels = tuple(Level(level.name, level.value) for level in q.levels.all())
        queues.append(
            QueuePolicy(
                q.name, q.weight, levels, default_level=q.default_level, grace_s=q.grace_s,
                default_max_duration_s=q.default_max_duration_s, max_duration_cap_s=q.max_duration_cap_s,
                never_without_checkpoint=q.never_without_checkpoint,
            )
        )  # fmt: skip
    return tuple(queues)


def _planning() -> dict[str, Any]:
    """What the row of planning settings says, as arguments of :class:`Policy`; nothing while there is no row."""
    row = PlanningSettings.objects.first()
    if row is None:
        return {}
    return {
        "prefer": row.prefer,
        "nvlink_mode": row.nvlink_mode,
        "in_flight": row.in_flight,
        "ledgers": tuple(row.ledgers.split()),
        "backfill": Backfill(
            reservations_per_level=row.reservations_per_level,
            aged_after_s=float(row.aged_after_s),
            aged_reservations=row.aged_reservations,
            rack_patience_s=float(row.rack_patience_s),
        ),
        "evict": Preemption(
            protect_s=float(row.protect_s),
            protect_times=row.protect_times,
            nomination_slack_s=float(row.nomination_slack_s),
        ),
    }


def billing_weights() -> dict[str, float]:
    """The billing weight of each GPU model that has one."""
    return dict(BillingWeight.objects.values_list("gpu_model", "weight"))
