"""Until when a node may run jobs: the fence clock, pure. Boot-clock seconds everywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workers.protocol import Timings


@dataclass(frozen=True, slots=True)
class FenceClock:
    """Jobs may run until ``deadline``: ``fence_s`` after the send time of the last acknowledged call.

    An explicit refusal (something answered that the server is down) pauses the clock, for ``outage_grace_s`` in
    all since the last acknowledgement; silence does not, because then the server may be giving the work away.
    ``most_s``: it pauses no longer than that, whatever the server grants.
    """

    deadline: float
    last_refusal: float | None = None
    paused_s: float = 0.0
    most_s: float = math.inf

    def acknowledged(self, sent_at: float, timings: Timings) -> FenceClock:
        """A call sent at ``sent_at`` was answered; an answer that comes late never shortens the time."""
        return FenceClock(max(self.deadline, sent_at + timings.fence_s), most_s=self.most_s)

    def silent(self) -> FenceClock:
        """A call brought no answer: time counts."""
        return replace(self, last_refusal=None)

    def refused(self, now: float, timings: Timings) -> FenceClock:
        """A call was refused: the time since the refusal before it did not count.

        At least the time until the next call's answer is left, else a refusal after a long silence would not pause.
        """
        pause = now - self.last_refusal if self.last_refusal is not None else 0.0
        pause = max(pause, now + 2 * timings.retry_s - self.deadline)
        pause = max(0.0, min(pause, min(timings.outage_grace_s, self.most_s) - self.paused_s))
        return FenceClock(self.deadline + pause, now, self.paused_s + pause, self.most_s)

    def over(self, now: float) -> bool:
        """Whether the jobs must be stopped."""
        return now >= self.deadline
