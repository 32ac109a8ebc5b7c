"""Why these victims? What they lose, and who would have cost less but is protected (D10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduling.core.gpu_time import gpu_time_in_words
from scheduling.core.plan import Reason
from scheduling.core.preemption import cost_of, evictable, protected_until
from scheduling.core.waiting import Queued
from scheduling.core.words import agree, instant_in_words, jobs_in_words

if TYPE_CHECKING:
    from scheduling.core.held import Held
    from scheduling.core.scheduler import Scheduler
    from scheduling.core.shortfalls import Numbers


def why_these(scheduler: Scheduler, queued: Queued, victims: Sequence[Held], now_ms: int) -> tuple[str, Numbers]:
    """Sentences and numbers about the victims that the job was given; ("", ()) for none.

    ``lost_gpu_s``: GPU-seconds that they lose as of when they were asked, or of ``now_ms``; ``protected``: how many
    running jobs with GPUs that suit it were passed over though each costs less than one of the victims, because they
    are protected; ``protected_until_ms``: until when the first is, where time ends that.
    """
    if not victims:
        return "", ()
    asked_ms = max((held.asked_ms for held in victims if held.preempting and held.asked_ms), default=now_ms)
    lost_gpu_s = round(sum(held.lost_ms(asked_ms) for held in victims) / 1000)
    message = f" That costs {gpu_time_in_words(lost_gpu_s)} of work and of resuming."
    numbers: Numbers = (("lost_gpu_s", lost_gpu_s),)
    spared = _passed_over(scheduler, queued, victims, asked_ms)
    if not spared:
        return message, numbers
    count = len(spared)
    message += (
        f" {jobs_in_words(count)} of lower levels that would have cost less {agree(count, 'was', 'were')} passed over: "
        f"{agree(count, 'it was', 'they were')} protected, since {agree(count, 'it', 'they')} began to run only just "
        "before or made way often of late"
    )
    first = min((end for held in spared if (end := protected_until(scheduler, held)) is not None), default=None)
    if first is None:
        return f"{message}.", (*numbers, ("protected", count))
    until = f"{'' if count == 1 else 'the first of them '}until {instant_in_words(first)}"
    return f"{message}, {until}.", (*numbers, ("protected", count), ("protected_until_ms", first))


def evicts(scheduler: Scheduler, queued: Queued, victims: Sequence[Held], now_ms: int) -> tuple[Reason, ...]:
    """What is said of a job that would evict these: EVICTS; nothing where there are none."""
    message, numbers = why_these(scheduler, queued, victims, now_ms)
    if not message:
        return ()
    count = len(victims)
    first = f"{jobs_in_words(count)} of lower levels {agree(count, 'is', 'are')} asked to save and leave for it."
    return (Reason("EVICTS", first + message, (("victims", count), *numbers)),)


def _passed_over(scheduler: Scheduler, queued: Queued, victims: Sequence[Held], now_ms: int) -> list[Held]:
    """Those who were protected at ``now_ms``, and without that cost less than the dearest of victims who are not."""
    queue = queued.job.queue

    def cost(held: Held) -> tuple[int, ...]:
        return cost_of(scheduler, held, queue=queue, now_ms=now_ms)

    is_protected, *dearest = max(map(cost, victims))
    if is_protected:
        return []
    view, usable = scheduler.room.view(queued.shape.wanted), scheduler.room.usable
    return [
        held
        for held in evictable(scheduler, queued)
        if held.started_ms <= now_ms and (1,) <= cost(held) < (1, *dearest)
        and any(mask & usable[cell] & view.eligible[cell] for cell, mask in held.cells.items())
    ]  # fmt: skip
