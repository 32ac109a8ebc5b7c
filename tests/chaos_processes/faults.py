"""Which faults a run has: drawn from its seed alone, so that a failing run can be had again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

SERVER = ("scheduler", "web", "celery", "broker")
# How often each is drawn, and how often at most in one run: a job may be lost to the infrastructure five times (D13).
KILLS = {"kill agent": (4, 10), "kill job": (5, 10), "kill keeper": (2, 3), "kill node": (2, 3),
         "kill scheduler": (2, 3), "kill web": (2, 3), "kill celery": (1, 2), "kill broker": (2, 2)}  # fmt: skip
HARMS = {"stop agent": (2, 2), "stop job": (2, 3), "stop keeper": (1, 2), "stop scheduler": (2, 2),
         "stop web": (1, 1), "stop broker": (1, 1),
         "hold up": (2, 2), "hold down": (2, 2), "hold both": (2, 2), "cut": (1, 2), "slow": (1, 2),
         "part gang": (2, 2),
         "flush broker": (1, 2), "restart database": (1, 1), "crash database": (1, 1), "fill node": (1, 1),
         "fill store": (1, 1), "jump clock": (2, 3)}  # fmt: skip
# How long each lasts, in seconds of a house whose waits are SCALE of the real ones: fence 13.5, lease 18.
SCALE = 0.3
BRIEF, LONG = (1.0, 9.0), (16.0, 28.0)
LASTS = {"stop web": (1.0, 8.0), "stop broker": BRIEF, "stop job": BRIEF, "slow": (5.0, 20.0), "part gang": (4.0, 20.0),
         "restart database": (0.5, 4.0), "crash database": (0.5, 4.0), "fill node": (4.0, 12.0),
         "fill store": (4.0, 12.0), "kill node": (1.0, 25.0), "kill scheduler": (0.5, 6.0), "kill web": (0.5, 6.0),
         "kill broker": (0.5, 6.0), "kill celery": (0.5, 6.0), "kill keeper": (0.5, 3.0),
         "kill agent": (0.5, 9.0)}  # fmt: skip
MAY_BE_LONG = ("stop agent", "stop scheduler", "hold up", "hold down", "hold both", "cut", "stop keeper")
JUMPS_S = (-7200.0, 7200.0, -86400.0, 1.0e6)


@dataclass(frozen=True, order=True)
class Fault:
    """At ``at_s`` into the faults ``kind`` happens to ``node`` ("" for the server's side), for ``lasts_s``.

    ``lot`` in 0..1 decides what is left to decide: which of the jobs, how far a clock jumps.
    """

    at_s: float
    kind: str
    node: str = ""
    lasts_s: float = 0.0
    lot: float = 0.0

    def later(self, at_s: float) -> Fault:
        """The same at another time."""
        return replace(self, at_s=at_s)

    def __str__(self) -> str:
        return f"{self.kind}{f' of {self.node}' if self.node else ''} for {self.lasts_s:.1f} s"


def plan(
    seed: int, nodes: Sequence[str], *, seconds: float, kills: int, harms: int, scale: float = SCALE
) -> list[Fault]:
    """So many kills and other faults within so many seconds, in the order of their time."""
    dice = random.Random(seed)
    drawn = [*_draw(dice, KILLS, kills), *_draw(dice, HARMS, harms)]
    dice.shuffle(drawn)
    # One in each equal part of the time, somewhere: they overlap by lasting, not by heaping up.
    part = seconds / max(1, len(drawn))
    found = [
        _fault(dice, kind, (place + dice.random()) * part, nodes, scale / SCALE) for place, kind in enumerate(drawn)
    ]
    return sorted(found)


def _draw(dice: random.Random, kinds: dict[str, tuple[int, int]], count: int) -> list[str]:
    """So many by weight, none more often than it may."""
    left = {kind: most for kind, (_, most) in kinds.items()}
    found: list[str] = []
    while len(found) < count:
        open_to = [kind for kind, most in left.items() if most]
        if not open_to:
            raise ValueError(f"{count} faults are more than the {len(found)} that a run may have of these kinds")
        kind = dice.choices(open_to, [kinds[kind][0] for kind in open_to])[0]
        left[kind] -= 1
        found.append(kind)
    return found


def _fault(dice: random.Random, kind: str, at_s: float, nodes: Sequence[str], factor: float) -> Fault:
    server = kind.split()[-1] in (*SERVER, "database", "store")
    least, most = LASTS.get(kind, LONG if kind in MAY_BE_LONG and dice.random() < 0.35 else BRIEF)
    node = "" if server else dice.choice(list(nodes))
    return Fault(round(at_s, 2), kind, node, round(factor * dice.uniform(least, most), 2), dice.random())
