"""What would be due to whom under other weights? The production reckoning, with and without them; nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from scheduling.core.fairshare import FairShare
from scheduling.core.policy import Policy
from scheduling.store import load

LEDGERS = ("queue", "project", "user")
Name = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """What is due by a weight: the ``part`` of all, 0 to 1, if everybody had work, and the target in GPU-hours as it is
    now, 0 for whom nothing waits or runs. People are compared within their project."""

    weight: float
    part: float
    target_gpu_h: float


@dataclass(frozen=True, slots=True)
class Row:
    """An entity of a ledger, as it is and as it would be; of a person ``name`` is (project, user)."""

    name: Name
    active: bool
    before: Due
    after: Due


def preview(ledger: str, weights: Mapping[Name, float], now: datetime) -> list[Row]:
    """Every entity of the ledger under these weights instead of its own; those that ``weights`` leaves out keep theirs.

    ``ledger`` is one of :data:`LEDGERS`; the keys are ``(queue,)``, ``(project,)`` or ``(project, user)``.
    """
    snapshot = load.snapshot(now)
    then = replace(snapshot, policy=_with(snapshot.policy, ledger, weights))
    old, new = FairShare.of(snapshot), FairShare.of(then)
    was, becomes = _weights(snapshot.policy, ledger), _weights(then.policy, ledger)
    active = {_name(key) for key in _ledger(old, ledger).keys()}  # noqa: SIM118  it is no mapping
    return [
        Row(
            name, name in active,
            Due(was[name], _part(was, name), _target(old, ledger, name)),
            Due(becomes[name], _part(becomes, name), _target(new, ledger, name)),
        )
        for name in sorted(was)
    ]  # fmt: skip


def _with(policy: Policy, ledger: str, weights: Mapping[Name, float]) -> Policy:
    if ledger == "queue":
        queues = tuple(replace(queue, weight=weights.get((queue.name,), queue.weight)) for queue in policy.queues)
        return replace(policy, queues=queues)
    if ledger == "project":
        mine = {name: weights.get((name,), weight) for name, weight in policy.project_weights.items()}
        return replace(policy, project_weights=mine)
    people = {key: weights.get(key, weight) for key, weight in policy.user_weights.items()}
    return replace(policy, user_weights=people)


def _weights(policy: Policy, ledger: str) -> dict[Name, float]:
    if ledger == "queue":
        return {(queue.name,): queue.weight for queue in policy.queues}
    if ledger == "project":
        return {(name,): weight for name, weight in policy.project_weights.items()}
    return {(project, user): weight for (project, user), weight in policy.user_weights.items()}


def _part(weights: Mapping[Name, float], name: Name) -> float:
    """Of everybody with whom it is compared: of a person those of the project."""
    total = sum(weight for other, weight in weights.items() if other[:-1] == name[:-1])
    return weights[name] / total if total else 0.0


def _ledger(share: FairShare, ledger: str) -> Any:
    return {"queue": share.queues, "project": share.projects, "user": share.users}[ledger]


def _target(share: FairShare, ledger: str, name: Name) -> float:
    key: Any = name if ledger == "user" else name[0]
    return share.score(_ledger(share, ledger), key, 1).target_gpu_h


def _name(key: Any) -> Name:
    return key if isinstance(key, tuple) else (key,)
