"""Which GPUs look free and are not to be had? Those kept for a job for which others make way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.core.bits import places_in
from scheduling.core.closing import suiting
from scheduling.core.obstacles import Told
from scheduling.core.waiting import Queued
from scheduling.core.words import agree, gpus_in_words, instant_in_words, jobs_in_words

if TYPE_CHECKING:
    from scheduling.core.scheduler import Scheduler


def kept_beside(scheduler: Scheduler, queued: Queued) -> Told:
    """(sentence with a blank before it, numbers) about the GPUs that nobody holds, that would suit the waiting job, and
    that are kept for others; ("", ()) when there are none. Who these others are is not told."""
    if not scheduler.nominees:
        return "", ()
    inventory, suits = scheduler.inventory, suiting(scheduler.room, queued.shape.wanted)
    count, deadlines = 0, list[int]()
    for nominee in scheduler.nominees.values():
        found = sum(
            scheduler.holder[inventory.first[cell] + place] is None
            for cell, mask in nominee.cells.items()
            for place in places_in(mask & suits[cell])
        )
        if found:
            count += found
            deadlines.append(nominee.deadline_ms)
    if not deadlines:
        return "", ()
    until, others = max(deadlines), jobs_in_words(len(deadlines))
    message = (
        f" {gpus_in_words(count)} more {agree(count, 'is', 'are')} free, but kept for {others} that running jobs make "
        f"way for, until {instant_in_words(until)} at the latest."
    )
    return message, (("kept", count), ("kept_until_ms", until))
