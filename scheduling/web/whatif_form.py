"""The form of a change: every value as it is now, and what of it was typed otherwise as the body that REST takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.http import QueryDict

from scheduling.store.queries.access import Actor

PREFERENCES = (
    ("prefer", "Of several places that fit", (("whole_groups", "keep NVLink groups whole"),
     ("smallest_memory", "smallest sufficient memory"), ("best_fit", "tightest fit"))),
    ("nvlink_mode", "NVLink groups", (("shared", "shared by jobs"), ("exclusive", "one job a group"))),
    ("in_flight", "What is to come counts as used", (("full", "of all that runs or was just placed"),
     ("cycle", "only of what was just placed"), ("off", "not at all"))),
)  # fmt: skip
LEDGERS = ("queue project user", "queue project", "queue user", "project user", "queue", "project", "user")
NUMBERS = (
    (
        "backfill.reservations_per_level",
        "Jobs of each priority that GPUs are promised to",
        "of those that need several",
    ),
    ("backfill.aged_after_s", "Promised GPUs whatever its rank after", "seconds of waiting"),
    ("backfill.aged_reservations", "At most so many of those", "jobs"),
    ("evict.protect_s", "Evicted last while it runs shorter than", "seconds"),
    ("evict.protect_times", "Evicted last after so many evictions a day", "times"),
)
MATRIX = "policy.preemption"
HARDWARE = ("gpus", "memory", "nvlink", "model")
MAX_TYPED = 200


def body(post: QueryDict, present: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from ``present`` (the policy as a change has it) as the body that REST takes; what can't be read as
    a number stays text, for the service to refuse at its field."""
    found: dict[str, Any] = {"days": _number(_typed(post, "days"))}
    policy: dict[str, Any] = {}
    for path, now in _values(present):
        typed = _typed(post, f"policy.{path}")
        if f"policy.{path}" not in post or typed == said(now):
            continue
        value: Any = typed.split() if path == "ledgers" else typed if isinstance(now, str) else _number(typed)
        if value != now:
            _put(policy, path, _seconds(path, value))
    _whole_levels(policy, present)
    if "matrix" in post:
        rules = sorted((_rule(text) for text in post.getlist("preempt")), key=lambda rule: tuple(rule.values()))
        if rules != present["preemption"]:
            policy["preemption"] = rules
    if policy:
        found["policy"] = policy
    if removed := [name[:MAX_TYPED] for name in post.getlist("remove")]:
        found["remove_nodes"] = removed
    if added := list(_added(post)):
        found["add_nodes"] = added
    return found


def fields(
    present: Mapping[str, Any], change: Mapping[str, Any], errors: Mapping[str, str], actor: Actor
) -> dict[str, Any]:
    """The groups of the form: each value as it would be, as it is now, and what is wrong with it. ``change``: the body
    that was tried or sent."""
    policy = change.get("policy", {})

    def field(path: str, label: str, now: Any, help_: str = "", options: Any = None) -> dict[str, Any]:
        wanted = _at(policy, path, now)
        return {
            "path": f"policy.{path}", "label": label, "now": said(now), "value": said(wanted), "help": help_,
            "options": options, "error": errors.get(f"policy.{path}", ""), "differs": wanted != now,
        }  # fmt: skip

    queues = present["queues"]
    half_life = field("half_life_days", "Consumption counts half after", present["half_life_s"] / 86_400, "days")
    if "half_life_s" in policy:
        wanted = policy["half_life_s"]
        half_life["value"] = said(wanted / 86_400) if isinstance(wanted, int | float) else said(wanted)
    half_life["error"] = errors.get("policy.half_life_s", "")
    settings = [
        field("ledgers", "What is compared within a priority", " ".join(present["ledgers"]), "",
              [(names, names.replace(" ", ", then ")) for names in LEDGERS]),
        *(field(key, label, present[key], "", options) for key, label, options in PREFERENCES),
        half_life,
        *(field(path, label, _at(present, path, None), help_) for path, label, help_ in NUMBERS),
    ]  # fmt: skip
    if isinstance(policy.get("ledgers"), list):
        settings[0]["value"] = " ".join(map(str, policy["ledgers"]))
    people = {name: weight for name, weight in present["user_weights"].items() if actor.sees(name.partition("/")[0])}
    return {
        "projects": [field(f"project_weights.{n}", n, w) for n, w in sorted(present["project_weights"].items())],
        "queues": [field(f"queues.{name}.weight", name, queue["weight"]) for name, queue in queues.items()],
        "people": [field(f"user_weights.{name}", name.replace("/", ": "), w) for name, w in sorted(people.items())],
        "levels": [
            {"queue": name, "fields": [field(f"queues.{name}.levels.{level}", level, value)
                                       for level, value in sorted(queue["levels"].items(), key=lambda each: -each[1])]}
            for name, queue in queues.items()
        ],
        "matrix": _matrix(present, policy, errors),
        "settings": settings,
    }  # fmt: skip


def nodes_added(change: Mapping[str, Any], errors: Mapping[str, str]) -> dict[str, Any]:
    """What the fields of nodes to be added hold: one row of nodes like others, one of described ones."""
    like: dict[str, Any] = {}
    new: dict[str, Any] = {}
    for place, row in enumerate(change.get("add_nodes", [])):
        known = like if "like" in row else new
        known |= {key: said(value) for key, value in row.items()}
        known["errors"] = [told for path, told in errors.items() if path.startswith(f"add_nodes.{place}")]
    return {"like": like, "new": new}


def beside(form: Mapping[str, Any]) -> set[str]:
    """The paths at which this form shows an error beside its field."""
    rows = [*form["projects"], *form["queues"], *form["people"], *form["settings"]]
    rows += [each for level in form["levels"] for each in level["fields"]]
    return {each["path"] for each in rows} | {"policy.half_life_s", "days"}


def said(value: Any) -> str:
    """A value as somebody would type it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:.12g}"


def _values(present: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(path, value) of everything that has a field of its own."""
    yield "half_life_days", present["half_life_s"] / 86_400
    yield "ledgers", " ".join(present["ledgers"])
    for key, _, _ in PREFERENCES:
        yield key, present[key]
    for path, _, _ in NUMBERS:
        yield path, _at(present, path, None)
    for group in ("project_weights", "user_weights"):
        for name, weight in present[group].items():
            yield f"{group}.{name}", weight
    for name, queue in present["queues"].items():
        yield f"queues.{name}.weight", queue["weight"]
        for level, value in queue["levels"].items():
            yield f"queues.{name}.levels.{level}", value


def _seconds(path: str, value: Any) -> Any:
    """Days as seconds, where that is what was typed."""
    return value * 86_400 if path == "half_life_days" and isinstance(value, int | float) else value


def _whole_levels(policy: dict[str, Any], present: Mapping[str, Any]) -> None:
    """Levels are given all together."""
    if "half_life_days" in policy:
        policy["half_life_s"] = policy.pop("half_life_days")
    for name, queue in policy.get("queues", {}).items():
        if "levels" in queue:
            queue["levels"] = {**present["queues"][name]["levels"], **queue["levels"]}


def _keys(path: str) -> list[str]:
    """The keys of a path; a name may have dots of its own."""
    first, _, rest = path.partition(".")
    if first in ("project_weights", "user_weights"):
        return [first, rest]
    if first == "queues" and ".levels." in rest:
        queue, _, level = rest.partition(".levels.")
        return [first, queue, "levels", level]
    if first == "queues":
        queue, _, key = rest.rpartition(".")
        return [first, queue, key]
    return path.split(".")


def _put(policy: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = _keys(path)
    for key in parents:
        policy = policy.setdefault(key, {})
    policy[last] = value


def _at(policy: Any, path: str, otherwise: Any) -> Any:
    for key in _keys(path):
        if not isinstance(policy, Mapping) or key not in policy:
            return otherwise
        policy = policy[key]
    return policy


def _matrix(present: Mapping[str, Any], policy: Mapping[str, Any], errors: Mapping[str, str]) -> dict[str, Any]:
    """Who may evict whom: a row each level that is above another, a column each that is below one."""
    levels = [(q, level, value) for q, queue in present["queues"].items() for level, value in queue["levels"].items()]
    rules = policy.get("preemption", present["preemption"])
    known = {(r["queue"], r["level"], r["victim_queue"], r["victim_level"]) for r in rules if isinstance(r, Mapping)}
    lowest = min((value for _, _, value in levels), default=0)
    highest = max((value for _, _, value in levels), default=0)
    victims = [(q, level, value) for q, level, value in levels if value < highest]
    rows = [
        {
            "queue": q, "level": level,
            "cells": [
                {"value": f"{q}/{level}>{vq}/{vl}", "on": (q, level, vq, vl) in known, "may": below < value,
                 "label": f"{level} of {q} may evict {vl} of {vq}"}
                for vq, vl, below in victims
            ],
        }
        for q, level, value in levels
        if value > lowest
    ]  # fmt: skip
    told = [message for path, message in errors.items() if path.startswith(MATRIX)]
    return {"victims": [{"queue": q, "level": level} for q, level, _ in victims], "rows": rows, "errors": told}


def _rule(text: str) -> dict[str, str]:
    above, _, below = text[:MAX_TYPED].partition(">")
    queue, _, level = above.rpartition("/")
    victim_queue, _, victim_level = below.rpartition("/")
    return {"queue": queue, "level": level, "victim_queue": victim_queue, "victim_level": victim_level}


def _added(post: QueryDict) -> Iterator[dict[str, Any]]:
    if _typed(post, "add_like"):
        yield {"like": _typed(post, "add_like"), "count": _number(_typed(post, "add_like_count"))}
    row = {key: _typed(post, f"add_{key}") for key in HARDWARE}
    if any(row[key] for key in ("gpus", "memory", "nvlink")):
        made: dict[str, Any] = {"count": _number(_typed(post, "add_count"))}
        for key, typed in row.items():
            if typed:
                made[key] = typed if key in ("memory", "model") else _number(typed)
        yield made


def _typed(post: QueryDict, name: str) -> str:
    return post.get(name, "")[:MAX_TYPED].replace("\x00", "").strip()


def _number(text: str) -> Any:
    """The number that was typed, or the text where it is none."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return text
    return value if value - value == 0 else text


def changed_in_words(change: Mapping[str, Any], present: Mapping[str, Any]) -> Sequence[str]:
    """The change line by line, with what is now where that is known."""
    lines = []
    for path, value in _leaves(change.get("policy", {})):
        if path == "preemption":
            lines += _rules_in_words(value, present["preemption"])
            continue
        now = _at(present, path, None)
        was = "" if now is None or now == value else f" (now {said(now)})"
        lines.append(f"{path_in_words(path)}: {_value_in_words(value)}{was}")
    for row in change.get("add_nodes", []):
        hardware = (
            f"like {row['like']}" if "like" in row
            else f"of {row['gpus']} GPUs with {row['memory']} each, NVLink groups of {row.get('nvlink', row['gpus'])}"
        )  # fmt: skip
        lines.append(f"{row['count']} {'node' if row['count'] == 1 else 'nodes'} more, {hardware}")
    if removed := change.get("remove_nodes"):
        lines.append(f"Without {', '.join(removed)}")
    return lines


def _leaves(part: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in part.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping):
            yield from _leaves(value, name)
        else:
            yield name, value


def _rules_in_words(rules: Any, present: Sequence[Mapping[str, str]]) -> list[str]:
    def told(rule: Mapping[str, str]) -> str:
        return f"{rule['level']} of {rule['queue']} may evict {rule['victim_level']} of {rule['victim_queue']}"

    more = [f"Also {told(rule)}" for rule in rules if rule not in present]
    return more + [f"No longer: {told(rule)}" for rule in present if rule not in rules]


def path_in_words(path: str) -> str:
    keys = _keys(path)
    if keys[0] == "project_weights":
        return f"Weight of project {keys[1]}"
    if keys[0] == "user_weights":
        project, _, user = keys[1].partition("/")
        return f"Weight of {user} in {project}"
    if keys[0] == "queues":
        return (
            f"{'Number of ' + keys[3] if len(keys) == 4 else keys[2].replace('_', ' ').capitalize()} of queue {keys[1]}"
        )
    words = {"half_life_s": "Half-life of consumption, seconds", "ledgers": "What is compared"}
    return words.get(path, keys[-1].replace("_", " ").capitalize())


def _value_in_words(value: Any) -> str:
    return ", then ".join(map(str, value)) if isinstance(value, list) else said(value)
