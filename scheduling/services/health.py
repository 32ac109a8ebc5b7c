"""The verbs of a GPU's health: a report is judged, an attempt has ended on it, an operator speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from scheduling.core.gpu_checks import tidy
from scheduling.services import notify
from scheduling.store import load
from scheduling.store.commit import ended_on, gpus
from scheduling.store.commit.locks import lock_live
from scheduling.store.queries.access import Actor

# A failing device should not be asked for long; what it can't save within this time is lost with it.
GRACE_S = 30.0
# What a node says that does not say more of GPUs that are not free.
UNFREE = "a process could not be killed"
VERBS = ("return", "retire")


def judge(node: str, report: gpus.Report, now: datetime) -> list[str]:
    """The node's lease is renewed, and every GPU of it judged by its sample; returns those to be tested now."""
    grace_s = GRACE_S * settings.TIME_SCALE
    judged = gpus.checked(node, report, now=now, grace_s=grace_s, policy=load.policy_of)
    for group, words in judged.links.items():
        for other in gpus.others_in(group, node):  # each in a transaction of its own: no two nodes are locked at once
            gpus.doubt_links(other, group, words, now=now)
    notify.ring(judged.ring)
    return list(judged.tests)


def told(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The samples as they are kept and shown: known fields, numbers as numbers, texts that any database can hold."""
    return [tidy(row) for row in samples]


@dataclass(frozen=True, slots=True)
class Ground:
    """What an ended attempt stood on: its GPUs that were failing, and how that reads; none when all were well."""

    gpus: tuple[str, ...] = ()
    words: str = ""


def hold(node: str, message: Mapping[str, Any]) -> None:
    """Call it before the job of an attempt is locked that ends so: what is known of its GPUs may change with it."""
    if message.get("gpus_clean") is False:
        lock_live([node])


def ground(attempt: UUID, node: str, message: Mapping[str, Any], now: datetime) -> Ground:
    """The attempt's failing GPUs, for its end; GPUs that a process still uses are out of service from now on."""
    found = ended_on.failing(attempt)  # before: what its process left behind is no fault of a GPU
    if message.get("gpus_clean") is False:
        detail = str(message.get("detail") or UNFREE)[:150].replace("\x00", "")
        ended_on.unclean(attempt, node, detail, held=message.get("gpus_held") is True, now=now)
    return Ground(tuple(uuid for uuid, _ in found), "; ".join(words for _, words in found))


def failed(attempt: UUID, now: datetime) -> None:
    """GPUs on which jobs of different people fail like this one are doubted; its end is committed."""
    ended_on.blame(attempt, now=now)


def operate(uuid: str, verb: str, actor: Actor, now: datetime) -> tuple[bool, str] | None:
    """(lawful, state) after ``return`` (to service, by way of its test) or ``retire``; None for an unknown GPU."""
    words = "an operator asks for its return" if verb == "return" else "taken out of the pool"
    return gpus.operate(uuid, verb, now=now, actor=actor.label, message=f"{words} ({actor.username})")
