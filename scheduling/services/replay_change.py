"""Which policy, pool and faults does the body of a replay ask for? Every error names the whole path of its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from scheduling.core.fields import nearest, shown
from scheduling.core.policy import Policy
from scheduling.core.pool import Pool
from scheduling.core.units import parse_memory
from scheduling.simulation.cluster import ANY_MODEL
from scheduling.simulation.comparison import fewer_nodes, more_nodes, new_nodes
from scheduling.simulation.faults import Fault
from scheduling.simulation.policy_patch import PatchError, patched

MAX_ADDED, MAX_FAULTS = 1000, 100
MAX_KEY = 80  # characters of a key that are said back
MAX_AFTER_S = 366 * 86_400
MAX_NAMED = 100  # nodes that are listed
MAX_NODE_GPUS, MAX_MODEL = 64, 120
HARDWARE_KEYS = ("gpus", "memory", "model", "nvlink")
ADDED_KEYS, FAULT_KEYS = ("like", "count", *HARDWARE_KEYS), ("node", "after_s", "back_after_s")
Errors = list[dict[str, Any]]
More = Callable[[Pool], Pool]


def wrong(field: str, code: str, message: str, limit: Any = None) -> dict[str, Any]:
    """An error as REST has it."""
    return {"field": field, "code": code, "message": message, "limit": limit}


def unknown_fields(body: Mapping[str, Any], known: Sequence[str]) -> Errors:
    """An error for each field that there is not, with the nearest that there is."""
    return [
        wrong(
            name[:MAX_KEY],
            "unknown_field",
            f"there is no field {name[:MAX_KEY]!r}{nearest(name[:MAX_KEY], known)}; remove it",
            list(known),
        )
        for name in body
        if name not in known
    ]


def changed_policy(patch: Any, policy: Policy, pool: Pool, errors: Errors) -> Policy:
    """The policy with what the patch names changed; itself, and an error for each wrong key, if that can't be. Who has
    a weight must be there: a project, a person in it, or a model of the pool's GPUs."""
    if not isinstance(patch, Mapping):
        message = f'policy must be an object like {{"half_life_s": 86400}}, not {shown(patch)}'
        errors.append(wrong("policy", "not_an_object", message))
        return policy
    try:
        made = patched(policy, patch)
    except PatchError as refused:
        errors += [wrong(f"policy.{each.path}", "bad_policy", f"policy: {each.message}") for each in refused.wrong]
        return policy
    users = ["/".join(key) for key in policy.user_weights]
    models = {gpu.model for gpu in pool.gpus} | policy.billing.keys()
    for key, known, what in (
        ("project_weights", policy.project_weights, "project"),
        ("user_weights", users, "person in a project"),
        ("billing", models, "GPU model"),
    ):
        errors += _strangers(f"policy.{key}", patch.get(key, {}), sorted(known), what)
    return made


def _strangers(path: str, named: Mapping[str, Any], known: Sequence[str], what: str) -> Errors:
    """An error for each name that is not known."""
    told = ", ".join(known[:MAX_NAMED]) or "none"
    return [
        wrong(
            f"{path}.{name[:MAX_KEY]}",
            "unknown_name",
            f"{path} names {shown(name)}{nearest(name, known)}, and there is no such {what}; known are {told}",
            list(known[:MAX_NAMED]),
        )
        for name in named
        if name not in known
    ]


def changed_pool(body: Mapping[str, Any], pool: Pool, errors: Errors) -> Pool:
    """The pool without the nodes of ``remove_nodes`` and with those of ``add_nodes``; what can't be read is passed
    over with an error."""
    made = fewer_nodes(pool, _removed(body.get("remove_nodes", []), pool, errors))
    for more in _added(body.get("add_nodes", []), made, pool, errors):
        made = more(made)
    return made


def asked_faults(body: Mapping[str, Any], pool: Pool, before: Pool, now_ms: int, errors: Errors) -> tuple[Fault, ...]:
    """The faults of nodes of the pool as changed, which was ``before``; what can't be read is passed over with an
    error."""
    given = body.get("faults", [])
    if not isinstance(given, list) or len(given) > MAX_FAULTS:
        like = f'a list of at most {MAX_FAULTS} like [{{"node": "n1", "after_s": 600}}]'
        message = f"faults must be {like}, not {_counted(given)}"
        errors.append(wrong("faults", "bad_faults", message, MAX_FAULTS))
        return ()
    found: list[Fault] = []
    for place, row in enumerate(given):
        path, wrong_so_far = f"faults.{place}", len(errors)
        if not _is_object(row, path, FAULT_KEYS, code="bad_fault", errors=errors):
            continue
        node = _node_in(row, "node", pool, before, path, code="bad_fault", errors=errors)
        after = _ms(row.get("after_s", 0), f"{path}.after_s", errors=errors)
        back = row.get("back_after_s")
        repaired = None if back is None else _ms(back, f"{path}.back_after_s", errors=errors)
        if after is not None and repaired is not None and repaired <= after:
            message = f"{path}.back_after_s must be later than after_s, or null for never, not {shown(back)}"
            errors.append(wrong(f"{path}.back_after_s", "bad_fault", message))
        if len(errors) == wrong_so_far and node is not None and after is not None:
            found.append(Fault(now_ms + after, node=node, repaired_ms=None if repaired is None else now_ms + repaired))
    return tuple(found)


def _removed(given: Any, pool: Pool, errors: Errors) -> list[str]:
    if not isinstance(given, list):
        message = f'remove_nodes must be a list of names of nodes like ["n1"], not {shown(given)}'
        errors.append(wrong("remove_nodes", "not_a_list", message))
        return []
    found: list[str] = []
    for place, name in enumerate(given):
        path = f"remove_nodes.{place}"
        node = _node(name, pool, pool, path, code="no_such_node", errors=errors)
        if node in found:
            message = f"{path} names {node} again; name each node once"
            errors.append(wrong(path, "given_twice", message))
        elif node is not None:
            found.append(node)
    return found


def _added(given: Any, pool: Pool, before: Pool, errors: Errors) -> list[More]:
    """What each row adds to a pool, in their order."""
    if not isinstance(given, list) or len(given) > MAX_ADDED:
        wanted = f'a list of at most {MAX_ADDED} like [{{"like": "n1", "count": 2}}]'
        message = f"add_nodes must be {wanted}, not {_counted(given)}"
        errors.append(wrong("add_nodes", "not_a_list", message, MAX_ADDED))
        return []
    found: list[More] = []
    named: set[str] = set()
    whole = 0
    for place, row in enumerate(given):
        path = f"add_nodes.{place}"
        if not _is_object(row, path, ADDED_KEYS, code="bad_nodes", errors=errors):
            continue
        anew = "like" not in row and any(key in row for key in HARDWARE_KEYS)
        like = None if anew else _node_in(row, "like", pool, before, path, code="bad_nodes", errors=errors)
        hardware = _hardware(row, path, errors) if anew else None
        count = row.get("count")
        if "count" not in row:
            message = f"{path}.count is missing: say how many nodes, a whole number from 1 to {MAX_ADDED}"
            errors.append(wrong(f"{path}.count", "bad_nodes", message, MAX_ADDED))
        elif isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_ADDED:
            message = f"{path}.count must be a whole number from 1 to {MAX_ADDED}, not {shown(count)}"
            errors.append(wrong(f"{path}.count", "bad_nodes", message, MAX_ADDED))
        elif hardware is not None:
            whole += count
            found.append(partial(new_nodes, count=count, **hardware))
        elif like in named:
            message = f"{path}.like names {like} again; ask for all its nodes with one count"
            errors.append(wrong(f"{path}.like", "bad_nodes", message))
        elif like is not None:
            named.add(like)
            whole += count
            if any(key in row for key in HARDWARE_KEYS):
                key = next(key for key in HARDWARE_KEYS if key in row)
                message = f"{path}.{key}: nodes like {like} have its hardware; leave out like, or {key}"
                errors.append(wrong(f"{path}.{key}", "bad_nodes", message))
            found.append(partial(more_nodes, like=like, count=count))
    if whole > MAX_ADDED:
        message = f"add_nodes may add {MAX_ADDED} nodes in all, not {whole}; ask for fewer"
        errors.append(wrong("add_nodes", "bad_nodes", message, MAX_ADDED))
        return []
    return found


def _hardware(row: Mapping[str, Any], path: str, errors: Errors) -> dict[str, Any] | None:
    """The arguments of :func:`new_nodes` that the row gives, or None with an error for each that can't be."""
    before = len(errors)
    gpus = row.get("gpus")
    if isinstance(gpus, bool) or not isinstance(gpus, int) or not 1 <= gpus <= MAX_NODE_GPUS:
        whole = f"a whole number from 1 to {MAX_NODE_GPUS}"
        message = f"{path}.gpus must be {whole}, not {shown(gpus)}"
        if "gpus" not in row:
            message = f"{path}.gpus is missing: say how many GPUs each node has, {whole}"
        errors.append(wrong(f"{path}.gpus", "bad_nodes", message, MAX_NODE_GPUS))
    memory_mib = _memory_mib(row, path, errors)
    model = row.get("model", ANY_MODEL)
    if not isinstance(model, str) or not 1 <= len(model) <= MAX_MODEL:
        message = f"{path}.model must be the name of a GPU model of at most {MAX_MODEL} characters, not {shown(model)}"
        errors.append(wrong(f"{path}.model", "bad_nodes", message, MAX_MODEL))
    most = gpus if isinstance(gpus, int) else MAX_NODE_GPUS
    nvlink = row.get("nvlink", most)
    if isinstance(nvlink, bool) or not isinstance(nvlink, int) or not 0 <= nvlink <= most:
        message = (
            f"{path}.nvlink must be how many GPUs an NVLink group has, a whole number from 0 (none) to {most}, "
            f"not {shown(nvlink)}"
        )
        errors.append(wrong(f"{path}.nvlink", "bad_nodes", message, most))
    if len(errors) > before:
        return None
    return {"gpus": gpus, "memory_mib": memory_mib, "model": model, "nvlink": nvlink}


def _memory_mib(row: Mapping[str, Any], path: str, errors: Errors) -> int | None:
    """MiB of each GPU of the row, or None with an error."""
    if "memory" not in row:
        message = f'{path}.memory is missing: say what each GPU has, such as "80GB"'
        errors.append(wrong(f"{path}.memory", "bad_nodes", message))
        return None
    try:
        return parse_memory(row["memory"], f"{path}.memory")
    except ValueError as unreadable:
        errors.append(wrong(f"{path}.memory", "bad_nodes", str(unreadable)))
        return None


def _counted(given: Any) -> str:
    """What was sent in place of a short list."""
    return f"{len(given)} of them" if isinstance(given, list) else shown(given)


def _is_object(row: Any, path: str, known: Sequence[str], *, code: str, errors: Errors) -> bool:
    """Whether the row is an object; an error for that, and for each key that there is not."""
    if not isinstance(row, Mapping):
        errors.append(wrong(path, code, f"{path} must be an object with {', '.join(known)}, not {shown(row)}"))
        return False
    for key in row:
        if key not in known:
            message = f"there is no field {shown(key)} in {path}{nearest(key, known)}; remove it"
            errors.append(wrong(f"{path}.{key[:MAX_KEY]}", "unknown_field", message, list(known)))
    return True


def _node_in(
    row: Mapping[str, Any], key: str, pool: Pool, before: Pool, path: str, *, code: str, errors: Errors
) -> str | None:  # fmt: skip
    """The node that the row names at the key, or None with an error that says whether it names one at all."""
    if key in row:
        return _node(row[key], pool, before, f"{path}.{key}", code=code, errors=errors)
    there = sorted(pool.node_by_name)[:MAX_NAMED]
    message = f"{path}.{key} is missing: name a node there is, one of {', '.join(there) or 'none'}"
    errors.append(wrong(f"{path}.{key}", code, message, there))
    return None


def _node(name: Any, pool: Pool, before: Pool, path: str, *, code: str, errors: Errors) -> str | None:
    """The name of a node of the pool, or None with an error; of one that was there before, that it is taken away."""
    there = sorted(pool.node_by_name)
    if isinstance(name, str) and name in pool.node_by_name:
        return name
    if isinstance(name, str) and name in before.node_by_name:
        message = f"{path} names {name}, which remove_nodes takes away; name a node that stays, or leave {name} there"
        errors.append(wrong(path, code, message, there[:MAX_NAMED]))
        return None
    message = f"{path} must be the name of a node there is, not {shown(name)}{nearest(name, there)}"
    errors.append(wrong(path, code, message, there[:MAX_NAMED]))
    return None


def _ms(seconds: Any, path: str, *, errors: Errors) -> int | None:
    """The milliseconds of a number of seconds within the limits, or None with an error."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MAX_AFTER_S:
        message = f"{path} must be seconds from now, a number from 0 to {MAX_AFTER_S}, not {shown(seconds)}"
        errors.append(wrong(path, "bad_fault", message, MAX_AFTER_S))
        return None
    return round(seconds * 1000)
