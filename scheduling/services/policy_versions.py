"""How was the policy, who changed it, and back again: every change is a version, of whatever door it came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import transaction

from scheduling.services.replay_change import Errors, changed_policy
from scheduling.simulation.policy_patch import UNLISTED, already
from scheduling.store import load, policy_rows
from scheduling.store.commit import whatif_rows
from scheduling.store.policy_rows import Kept
from scheduling.store.queries.access import Actor

ELSEWHERE = "changed elsewhere"
FIRST = "as it was first known"


@dataclass(frozen=True, slots=True)
class Line:
    """One value that differs: its path, as in REST, and what it was and is; None for what is not there."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Version:
    """A change of the policy, with what it changed. ``may_revert``: there is a version before it, and each of its
    values is still as it made it."""

    number: int
    at: datetime
    by: str
    why: str
    what_if: UUID | None
    reverts: int | None
    lines: tuple[Line, ...]
    may_revert: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """The policy is as it was; every reason why."""

    messages: tuple[str, ...]


def present() -> dict[str, Any]:
    """The policy of now as a change that would make it, as far as it can be changed."""
    return policy_rows.whole()


def note(now: datetime, *, user_id: int | None, why: str) -> None:
    """What was changed by other means than here, such as the admin's pages, is a version too; nothing where nothing
    was."""
    whole, last = policy_rows.whole(), policy_rows.newest()
    if last is None or last.policy != whole:
        policy_rows.keep_version(whole, now, user_id=user_id if last else None, why=why if last else FIRST)


def foreseen(change: Mapping[str, Any]) -> tuple[Line, ...] | Refused:
    """What the change would change now, value by value."""
    errors: Errors = []
    policy = load.policy_of()
    made = changed_policy(change, policy, load.pool_of(), errors)
    if errors:
        return Refused(tuple(error["message"] for error in errors))
    return tuple(_lines(policy_rows.whole(policy), policy_rows.whole(made)))


def fixed(change: Mapping[str, Any]) -> list[str]:
    """The paths of the change that no row holds: they are fixed in the program."""
    policy = load.policy_of()
    errors: Errors = []
    made = changed_policy(change, policy, load.pool_of(), errors)
    if errors:
        return []
    held = {path.partition(".")[0] for path in policy_rows.whole(policy)}
    there = dict(already(made, change))
    return sorted(path for path in there if path.partition(".")[0] not in held)


def apply(what_if: UUID, actor: Actor, now: datetime) -> int | Refused:
    """The policy is as the replay has tried it, as a version of its own; returns its number."""
    run = whatif_rows.one(what_if)
    if run is None:
        return Refused(("there is no such replay any more",))
    return _changed(run.change.get("policy", {}), actor, now, why="applied after a replay", what_if=what_if)


def revert(number: int, actor: Actor, now: datetime) -> int | Refused:
    """What the version changed is as it was before it, as a version of its own; refused where one of its values was
    changed again since."""
    found = policy_rows.pair(number)
    if found is None:
        return Refused((f"there is no version {number} with one before it",))
    version, before = found
    again = [line.path for line in _changed_since(version.policy, before.policy)]
    if again:
        return Refused((f"{', '.join(again)} was changed again since: revert the later versions first",))
    patch = _patch(version.policy, before.policy)
    return _changed(patch, actor, now, why=f"reverts version {number}", reverts=number)


def versions(limit: int = 50) -> list[Version]:
    """The newest changes of the policy, the newest first."""
    kept = policy_rows.versions(limit + 1)
    found = []
    for row, before in zip_longest(kept, kept[1:]):
        lines = () if before is None else tuple(_lines(before.policy, row.policy))
        free = before is not None and bool(lines) and not any(_changed_since(row.policy, before.policy))
        by = row.user.get_username() if row.user else ""
        found.append(Version(row.pk, row.at, by, row.why, row.what_if_id, row.reverts_id, lines, free))
    return found[:limit]


@transaction.atomic
def _changed(
    patch: Mapping[str, Any], actor: Actor, now: datetime, *, why: str, what_if: UUID | None = None,
    reverts: int | None = None,
) -> int | Refused:  # fmt: skip
    policy_rows.lock()
    note(now, user_id=None, why=ELSEWHERE)
    errors: Errors = []
    policy = load.policy_of()
    made = changed_policy(patch, policy, load.pool_of(), errors)
    if errors:
        return Refused(tuple(error["message"] for error in errors))
    if policy_rows.whole(made) == policy_rows.whole(policy):
        return Refused(("the policy is so already",))
    try:
        policy_rows.write(patch, made, user_id=actor.user_id, why=why)
    except Kept as kept:
        return Refused((str(kept),))
    except ValidationError as invalid:
        return Refused(tuple(invalid.messages))
    return policy_rows.keep_version(
        policy_rows.whole(), now, user_id=actor.user_id, why=why, what_if=what_if, reverts=reverts
    )


def _changed_since(version: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Line]:
    """Of the values that the version changed, those that are now otherwise than it made them."""
    mine = {line.path for line in _lines(before, version)}
    for line in _lines(version, policy_rows.whole()):
        if line.path in mine:
            yield line


def _lines(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[Line]:
    """Every value that differs."""
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        name = f"{path}.{key}" if path else str(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping) and key != "levels":
            yield from _lines(old, new, name)
        elif old != new:
            yield Line(name, old, new)


def _patch(version: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The change that makes of the version what was before it. A GPU model that had no weight before has 1 again; any
    other name that was not there before stays as it is."""
    found: dict[str, Any] = {}
    for key, old in before.items():
        new = version.get(key)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping) and key != "levels":
            inner = _patch(new, old)
            if key == "billing":
                inner |= {name: UNLISTED for name in new if name not in old}
            if inner:
                found[key] = inner
        elif new is not None:
            found[key] = old
    return found
