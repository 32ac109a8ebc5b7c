"""When are an ended attempt's GPUs free again? The wait for it, without I/O (C-49: memory outlives its process)."""

from __future__ import annotations

import math
from dataclasses import dataclass

# So many looks within the wait, if each is answered at once.
LOOKS = 20


@dataclass(slots=True)
class Release:
    """Looks at the attempt's GPUs follow one another until they are free, at most until ``until`` (boot clock).

    ``look_at`` is when the next one is due; it is infinite while one is under way.
    """

    until: float
    every_s: float
    look_at: float = math.inf

    @staticmethod
    def begun(now: float, within_s: float) -> Release:
        """The first look is under way, and the wait ends ``within_s`` from ``now``."""
        return Release(now + within_s, within_s / LOOKS)

    def again(self, now: float) -> bool:
        """Whether there is time for another look; it is then due soon."""
        if now >= self.until:
            return False
        self.look_at = min(self.until, now + self.every_s)
        return True

    def looking(self, now: float) -> bool:
        """Whether a look is due; it is then under way."""
        if now < self.look_at:
            return False
        self.look_at = math.inf
        return True
