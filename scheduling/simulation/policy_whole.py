"""Does a patched policy hold together? Each of its keys may be what it is, and yet they don't fit each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.core.policy import Policy, PreemptRule, QueuePolicy, goes_down

MAX_LISTED = 8  # rules that one error names
DURATIONS = ("default_max_duration_s", "max_duration_cap_s")
BACKOFFS = ("backoff_s", "backoff_cap_s")


@dataclass(frozen=True, slots=True)
class Wrong:
    """One thing that is wrong with a patch: the whole path of its key, "" for the patch itself, and what to write.

    ``known``: how the message of an unknown name ends, with those that there are in its ``place``.
    """

    path: str
    message: str
    place: str = ""
    known: str = ""


def wrong_together(policy: Policy, patch: Mapping[str, Any]) -> Iterator[Wrong]:
    """What each key may be, but not all of them at once: queues that lack their default level, rules that speak of
    levels there are not, limits in the wrong order."""
    queues = patch.get("queues", {})
    for queue in policy.queues:
        given = queues.get(queue.name, {})
        if "levels" in given:
            yield from _left_behind(
                policy, queue, own_default="default_level" in given, rules="preemption" not in patch
            )
        if queue.level(queue.default_level) is None and ("default_level" in given or "levels" not in given):
            path, names = f"queues.{queue.name}.default_level", ", ".join(level.name for level in queue.levels)
            yield Wrong(path, f"{path} is {queue.default_level!r}; name one of {names}")
    if "preemption" in patch:
        for place, rule in enumerate(policy.preemption):
            yield from _broken_rule(policy, rule, f"preemption.{place}")
    for queue in policy.queues:
        yield from _in_order(queue, queues.get(queue.name, {}), f"queues.{queue.name}", *DURATIONS)
    yield from _in_order(policy.retry, patch.get("retry", {}), "retry", *BACKOFFS)


def _in_order(part: Any, given: Mapping[str, Any], path: str, low: str, high: str) -> Iterator[Wrong]:
    """An error at the key that was given if the part's ``low`` is above its ``high``."""
    least, most = getattr(part, low), getattr(part, high)
    if least > most and (low in given or high in given):
        message = f"{path}.{low} ({least:g}) must not be above {path}.{high} ({most:g}); lower it, or raise the other"
        yield Wrong(f"{path}.{low if low in given else high}", message)


def _left_behind(policy: Policy, queue: QueuePolicy, *, own_default: bool, rules: bool) -> Iterator[Wrong]:
    """One error for all that still needs levels of the queue as they were before its ``levels`` were replaced.

    ``own_default``: the patch names a default level; ``rules``: it leaves the rules of preemption as they are.
    """
    gone: dict[str, None] = {}
    needs: list[str] = []
    if not own_default and queue.level(queue.default_level) is None:
        gone[queue.default_level] = None
        needs.append("default_level")
    turned: list[str] = []
    for place, rule in enumerate(policy.preemption if rules else ()):
        sides = ((rule.queue, rule.level), (rule.victim_queue, rule.victim_level))
        lacking = [level for name, level in sides if name == queue.name and queue.level(level) is None]
        told = f"preemption.{place} ({rule.queue}/{rule.level} may evict {rule.victim_queue}/{rule.victim_level})"
        if lacking:
            gone |= dict.fromkeys(lacking)
            needs.append(told)
        elif queue.name in (rule.queue, rule.victim_queue) and _upside_down(policy, rule):
            turned.append(told)
    path = f"queues.{queue.name}.levels"
    if gone:
        yield Wrong(path, f"{path} leaves out {', '.join(gone)}, still named by {_listed(needs)}; keep the level, or "
                          f"give the patch {_instead(queue, needs)} without it")  # fmt: skip
    if turned:
        yield Wrong(path, f"{path} puts victims no lower than who evicts them by {_listed(turned)}; change the "
                          'numbers, or give the patch the whole list "preemption" without these rules')  # fmt: skip


def _listed(needs: Sequence[str]) -> str:
    more = f" and {len(needs) - MAX_LISTED} more" if len(needs) > MAX_LISTED else ""
    return f"{', '.join(needs[:MAX_LISTED])}{more}"


def _instead(queue: QueuePolicy, needs: Sequence[str]) -> str:
    """The keys that the patch has to give too."""
    keys = [f"queues.{queue.name}.default_level"] if "default_level" in needs else []
    keys += ['the whole list "preemption"'] if any(each != "default_level" for each in needs) else []
    return " and ".join(keys)


def _upside_down(policy: Policy, rule: PreemptRule) -> bool:
    """Whether both levels of the rule are there and the victim's is not the lower one."""
    upper, lower = policy.queue(rule.queue), policy.queue(rule.victim_queue)
    there = upper and lower and upper.level(rule.level) and lower.level(rule.victim_level)
    return there is not None and not goes_down(policy, rule)


def _broken_rule(policy: Policy, rule: PreemptRule, at: str) -> Iterator[Wrong]:
    """Queues and levels of the rule that there are not, or that it goes up."""
    known = True
    for prefix, name, level in (("", rule.queue, rule.level), ("victim_", rule.victim_queue, rule.victim_level)):
        found = policy.queue(name)
        if found is None or found.level(level) is None:
            path = f"{at}.{prefix}{'queue' if found is None else 'level'}"
            yield Wrong(path, f"{path}: there is no level {level!r} of a queue {name!r}; mend the rule")
            known = False
    if known and not goes_down(policy, rule):
        path = f"{at}.victim_level"
        yield Wrong(path, f"{path}: {rule.victim_level} is not below {rule.level}; a job evicts only lower levels, "
                          "else jobs would evict each other without end")  # fmt: skip
