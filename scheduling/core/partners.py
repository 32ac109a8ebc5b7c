"""Beside whom is it to run, and why does that not happen? Nobody runs there, or nobody will any more by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.plan import Reason
from scheduling.core.resources import GroupRule
from scheduling.core.snapshot import WaitingJob
from scheduling.core.words import instant_in_words, level_in_words

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler

WaitsFor = dict[str, list[str | None]]
"""By group, beside which groups its waiting jobs are to run; None for a job that need not wait for anybody."""


def waits_for(scheduler: Scheduler) -> WaitsFor:
    """What the waiting jobs of each group wait for, as far as rules about groups say it."""
    found: WaitsFor = {}

    def note(group: str | None, near: GroupRule | None) -> None:
        if group is not None:
            bound = near is not None and near.group != group and not scheduler.groups.partners(near.group)
            edge = near.group if near is not None and bound else None
            edges = found.setdefault(group, [])
            if edge not in edges:
                edges.append(edge)

    for level in scheduler.waiting.levels.values():
        for shape in level.shapes:
            note(shape.group, shape.request.near)
    for job in scheduler.sleeping.values():
        note(job.group, job.request.near)
    for nominee in scheduler.nominees.values():
        note(nominee.queued.job.group, None)
    return found


def no_partner(job: WaitingJob, near: GroupRule, known: WaitsFor) -> tuple[str, str]:
    """(code, message) for a job of whose ``near`` group none runs: CIRCULAR when those wait for its own group too."""
    own, place = job.group, level_in_words(near)
    if own is None or not _is_circle(known, near.group, own):
        return "NO_PARTNER", f"It is to run in one {place} with a job of group {near.group}, and none of them runs."
    if own in known[near.group]:
        why = f"whose jobs are to run beside its own group {own}: each waits for the other"
    else:
        why = f"whose jobs wait for others, and those for its own group {own}: each waits for the next"
    message = f"It is to run in one {place} with a job of group {near.group}, {why}."
    return "CIRCULAR", f"{message} One of the two must be submitted without that rule."


def _is_circle(known: WaitsFor, first: str, own: str) -> bool:
    """Whether the waiting jobs of ``first`` can't start before one of ``own`` does, and neither can those."""
    seen: set[str] = set()
    left = [first]
    while left:
        group = left.pop()
        if group in seen:
            continue
        seen.add(group)
        for edge in known.get(group, ()):
            if edge is None:
                return False
            left.append(edge)
    return own in seen


def left_alone(near: GroupRule, last_ms: int) -> Reason:
    """The reason of a job whose partners will have ended, the last of them by ``last_ms``, before it can start."""
    message = (
        f"The jobs of group {near.group} that it is to run beside have a time limit until {instant_in_words(last_ms)} "
        f"at the latest, and before that no {level_in_words(near)} of theirs has room for it. Then it waits for "
        "another one."
    )
    return Reason("PARTNER_LEAVES", message, (("group", near.group), ("level", near.level), ("until_ms", last_ms)))
