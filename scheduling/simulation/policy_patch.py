"""Which policy does a patch make? A JSON object that names only what differs from another policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scheduling.core.policy import LEDGERS, MAX_WEIGHT, Level, Policy, PreemptRule, QueuePolicy

Read = Callable[[str, Any], Any]
MAX_SECONDS = 10.0**9
MAX_COUNT = 10_000
RULE_KEYS = tuple(field.name for field in fields(PreemptRule))
QUEUE_KEYS = ("weight", "grace_s", "default_max_duration_s", "max_duration_cap_s", "default_level", "levels")


class PatchError(ValueError):
    """The patch can't be applied; the message names the key, its limit and what to write."""


def patch_of(path: Path) -> Mapping[str, Any]:
    """The patch in a JSON file; PatchError when it can't be read or is no object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as unreadable:
        raise PatchError(f"{path} can't be read ({unreadable.strerror}); name a JSON file") from unreadable
    except (ValueError, RecursionError) as unreadable:
        raise PatchError(f"{path} is not JSON ({unreadable}); mend it there") from unreadable
    return _object(path.name, found)


def patched(policy: Policy, patch: Mapping[str, Any]) -> Policy:
    """``policy`` with what ``patch`` names changed; everything else stays.

    Keys: ``half_life_s``, ``share_window_s`` (seconds); ``ledgers`` (a list of queue, project, user); ``in_flight``
    (full, cycle, off); ``nvlink_mode`` (shared, exclusive); ``prefer`` (whole_groups, smallest_memory, best_fit);
    ``project_weights``, ``billing`` (weights by name); ``user_weights`` (by "project/user"); ``queues`` (by name:
    ``QUEUE_KEYS``, where levels gives values by name); ``preemption`` (the whole list of rules, each with
    ``RULE_KEYS``); ``backfill``, ``evict``, ``retry`` (objects with the fields of these parts of the policy).
    PatchError names the key and what to write.
    """
    _known("the policy", patch, tuple(_KEYS) + tuple(_PARTS))
    changes: dict[str, Any] = {key: _KEYS[key](key, value) for key, value in patch.items() if key in _KEYS}
    if "queues" in patch:
        changes["queues"] = _queues(policy.queues, _object("queues", patch["queues"]))
    for part, readers in _PARTS.items():
        if part in patch and part != "queues":
            changes[part] = _part(getattr(policy, part), part, _object(part, patch[part]), readers)
    made = replace(policy, **changes)
    _check_names(made)
    return made


def _check_names(policy: Policy) -> None:
    """Every queue has its default level, and every rule speaks of queues and levels that there are."""
    for queue in policy.queues:
        if queue.level(queue.default_level) is None:
            names = ", ".join(level.name for level in queue.levels)
            raise PatchError(f"queues.{queue.name}.default_level is {queue.default_level!r}; name one of {names}")
    for place, rule in enumerate(policy.preemption):
        for name, level in ((rule.queue, rule.level), (rule.victim_queue, rule.victim_level)):
            found = policy.queue(name)
            if found is None or found.level(level) is None:
                raise PatchError(f"preemption.{place}: there is no level {level!r} of a queue {name!r}; mend the rule")


def _part(old: Any, part: str, new: Mapping[str, Any], readers: Mapping[str, Read]) -> Any:
    _known(part, new, tuple(readers))
    return replace(old, **{key: readers[key](f"{part}.{key}", value) for key, value in new.items()})


def _queues(old: Sequence[QueuePolicy], new: Mapping[str, Any]) -> tuple[QueuePolicy, ...]:
    _known("queues", new, tuple(queue.name for queue in old))
    return tuple(
        _part(queue, f"queues.{queue.name}", _object(f"queues.{queue.name}", new[queue.name]), _PARTS["queues"])
        if queue.name in new
        else queue
        for queue in old
    )


def _known(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]}?" if near else "remove it;"
            raise PatchError(f"there is no {key!r} in {where}; {hint} known are {', '.join(known)}")


def _object(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PatchError(f'{key} must be an object like {{"name": value}}, not {value!r}')
    return value


def _number(most: float, *, least: float = 0.0) -> Read:
    def read(key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise PatchError(f"{key} must be a number from {least:g} to {most:g}, not {value!r}")
        return float(value)

    return read


def _whole(most: int, *, least: int = 0) -> Read:
    def read(key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise PatchError(f"{key} must be a whole number from {least} to {most}, not {value!r}")
        return value

    return read


def _one_of(*names: str) -> Read:
    def read(key: str, value: Any) -> str:
        if value not in names:
            raise PatchError(f"{key} must be one of {', '.join(names)}, not {value!r}")
        return str(value)

    return read


def _ledgers(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        raise PatchError(f"{key} must be a list of some of {', '.join(LEDGERS)}, each once, not {value!r}")
    return tuple(_one_of(*LEDGERS)(key, name) for name in value)


def _weights(key: str, value: Any) -> dict[str, float]:
    read = _number(MAX_WEIGHT)
    return {name: read(f"{key}.{name}", weight) for name, weight in _object(key, value).items()}


def _user_weights(key: str, value: Any) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for name, weight in _weights(key, value).items():
        project, slash, user = name.partition("/")
        if not (project and slash and user):
            raise PatchError(f'{key}: write each user as "project/user", not {name!r}')
        found[(project, user)] = weight
    return found


def _levels(key: str, value: Any) -> tuple[Level, ...]:
    read = _whole(1000, least=1)
    levels = tuple(Level(name, read(f"{key}.{name}", number)) for name, number in _object(key, value).items())
    if not levels:
        raise PatchError(f'{key} must have at least one level like {{"Normal": 2}}')
    return levels


def _rules(key: str, value: Any) -> tuple[PreemptRule, ...]:
    if not isinstance(value, list):
        raise PatchError(f"{key} must be a list of rules, each with {', '.join(RULE_KEYS)}; [] for no preemption")
    rules: list[PreemptRule] = []
    for place, raw in enumerate(value):
        rule = _object(f"{key}.{place}", raw)
        _known(f"{key}.{place}", rule, RULE_KEYS)
        missing = [name for name in RULE_KEYS if not isinstance(rule.get(name), str)]
        if missing:
            raise PatchError(f"{key}.{place}.{missing[0]} must name a queue or a level as text")
        rules.append(PreemptRule(**rule))
    return tuple(rules)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise PatchError(f"{key} must be text, not {value!r}")
    return value


_SECONDS = _number(MAX_SECONDS)
_WHOLE_SECONDS = _whole(2**31 - 1, least=1)
_KEYS: Mapping[str, Read] = {
    "half_life_s": _SECONDS,
    "share_window_s": _number(MAX_SECONDS, least=1.0),
    "ledgers": _ledgers,
    "in_flight": _one_of("full", "cycle", "off"),
    "nvlink_mode": _one_of("shared", "exclusive"),
    "prefer": _one_of("whole_groups", "smallest_memory", "best_fit"),
    "project_weights": _weights,
    "user_weights": _user_weights,
    "billing": _weights,
    "preemption": _rules,
}
_PARTS: Mapping[str, Mapping[str, Read]] = {
    "queues": {
        "weight": _number(MAX_WEIGHT),
        "grace_s": _SECONDS,
        "default_max_duration_s": _WHOLE_SECONDS,
        "max_duration_cap_s": _WHOLE_SECONDS,
        "default_level": _text,
        "levels": _levels,
    },
    "backfill": {
        "reservations_per_level": _whole(MAX_COUNT),
        "aged_after_s": _SECONDS,
        "aged_reservations": _whole(MAX_COUNT),
        "rack_patience_s": _SECONDS,
    },
    "evict": {
        "protect_s": _SECONDS,
        "protect_times": _whole(MAX_COUNT, least=1),
        "nomination_slack_s": _SECONDS,
    },
    "retry": {
        "infrastructure_budget": _whole(MAX_COUNT),
        "backoff_s": _SECONDS,
        "backoff_cap_s": _SECONDS,
    },
}
