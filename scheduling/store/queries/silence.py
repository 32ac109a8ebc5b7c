"""Which nodes are silent, since when, and when is what runs on them taken back?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduling.core.reclaim import is_silent
from scheduling.store.clock import from_ms, to_ms
from scheduling.store.load_policy import lease_s
from scheduling.store.load_pool import leases, silence


@dataclass(frozen=True, slots=True)
class Silence:
    """A node that has been silent for half a lease or longer: it gets no new work.

    ``since``: when it was last heard of. ``until_ms``: what it runs is taken back then unless it is heard of before;
    None while so many are silent that nothing is taken back. ``guarded``: it fell silent together with many others
    (D21), so that ``until_ms`` is later than the end of its lease, or there is none.
    """

    since: datetime
    until_ms: int | None
    guarded: bool = False


def silences(now: datetime) -> dict[str, Silence]:
    """The silent nodes by name, as the scheduler counts silence; whom it guards, as its last tick found it.

    Two queries, and one more where there are any.
    """
    lease = lease_s()
    found = [each for each in leases(now) if is_silent(each, lease)]
    if not found:
        return {}
    guard, confirmed = silence(now, lease_s=lease)
    silent = {}
    for each in found:
        over_ms = to_ms(now) - each.silent_ms + round(lease * 1000)
        guarded = not confirmed and guard.nodes.get(each.node) == each.last_heartbeat_ms
        until_ms = over_ms if not guarded else None if guard.until_ms is None else max(over_ms, guard.until_ms)
        silent[each.node] = Silence(from_ms(each.last_heartbeat_ms), until_ms, guarded)
    return silent
