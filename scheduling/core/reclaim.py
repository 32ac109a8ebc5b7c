"""What must be taken back: the work of nodes whose lease ran out (D21), and grants that a node does not take up."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.core.aftermath import Ended, aftermath
from scheduling.core.lifecycle import JobEvent, JobState, NodeEvent, NodeState, node_sources_of
from scheduling.core.plan import Cause, LoseNode, Reason, Reclaim
from scheduling.core.snapshot import LiveAttempt, NodeLease, SilenceGuard, Snapshot
from scheduling.core.words import instant_in_words, names_in_words, nodes_in_words

# Three reports in a row are missing at the real timings: such a node gets no new work, and counts as silent.
SILENT_SHARE_OF_LEASE = 0.5
MASS_SILENCE = "MASS_SILENCE"
NOBODY = SilenceGuard()


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What one tick takes back. ``unreachable``: the nodes that get no new work in it; ``guard``: those it spares."""

    lose_nodes: tuple[LoseNode, ...]
    reclaims: tuple[Reclaim, ...]
    unreachable: frozenset[str]
    alarms: tuple[Reason, ...]
    guard: SilenceGuard = NOBODY


def is_silent(lease: NodeLease, lease_s: float) -> bool:
    """Whether the node gets no new work for its silence: half a lease of ``lease_s`` seconds of it, or more."""
    return lease.silent_ms >= SILENT_SHARE_OF_LEASE * lease_s * 1000


def take_back(snapshot: Snapshot) -> TakenBack:
    """Nodes silent for ``lease_s`` or longer are lost and their attempts reclaimed; not when too many fell silent.

    So is what a node has not claimed within ``claim_s``, or of a job on several nodes not been ready to start within
    ``ready_s`` of the grant.
    """
    lease_ms = snapshot.policy.lease_s * 1000
    silent = frozenset(lease.node for lease in snapshot.leases if is_silent(lease, snapshot.policy.lease_s))
    expired = frozenset(lease.node for lease in snapshot.leases if lease.silent_ms >= lease_ms)
    guard, alarms = _guard(snapshot)
    frozen = frozenset(guard.nodes)
    lost = expired - frozen
    losable = node_sources_of(NodeEvent.LOSE)
    lose = sorted(node.name for node in snapshot.pool.nodes if node.name in lost and node.state in losable)
    heard = {lease.node: lease.last_heartbeat_ms for lease in snapshot.leases}
    gone = lost | {node.name for node in snapshot.pool.nodes if node.state is NodeState.LOST}
    reclaims: list[Reclaim] = []
    for attempt in sorted(snapshot.live, key=lambda attempt: (attempt.nodes, attempt.attempt)):
        found = _failed_parts(snapshot, attempt, gone=gone, frozen=frozen)
        if found:
            reclaims.append(_reclaim(snapshot, attempt, found))
    return TakenBack(
        tuple(LoseNode(name, heard[name]) for name in lose), tuple(reclaims), silent | expired, alarms, guard
    )


def deadlines_ms(snapshot: Snapshot, attempt: LiveAttempt) -> tuple[int, ...]:
    """When a granted attempt is taken back unless what is missing comes: a claim, or that a node could start."""
    return tuple(deadline for _, deadline in _awaited(snapshot, attempt).values())


def _awaited(snapshot: Snapshot, attempt: LiveAttempt) -> dict[str, tuple[Cause, int]]:
    """What is still to come from which of its nodes before it runs, and until when."""
    if attempt.state not in (JobState.DISPATCHING, JobState.CANCELLING):
        return {}
    ready_ms = attempt.granted_ms + round(snapshot.policy.ready_s * 1000)
    claim_ms = attempt.granted_ms + round(snapshot.policy.claim_s * 1000)
    found: dict[str, tuple[Cause, int]] = dict.fromkeys(attempt.unready, ("ready_expired", ready_ms))
    return found | dict.fromkeys(attempt.unclaimed, ("claim_expired", claim_ms))


def _failed_parts(
    snapshot: Snapshot, attempt: LiveAttempt, *, gone: frozenset[str], frozen: frozenset[str]
) -> list[tuple[str, Cause]]:
    """The nodes of the attempt, by rank, whose parts of it are to be given up now, and why."""
    awaited = _awaited(snapshot, attempt)
    found: list[tuple[str, Cause]] = []
    for node in attempt.nodes:
        if node in frozen or node in attempt.left:
            continue
        if node in gone:
            found.append((node, "node_lost"))
        elif node in awaited and snapshot.now_ms >= awaited[node][1]:
            found.append((node, awaited[node][0]))
    return found


def _reclaim(snapshot: Snapshot, attempt: LiveAttempt, found: list[tuple[str, Cause]]) -> Reclaim:
    after = aftermath(Ended(attempt.state, "LOST", infra_failures=attempt.infra_failures), snapshot.policy)
    nodes = tuple(node for node, _ in found)
    return Reclaim(
        attempt.attempt,
        attempt.job,
        attempt.epoch,
        nodes,
        tuple(cause for _, cause in found),
        len(nodes) + len(attempt.left) >= len(attempt.nodes),
        retry=after.event is JobEvent.REQUEUE,
        backoff_s=after.backoff_s,
        event=after.event,
    )


def _guard(snapshot: Snapshot) -> tuple[SilenceGuard, tuple[Reason, ...]]:
    """Whom D21 guards, and the alarm that says so: all that are silent while they are many; then, once some of them
    have returned, the others for one more lease, in which whatever had cut them all off lets them return too.
    """
    if snapshot.silence_confirmed:
        return NOBODY, ()
    lease_ms = round(snapshot.policy.lease_s * 1000)
    silent = {
        lease.node: lease.last_heartbeat_ms for lease in snapshot.leases if is_silent(lease, snapshot.policy.lease_s)
    }
    if many := _many_silent(snapshot):
        return SilenceGuard(silent), (many,)
    left = {node: heard for node, heard in snapshot.guard.nodes.items() if silent.get(node) == heard}
    until_ms = snapshot.now_ms + lease_ms if snapshot.guard.until_ms is None else snapshot.guard.until_ms
    if not left or snapshot.now_ms >= until_ms:
        return NOBODY, ()
    have, them, they_are = ("has", "it", "it is") if len(left) == 1 else ("have", "them", "they are")
    message = (
        f"{nodes_in_words(len(left))} of those that fell silent together {have} not returned yet "
        f"({names_in_words(sorted(left))}): nothing is taken back from {them} before {instant_in_words(until_ms)}, "
        f"unless an operator confirms that {they_are} gone"
    )
    return SilenceGuard(left, until_ms), (Reason(MASS_SILENCE, message, (("silent", len(left)),)),)


def _many_silent(snapshot: Snapshot) -> Reason | None:
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
    silent = sorted(lease.node for lease in counted if is_silent(lease, policy.lease_s))
    if len(silent) < policy.mass_silent_min or len(silent) <= policy.mass_silent_share * len(counted):
        return None
    message = (
        f"{len(silent)} of {len(counted)} nodes fell silent within one lease ({names_in_words(silent)}): nothing is "
        "taken back from them until they return or an operator confirms that they are gone"
    )
    return Reason(MASS_SILENCE, message, (("silent", len(silent)), ("nodes", len(counted))))
