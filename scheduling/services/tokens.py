"""The verbs of API tokens: issue one that can do no more than its maker, revoke one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knox.crypto import hash_token

from scheduling.core.fields import shown
from scheduling.store import seed
from scheduling.store.queries.access import Actor
from scheduling.store.queries.credentials import SCOPES
from workers.catalog import nearest

MAX_DAYS = 365
DEFAULT_DAYS = 90
MAX_NAME = 80
ID_DIGITS = 16  # a token's id is the beginning of its digest
FIELDS = ("name", "scopes", "days")


@dataclass(frozen=True, slots=True)
class Issued:
    """The secret, which is kept nowhere, and when it stops working."""

    id: str
    token: str
    name: str
    scopes: tuple[str, ...]
    expires: datetime


@dataclass(frozen=True, slots=True)
class TokenRefused:
    """Every reason at once."""

    errors: tuple[dict[str, Any], ...]


def issue(
    actor: Actor, message: Mapping[str, Any], now: datetime, *, maker_expires: datetime | None = None
) -> Issued | TokenRefused:
    """A new token of the actor, with scopes that the actor's own credential has.

    A token made by a token lives in whole days and no longer than its maker (``maker_expires``).
    """
    errors: list[dict[str, Any]] = []
    for field in message:
        if field not in FIELDS:
            errors.append(
                _wrong(
                    field[:80],
                    "unknown_field",
                    f"there is no field {field[:80]!r}{nearest(field, FIELDS)}",
                    list(FIELDS),
                )
            )
    name = message.get("name")
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= MAX_NAME or not name.isprintable():
        errors.append(
            _wrong("name", "bad_name", f"name is 1 to {MAX_NAME} printable characters: what the token is for", MAX_NAME)
        )
    scopes = message.get("scopes")
    errors += _scope_errors(actor, scopes)
    days = message.get("days", DEFAULT_DAYS)
    most = MAX_DAYS if maker_expires is None else min(MAX_DAYS, (maker_expires - now).days)
    if "days" not in message:
        days = min(DEFAULT_DAYS, max(most, 1))
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= most:
        why = "" if most == MAX_DAYS else ": a token can't outlive the one that made it"
        errors.append(_wrong("days", "out_of_range", f"days must be a whole number from 1 to {most}{why}", [1, most]))
    if errors or not isinstance(scopes, list) or not isinstance(name, str):
        return TokenRefused(tuple(errors))
    granted = tuple(s for s in SCOPES if s in scopes)
    secret, expires = seed.token(actor.user_id, name.strip(), granted, days=days)
    return Issued(hash_token(secret)[:ID_DIGITS], secret, name.strip(), granted, expires)


def _scope_errors(actor: Actor, scopes: Any) -> list[dict[str, Any]]:
    if not isinstance(scopes, list) or not scopes:
        return [_wrong("scopes", "required", f"scopes is a list of one or more of {', '.join(SCOPES)}", list(SCOPES))]
    errors = []
    for index, scope in enumerate(scopes[: 2 * len(SCOPES)]):
        field = f"scopes.{index}"
        if not isinstance(scope, str) or scope not in SCOPES:
            hint = nearest(str(scope)[:80], list(SCOPES))
            errors.append(_wrong(field, "unknown_scope", f"there is no scope {shown(scope)}{hint}", list(SCOPES)))
        elif not _holds(actor, scope):
            held = [s for s in SCOPES if _holds(actor, s)]
            errors.append(_wrong(field, "scope_not_held", f"you can't give {scope}: you don't have it yourself", held))
    return errors


def _holds(actor: Actor, scope: str) -> bool:
    """True when both the actor's credential and the person have the scope."""
    person = {"admin": actor.is_admin, "pool:operate": actor.may_operate, "jobs:submit:critical": actor.may_critical}
    return actor.may(scope) and person.get(scope, True)


def revoke(actor: Actor, token_id: str) -> bool:
    """That token of the actor's no longer works; False when the actor has no such token."""
    return seed.revoke(actor.user_id, token_id)


def _wrong(field: str, code: str, message: str, limit: Any) -> dict[str, Any]:
    return {"field": field, "code": code, "message": message, "limit": limit}
