"""Rows become a snapshot, in a number of queries that does not depend on how many there are."""

from __future__ import annotations

from datetime import datetime

from scheduling.core.policy import Policy
from scheduling.core.snapshot import Snapshot
from scheduling.store import load_jobs
from scheduling.store.clock import to_ms
from scheduling.store.load_policy import billing_weights, policy_of
from scheduling.store.load_pool import leases, pool_of, silence, windows

__all__ = ["billing_weights", "policy_of", "pool_of", "snapshot"]


def snapshot(now: datetime, *, can_store: bool = True, policy: Policy | None = None) -> Snapshot:
    """Everything one decision may know, as plain values that cannot reach the database again.

    ``can_store``: whether checkpoints can be stored; while they can't no victims are chosen (D31). ``policy``: as it
    was read just now, by who has read it.
    """
    known, policy = load_jobs.evictions(now), policy or policy_of()
    guard, confirmed = silence(now, lease_s=policy.lease_s)
    return Snapshot(
        now_ms=to_ms(now),
        policy=policy,
        pool=pool_of(),
        waiting=load_jobs.waiting(now, known=known),
        live=load_jobs.live(now, known=known),
        leases=leases(now),
        usage=load_jobs.usage(),
        nominations=load_jobs.nominations(),
        windows=windows(now),
        guard=guard,
        silence_confirmed=confirmed,
        can_preempt=can_store,
    )
