"""What must be taken back: the work of nodes whose lease ran out (D21), and grants that nobody claimed."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.aftermath import Ended, aftermath
from scheduling.core.lifecycle import JobEvent, JobState, NodeEvent, NodeState, node_sources_of
from scheduling.core.plan import Cause, LoseNode, Reason, Reclaim
from scheduling.core.snapshot import LiveAttempt, NodeLease, Snapshot

# Three reports in a row are missing at the real timings: such a node gets no new work, and counts as silent.
SILENT_SHARE_OF_LEASE = 0.5


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What one tick takes back. ``unreachable``: the nodes that get no new work in it."""

    lose_nodes: tuple[LoseNode, ...]
    reclaims: tuple[Reclaim, ...]
    unreachable: frozenset[str]
    alarms: tuple[Reason, ...]


def take_back(snapshot: Snapshot) -> TakenBack:
    """Nodes silent for ``lease_s`` or longer are lost and their attempts reclaimed; not when too many fell silent.

    A grant that was not claimed within ``claim_s`` is reclaimed too.
    """
    lease_ms = snapshot.policy.lease_s * 1000
    silent = frozenset(lease.node for lease in snapshot.leases if lease.silent_ms >= SILENT_SHARE_OF_LEASE * lease_ms)
    expired = frozenset(lease.node for lease in snapshot.leases if lease.silent_ms >= lease_ms)
    alarms = _mass_silence(snapshot)

    lost = frozenset() if alarms else expired
    frozen = silent if alarms else frozenset()
    losable = node_sources_of(NodeEvent.LOSE)
    lose = sorted(node.name for node in snapshot.pool.nodes if node.name in lost and node.state in losable)
    gone = lost | {node.name for node in snapshot.pool.nodes if node.state is NodeState.LOST}
    reclaims: list[Reclaim] = []
    for attempt in sorted(snapshot.live, key=lambda attempt: (attempt.node, attempt.attempt)):
        if attempt.node in frozen:
            continue
        if attempt.node in gone:
            reclaims.append(_reclaim(snapshot, attempt, "node_lost"))
        elif is_unclaimed(attempt) and snapshot.now_ms >= claim_deadline_ms(snapshot, attempt):
            reclaims.append(_reclaim(snapshot, attempt, "claim_expired"))
    return TakenBack(tuple(LoseNode(name) for name in lose), tuple(reclaims), silent | expired, alarms)


def is_unclaimed(attempt: LiveAttempt) -> bool:
    """Granted, perhaps being cancelled since, and never claimed by its node."""
    return attempt.claimed_ms is None and attempt.state in (JobState.DISPATCHING, JobState.CANCELLING)


def claim_deadline_ms(snapshot: Snapshot, attempt: LiveAttempt) -> int:
    """When an unclaimed grant is taken back."""
    return attempt.granted_ms + round(snapshot.policy.claim_s * 1000)


def _reclaim(snapshot: Snapshot, attempt: LiveAttempt, cause: Cause) -> Reclaim:
    after = aftermath(Ended(attempt.state, "LOST", infra_failures=attempt.infra_failures), snapshot.policy)
    return Reclaim(
        attempt.attempt,
        attempt.job,
        attempt.epoch,
        attempt.node,
        cause,
        retry=after.event is JobEvent.REQUEUE,
        backoff_s=after.backoff_s,
        event=after.event,
    )


def _mass_silence(snapshot: Snapshot) -> tuple[Reason, ...]:
    """The alarm of D21 when at least ``mass_silent_min`` nodes and more than ``mass_silent_share`` are silent at once.

    Nodes that were lost longer than a lease ago fell silent another time: they count neither way. A node that
    has just begun to be silent does count: else the first to expire would be given away before the rest are seen.
    """
    policy = snapshot.policy
    lease_ms = policy.lease_s * 1000
    states = {node.name: node.state for node in snapshot.pool.nodes}

    def counts(lease: NodeLease) -> bool:
        state = states.get(lease.node)
        return state is not None and (state is not NodeState.LOST or lease.silent_ms < 2 * lease_ms)

    counted = [lease for lease in snapshot.leases if counts(lease)]
    silent = [lease for lease in counted if lease.silent_ms >= SILENT_SHARE_OF_LEASE * lease_ms]
    if (
        snapshot.silence_confirmed
        or len(silent) < policy.mass_silent_min
        or len(silent) <= policy.mass_silent_share * len(counted)
    ):
        return ()
    message = (
        f"{len(silent)} of {len(counted)} nodes fell silent within one lease: nothing is taken back from them "
        "until they return or an operator confirms that they are gone"
    )
    return (Reason("MASS_SILENCE", message, (("silent", len(silent)), ("nodes", len(counted)))),)
