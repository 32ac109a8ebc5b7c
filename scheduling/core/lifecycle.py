"""The state machine of jobs and nodes: every state, every event, one table each.

Whoever writes a state asks this table first, and the picture in the README is drawn from it. A pair that is not in
the table is illegal; asking for it is not an error but gets the answer None. Terminal states have no way out.
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """Where a job is. A nomination or ``preempted=true`` are facts beside the state, not states."""

    QUEUED = "QUEUED"
    HELD = "HELD"
    DISPATCHING = "DISPATCHING"
    RUNNING = "RUNNING"
    PREEMPTING = "PREEMPTING"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    REJECTED = "REJECTED"


class JobEvent(StrEnum):
    """What can happen to a job."""

    HOLD = "HOLD"
    RELEASE = "RELEASE"
    GRANT = "GRANT"
    START = "START"
    PREEMPT = "PREEMPT"
    SPARE = "SPARE"
    CANCEL = "CANCEL"
    REQUEUE = "REQUEUE"
    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    TIME_OUT = "TIME_OUT"
    STOPPED = "STOPPED"


class GpuState(StrEnum):
    """The health of one GPU. Only HEALTHY ones get new work; RETIRED ones no longer count as installed."""

    HEALTHY = "HEALTHY"
    SUSPECT = "SUSPECT"
    UNHEALTHY = "UNHEALTHY"
    QUARANTINED = "QUARANTINED"
    RETIRED = "RETIRED"


class NodeState(StrEnum):
    """What an operator or the lease says about a node. Only READY ones get new work."""

    READY = "READY"
    CORDONED = "CORDONED"
    DRAINING = "DRAINING"
    LOST = "LOST"


class NodeEvent(StrEnum):
    """What can happen to a node."""

    REGISTER = "REGISTER"
    LOSE = "LOSE"
    CORDON = "CORDON"
    DRAIN = "DRAIN"
    RETURN = "RETURN"


INITIAL: frozenset[JobState] = frozenset({JobState.QUEUED, JobState.REJECTED})
TERMINAL: frozenset[JobState] = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED, JobState.REJECTED}
)
LIVE: frozenset[JobState] = frozenset(
    {JobState.DISPATCHING, JobState.RUNNING, JobState.PREEMPTING, JobState.CANCELLING}
)

TABLE: dict[tuple[JobState, JobEvent], JobState] = {
    (JobState.QUEUED, JobEvent.HOLD): JobState.HELD,
    (JobState.QUEUED, JobEvent.GRANT): JobState.DISPATCHING,
    (JobState.QUEUED, JobEvent.CANCEL): JobState.CANCELLED,
    (JobState.QUEUED, JobEvent.FAIL): JobState.FAILED,
    (JobState.HELD, JobEvent.RELEASE): JobState.QUEUED,
    (JobState.HELD, JobEvent.CANCEL): JobState.CANCELLED,
    (JobState.HELD, JobEvent.FAIL): JobState.FAILED,
    (JobState.DISPATCHING, JobEvent.START): JobState.RUNNING,
    (JobState.DISPATCHING, JobEvent.CANCEL): JobState.CANCELLING,
    (JobState.DISPATCHING, JobEvent.REQUEUE): JobState.QUEUED,
    (JobState.DISPATCHING, JobEvent.FAIL): JobState.FAILED,
    (JobState.RUNNING, JobEvent.PREEMPT): JobState.PREEMPTING,
    (JobState.RUNNING, JobEvent.CANCEL): JobState.CANCELLING,
    (JobState.RUNNING, JobEvent.REQUEUE): JobState.QUEUED,
    (JobState.RUNNING, JobEvent.SUCCEED): JobState.SUCCEEDED,
    (JobState.RUNNING, JobEvent.FAIL): JobState.FAILED,
    (JobState.RUNNING, JobEvent.TIME_OUT): JobState.TIMED_OUT,
    (JobState.PREEMPTING, JobEvent.SPARE): JobState.RUNNING,
    (JobState.PREEMPTING, JobEvent.CANCEL): JobState.CANCELLING,
    (JobState.PREEMPTING, JobEvent.REQUEUE): JobState.QUEUED,
    (JobState.PREEMPTING, JobEvent.SUCCEED): JobState.SUCCEEDED,
    (JobState.PREEMPTING, JobEvent.FAIL): JobState.FAILED,
    (JobState.PREEMPTING, JobEvent.TIME_OUT): JobState.TIMED_OUT,
    (JobState.CANCELLING, JobEvent.STOPPED): JobState.CANCELLED,
}

# A node that registers again keeps what an operator said about it; only a LOST one comes back by itself.
NODE_TABLE: dict[tuple[NodeState, NodeEvent], NodeState] = {
    (NodeState.READY, NodeEvent.REGISTER): NodeState.READY,
    (NodeState.READY, NodeEvent.LOSE): NodeState.LOST,
    (NodeState.READY, NodeEvent.CORDON): NodeState.CORDONED,
    (NodeState.READY, NodeEvent.DRAIN): NodeState.DRAINING,
    (NodeState.CORDONED, NodeEvent.REGISTER): NodeState.CORDONED,
    (NodeState.CORDONED, NodeEvent.LOSE): NodeState.LOST,
    (NodeState.CORDONED, NodeEvent.DRAIN): NodeState.DRAINING,
    (NodeState.CORDONED, NodeEvent.RETURN): NodeState.READY,
    (NodeState.DRAINING, NodeEvent.REGISTER): NodeState.DRAINING,
    (NodeState.DRAINING, NodeEvent.LOSE): NodeState.LOST,
    (NodeState.DRAINING, NodeEvent.CORDON): NodeState.CORDONED,
    (NodeState.DRAINING, NodeEvent.RETURN): NodeState.READY,
    (NodeState.LOST, NodeEvent.REGISTER): NodeState.READY,
}


def advance(state: JobState, event: JobEvent) -> JobState | None:
    """The state after ``event``, or None when it is not allowed in ``state``."""
    return TABLE.get((state, event))


def sources_of(event: JobEvent) -> frozenset[JobState]:
    """Every state in which ``event`` is allowed: the condition of a guarded write."""
    return frozenset(state for state, known in TABLE if known is event)


def advance_node(state: NodeState, event: NodeEvent) -> NodeState | None:
    """The node's state after ``event``, or None when it is not allowed in ``state``."""
    return NODE_TABLE.get((state, event))


def node_sources_of(event: NodeEvent) -> frozenset[NodeState]:
    """Every node state in which ``event`` is allowed."""
    return frozenset(state for state, known in NODE_TABLE if known is event)


def mermaid() -> str:
    """The job's state diagram in Mermaid, drawn from the table; ends with a line feed."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in JobState if state in INITIAL]
    lines += [f"    {state} --> {after}: {event}" for (state, event), after in TABLE.items()]
    lines += [f"    {state} --> [*]" for state in JobState if state in TERMINAL]
    return "\n".join(lines) + "\n"
