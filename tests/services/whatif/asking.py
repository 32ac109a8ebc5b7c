"""Asking what would happen, as the tests here do it."""

from __future__ import annotations

from scheduling.core.plan import Reason
from scheduling.services import whatif
from scheduling.services.whatif import Planned
from tests import builders as b


def planned(actor, body, now=b.NOON) -> Planned:
    """The plan of a body that can be planned."""
    found = whatif.plan(body, actor, now)
    assert isinstance(found, Planned), found
    return found


def codes(found) -> list[str]:
    """The codes of the reasons, in their order."""
    return [each.code if isinstance(each, Reason) else each["code"] for each in found.reasons]


def broken(token, body, actor, now=b.NOON) -> str | None:
    """Why the promise of this token is kept no more."""
    return whatif.broken_promise(token, body, actor, now)
