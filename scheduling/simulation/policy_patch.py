"""Which policy does a patch make? A JSON object that names only what differs from another policy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from scheduling.core.fields import nearest, shown
from scheduling.core.policy import LEDGERS, MAX_WEIGHT, Level, Policy, PreemptRule, QueuePolicy
from scheduling.simulation.policy_whole import Wrong, wrong_together

Read = Callable[[str, Any], Any]
MAX_SECONDS = 10.0**9
MAX_COUNT = 10_000
MAX_KEY = 80  # characters of a key that are said back
LIKE = 0.75  # so like a name that there is must be what is taken for it misspelt, 0 to 1
UNLISTED = 1.0  # the weight of a name that has none
RULE_KEYS = tuple(field.name for field in fields(PreemptRule))
QUEUE_KEYS = ("weight", "grace_s", "default_max_duration_s", "max_duration_cap_s", "default_level", "levels")


class PatchError(ValueError):
    """The patch can't be applied; the message names every wrong key, its limit and what to write."""

    def __init__(self, *wrong: Wrong) -> None:
        super().__init__("; ".join(_known_once(wrong)))
        self.wrong = wrong


def _known_once(wrong: Sequence[Wrong]) -> Iterator[str]:
    """The messages, of which the last one of each place alone says which names are known there."""
    last = {(each.place, each.known): each for each in wrong}
    for each in wrong:
        is_last = last[each.place, each.known] is each
        yield each.message if is_last else each.message.removesuffix(each.known)


class GivenTwice(ValueError):
    """JSON with a key that is there twice in one object."""


def _error(path: str, message: str) -> PatchError:
    return PatchError(Wrong(path, message))


def patch_of(path: Path) -> Mapping[str, Any]:
    """The patch in a JSON file; PatchError when it can't be read or is no object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_once)
    except OSError as unreadable:
        raise _error("", f"{path} can't be read ({unreadable.strerror}); name a JSON file") from unreadable
    except GivenTwice as twice:
        raise _error("", f"{path}: {twice}; give each key once") from twice
    except (ValueError, RecursionError) as unreadable:
        raise _error("", f"{path} is not JSON ({unreadable}); mend it there") from unreadable
    if not isinstance(found, Mapping):
        raise _error("", f'{path} must hold an object like {{"half_life_s": 86400}}, not {shown(found)}')
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members; GivenTwice when a name is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = dict.fromkeys(name for name in names if names.count(name) > 1)
        raise GivenTwice(" and ".join(f"the key {name[:MAX_KEY]!r} is there twice" for name in twice))
    return found


def patched(policy: Policy, patch: Mapping[str, Any]) -> Policy:
    """``policy`` with what ``patch`` names changed; everything else stays.

    Weights by name change for the names that the patch has.
    Keys: ``half_life_s``, ``share_window_s`` (seconds); ``ledgers`` (a list of queue, project, user); ``in_flight``
    (full, cycle, off); ``nvlink_mode`` (shared, exclusive); ``prefer`` (whole_groups, smallest_memory, best_fit);
    ``project_weights``, ``billing`` (weights by name); ``user_weights`` (by "project/user"); ``queues`` (by name:
    ``QUEUE_KEYS``, where levels gives values by name); ``preemption`` (the whole list of rules, each with
    ``RULE_KEYS``); ``backfill``, ``evict``, ``retry`` (objects with the fields of these parts of the policy).
    PatchError names every wrong key and what to write.
    """
    wrong = list(_unknown("", patch, (*_KEYS, *_PARTS)))
    changes: dict[str, Any] = {}
    for key in patch:
        with _kept(wrong):
            if key in _KEYS:
                read = _KEYS[key](key, patch[key])
                changes[key] = {**getattr(policy, key), **read} if key in _BY_NAME else read
            elif key == "queues":
                changes[key] = _queues(policy.queues, _object(key, patch[key]))
            elif key in _PARTS:
                changes[key] = _part(getattr(policy, key), key, _object(key, patch[key]), _PARTS[key])
    if not wrong:
        made = replace(policy, **changes)
        wrong += wrong_together(made, patch)
    if wrong:
        raise PatchError(*wrong)
    return made


def already(policy: Policy, patch: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(path, value) of what ``patch`` names and ``policy`` has already; ``patched`` takes the patch."""
    for key, value in patch.items():
        if key == "queues":
            for name, rules in value.items():
                yield from _already(policy.queue(name), f"queues.{name}", rules, _PARTS["queues"])
        elif key in _PARTS:
            yield from _already(getattr(policy, key), key, value, _PARTS[key])
        elif key in _BY_NAME:
            held, read = getattr(policy, key), _KEYS[key](key, value)
            yield from ((f"{key}.{said}", value[said]) for said, name in zip(value, read, strict=True)
                        if held.get(name, UNLISTED) == read[name])  # fmt: skip
        elif _KEYS[key](key, value) == getattr(policy, key):
            yield key, value


def _already(
    part: Any, path: str, named: Mapping[str, Any], readers: Mapping[str, Read]
) -> Iterator[tuple[str, Any]]:  # fmt: skip
    for key, value in named.items():
        held, read = getattr(part, key), readers[key](f"{path}.{key}", value)
        if held == read or (key == "levels" and sorted(held, key=_level_name) == sorted(read, key=_level_name)):
            yield f"{path}.{key}", value


def _level_name(level: Level) -> str:
    return level.name


@contextmanager
def _kept(wrong: list[Wrong]) -> Iterator[None]:
    """What goes wrong inside is added to the list."""
    try:
        yield
    except PatchError as error:
        wrong += error.wrong


def _part(old: Any, part: str, new: Mapping[str, Any], readers: Mapping[str, Read]) -> Any:
    wrong = list(_unknown(part, new, tuple(readers)))
    changes: dict[str, Any] = {}
    for key, value in new.items():
        if key in readers:
            with _kept(wrong):
                changes[key] = readers[key](f"{part}.{key}", value)
    if wrong:
        raise PatchError(*wrong)
    return replace(old, **changes)


def _queues(old: Sequence[QueuePolicy], new: Mapping[str, Any]) -> tuple[QueuePolicy, ...]:
    wrong = list(_unknown("queues", new, [queue.name for queue in old]))
    made: list[QueuePolicy] = []
    for queue in old:
        with _kept(wrong):
            path = f"queues.{queue.name}"
            given = _object(path, new.get(queue.name, {}))
            made.append(_part(queue, path, given, _PARTS["queues"]))
    if wrong:
        raise PatchError(*wrong)
    return tuple(made)


def _unknown(path: str, given: Mapping[str, Any], known: Sequence[str]) -> Iterator[Wrong]:
    where = path or "the policy"
    for key in given:
        if key not in known:
            elsewhere = " or ".join(_places_of(key))
            hint = f"; it stands in {elsewhere}: move it there, or" if elsewhere else _meant(key, known)
            listed = f"; known are {', '.join(known)}"
            message = f"there is no {shown(key)} in {where}{hint} remove it{listed}"
            yield Wrong(f"{path}.{key[:MAX_KEY]}" if path else key[:MAX_KEY], message, path, listed)


def _meant(key: str, known: Sequence[str]) -> str:
    return f"{nearest(key, known, likeness=LIKE)};"


def _places_of(key: str) -> Iterator[str]:
    """Where in a patch the key would be known, if anywhere."""
    if key in _KEYS or key in _PARTS:
        yield "the policy itself"
    for part, readers in _PARTS.items():
        if key in readers:
            yield "a queue of queues" if part == "queues" else part


def _object(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _error(key, f'{key} must be an object like {{"name": value}}, not {shown(value)}')
    return value


def _number(most: float, *, least: float = 0.0) -> Read:
    def read(key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise _error(key, f"{key} must be a number from {least:g} to {most:g}, not {shown(value)}")
        return float(value)

    return read


def _whole(most: int, *, least: int = 0) -> Read:
    def read(key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _error(key, f"{key} must be a whole number from {least} to {most}, not {shown(value)}")
        return value

    return read


def _one_of(*names: str) -> Read:
    def read(key: str, value: Any) -> str:
        if value not in names:
            raise _error(key, f"{key} must be one of {', '.join(names)}, not {shown(value)}")
        return str(value)

    return read


def _ledgers(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        raise _error(key, f"{key} must be a list of some of {', '.join(LEDGERS)}, each once, not {shown(value)}")
    return tuple(_one_of(*LEDGERS)(key, name) for name in value)


def _each(key: str, value: Any, read: Read) -> dict[str, Any]:
    """Every member of an object, read; PatchError with all that is wrong with them."""
    wrong: list[Wrong] = []
    found: dict[str, Any] = {}
    for name, member in _object(key, value).items():
        with _kept(wrong):
            found[name] = read(f"{key}.{name}", member)
    if wrong:
        raise PatchError(*wrong)
    return found


def _weights(key: str, value: Any) -> dict[str, float]:
    return _each(key, value, _number(MAX_WEIGHT))


def _user_weights(key: str, value: Any) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for name, weight in _weights(key, value).items():
        project, slash, user = name.partition("/")
        if not (project and slash and user):
            raise _error(f"{key}.{name}", f'{key}: write each user as "project/user", not {shown(name)}')
        found[(project, user)] = weight
    return found


def _levels(key: str, value: Any) -> tuple[Level, ...]:
    levels = tuple(Level(name, number) for name, number in _each(key, value, _whole(1000, least=1)).items())
    if not levels:
        raise _error(key, f'{key} must have at least one level like {{"Normal": 2}}')
    first: dict[str, str] = {}
    for level in levels:
        other = first.setdefault(level.name.casefold(), level.name)
        if other != level.name:
            raise _error(key, f"{key} names {other} again as {level.name}: case does not count; name each level once")
    return levels


def _rules(key: str, value: Any) -> tuple[PreemptRule, ...]:
    if not isinstance(value, list):
        raise _error(key, f"{key} must be a list of rules, each with {', '.join(RULE_KEYS)}; [] for no preemption")
    return tuple(_each(key, {str(place): raw for place, raw in enumerate(value)}, _rule).values())


def _rule(key: str, value: Any) -> PreemptRule:
    rule = _object(key, value)
    wrong = list(_unknown(key, rule, RULE_KEYS))
    missing = [f"{key}.{name}" for name in RULE_KEYS if not isinstance(rule.get(name), str)]
    wrong += [Wrong(path, f"{path} must name a queue or a level as text") for path in missing]
    if wrong:
        raise PatchError(*wrong)
    return PreemptRule(**rule)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _error(key, f"{key} must be text, not {shown(value)}")
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
_BY_NAME = ("project_weights", "user_weights", "billing")
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
