"""The board and the jobs as they are now, one item an object; and what of them a person may see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduling.feed.messages import Item, Subscription, Type
from scheduling.store.clock import now, to_ms
from scheduling.store.journal import TICKS
from scheduling.store.queries import events, live, pool, windows
from scheduling.store.queries.access import Actor
from scheduling.store.queries.events import Change
from scheduling.store.queries.standing import Standing

Key = tuple[str, str]
# Of a GPU: the job that holds it, and the one that it is kept for.
JOBS = ("job", "kept_for")
# Events of a job that gets GPUs, or has some kept for it, with their UUIDs.
GIVEN = ("granted", "nominated")


def node_items(nodes: Iterable[Mapping[str, Any]], now: datetime) -> list[Item]:
    """An item for each node and for each of its GPUs; a GPU's names its node and tells how that stands."""
    at, items = to_ms(now), []
    for node in nodes:
        items.append(Item("node", node["name"], at, {k: v for k, v in node.items() if k != "gpus"}))
        home = {"node": node["name"], "node_state": node["state"], "node_standing": node["standing"]}
        items += [Item("gpu", g["uuid"], at, {**g, **home}) for g in node["gpus"]]
    return items


def head_items(nodes: list[dict[str, Any]], windows_are: str, now: datetime) -> list[Item]:
    """The queues, which windows there are (in a word that only tells one state from another), and the scheduler's last
    tick with the board's headline."""
    at, queues, tick = to_ms(now), pool.queues(now), pool.scheduler(now)
    headline = pool.headline(nodes, queues, tick, now)
    return [
        *(Item("queue", q["name"], at, q) for q in queues),
        Item("windows", "pool", at, {"are": windows_are}),
        Item("tick", "scheduler", at, {**tick, "headline": headline}),
    ]


def board(now: datetime) -> list[Item]:
    """Everything the board shows."""
    nodes = pool.pool(at=now)
    return [*node_items(nodes, now), *head_items(nodes, windows.fingerprint(now), now)]


def job_items(ids: Collection[str], now: datetime) -> list[Item]:
    """The jobs of those ids, each with the length of its log."""
    ends = live.log_ends(ids)
    return [
        Item("job", i, d["version"], d, project=d["project"] or "", log=ends.get(i))
        for i, d in live.jobs(ids, now).items()
    ]


def shown_to(actor: Actor, item: Item) -> Item | None:
    """The item as this person may see it: another project's job is not there, and a GPU it holds, or that is kept for
    it, names nobody."""
    if item.project is not None and not actor.sees(item.project):
        own_refused = item.project == "" and item.data.get("user") == actor.username
        return item if own_refused else None
    if item.object != "gpu":
        return item
    named = {name: job for name in JOBS if (job := item.data.get(name)) is not None}
    unknown = {name: None for name, job in named.items() if not actor.sees(job["project"])}
    return replace(item, data={**item.data, **unknown}) if unknown else item


def touched(changes: Iterable[Change], nodes: Mapping[str, Mapping[str, Any]]) -> tuple[set[str], set[str]]:
    """(job ids, node names) that the changes are about, given the nodes as they were before."""
    homes = {g["uuid"]: name for name, node in nodes.items() for g in node["gpus"]}
    holders: dict[str, set[str]] = {}
    for name, node in nodes.items():
        for g in node["gpus"]:
            for each in filter(None, (g[which] for which in JOBS)):
                holders.setdefault(each["id"], set()).add(name)
    jobs: set[str] = set()
    names: set[str] = set()
    for change in changes:
        if change.object == "job":
            jobs.add(change.object_id)
            if change.type not in TICKS:
                names |= holders.get(change.object_id, set())
            names |= {homes[u] for u in change.data.get("gpus") or () if u in homes} if change.type in GIVEN else set()
        elif change.object == "node":
            names.add(change.object_id)
        elif change.object == "gpu" and change.object_id in homes:
            names.add(homes[change.object_id])
    return jobs, names


def at_work_on(names: Collection[str], nodes: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """The ids of the jobs that hold GPUs of these nodes."""
    gpus = [g for name in names if name in nodes for g in nodes[name]["gpus"]]
    return {g["job"]["id"] for g in gpus if g["job"] is not None}


@dataclass(frozen=True, slots=True)
class Taken:
    """What a page is sent to begin with, as of event ``seq``; ``job_known`` is False for a job that is not there."""

    seq: int
    items: tuple[Item, ...]
    job_known: bool = True


def take(actor: Actor, wanted: Subscription, since: int) -> tuple[Type, Taken]:
    """The subscribed objects as they are now: all as a snapshot, or, when everything after event ``since`` can still
    be told, only those that changed after it."""
    seq, moment = events.newest(), now()
    replay = since > 0 and events.can_replay(since)
    changes = events.since(max(0, since - events.LATE_IDS)) if replay else []
    items: list[Item] = []
    if wanted.board:
        items += _board_after(changes, moment) if replay else board(moment)
    ids = {c.object_id for c in changes if c.object == "job"} if wanted.jobs else set()
    watched = job_items({wanted.job}, moment) if wanted.job and _is_id(wanted.job) else []
    known = not wanted.job or any(shown_to(actor, i) for i in watched)
    items += job_items(ids - {wanted.job or ""}, moment)
    items += watched
    shown = tuple(s for i in items if (s := shown_to(actor, i)))
    return ("change" if replay else "snapshot"), Taken(seq, shown, known)


def _board_after(changes: list[Change], moment: datetime) -> list[Item]:
    """The nodes that the changes are about, that were heard of since or are silent, the queues and the last tick."""
    nodes = {n["name"]: n for n in pool.pool(at=moment)}
    jobs, names = touched(changes, nodes)
    names |= {g["node"] for d in live.jobs(jobs, moment).values() for g in d["gpus"]}
    names |= set(pool.heard_after(changes[0].at)) if changes else set()
    names |= {name for name, node in nodes.items() if node["standing"] == Standing.SILENT}  # silence has no event
    return [
        *node_items([nodes[n] for n in sorted(names) if n in nodes], moment),
        *head_items(list(nodes.values()), windows.fingerprint(moment), moment),
    ]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
