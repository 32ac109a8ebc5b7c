"""What entities have consumed and may still consume, kept up to date as jobs start and stop (D5).

Everything that is added up is an integer, so the sums do not depend on the order in which jobs came: an object kept
for weeks and one built anew from the database agree to the last bit. Reading never changes anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from scheduling.core.decay import decay
from scheduling.core.snapshot import Account

Key = TypeVar("Key", bound=Hashable)
MICRO = 1_000_000
_FRACTION = 1 << 24
_BASE_HALF_LIVES = 16


class Clock:
    """The instant the ledgers are read at, and what follows from it for all entities alike.

    With a half-life H the GPUs running since s have by now used ``H / ln 2 * (1 - 2^-((now - s) / H))`` each, as it
    counts now. Sums over s are kept as ``2^((s - base) / H)``; ``base`` depends on the instant alone.
    """

    __slots__ = ("base_ms", "factor", "half_life_ms", "now_ms", "rise", "scale", "start_factor", "tick", "version")

    def __init__(self, half_life_ms: int, now_ms: int) -> None:
        self.half_life_ms = half_life_ms
        self.scale = half_life_ms / math.log(2.0)
        self.now_ms = self.base_ms = 0
        self.factor = self.start_factor = self.rise = 1.0  # ``rise``: as ``at_base`` has it, for what is settled now
        self.tick = 0  # moves with every instant, and when targets move
        self.version = 0  # moves when targets move
        self.move(now_ms)

    def move(self, now_ms: int) -> bool:
        """The instant is ``now_ms``; True when the base moved, so that sums over starts must be made anew."""
        self.now_ms = now_ms
        self.tick += 1
        half_life_ms = self.half_life_ms
        if half_life_ms <= 0:
            return False
        span = _BASE_HALF_LIVES * half_life_ms
        base = now_ms // span * span
        past = (now_ms - base) / half_life_ms
        self.factor = factor = 2.0**-past
        self.start_factor = factor / _FRACTION
        self.rise = 2.0**past
        moved, self.base_ms = base != self.base_ms, base
        return moved

    def at_base(self, gpu_ms: float, settled_ms: int) -> float:
        """What an account would have held at the base, had it faded from there: times ``factor`` it is that of now."""
        if self.half_life_ms <= 0:
            return gpu_ms
        return gpu_ms * float(2.0 ** ((settled_ms - self.base_ms) / self.half_life_ms))

    def targets_moved(self) -> None:
        """Somebody has become active, or is so no more."""
        self.tick += 1
        self.version += 1

    def weight_of_start(self, micro: int, start_ms: int) -> int:
        """What a start at ``start_ms`` adds to the sum over starts."""
        if self.half_life_ms <= 0:
            return micro * start_ms
        rise = self.rise if start_ms == self.now_ms else float(2.0 ** ((start_ms - self.base_ms) / self.half_life_ms))
        return round(micro * rise * _FRACTION)

    def used_since(self, micro: int, starts: int) -> float:
        """GPU-ms that ``micro`` millionths of GPUs have used since their starts, as they count now."""
        if self.half_life_ms <= 0:
            return (micro * self.now_ms - starts) / MICRO
        return self.scale * (micro - starts * self.start_factor) / MICRO


class Entity:
    """One queue, project or user: what it consumed, what runs, and what that may still consume."""

    __slots__ = (
        "end_sum", "ending", "faded", "members", "micro", "planned", "ratio", "settled_gpu_ms", "settled_ms", "starts",
        "target", "tick", "version",
    )  # fmt: skip

    def __init__(self, settled: Account, clock: Clock) -> None:
        self.settled_gpu_ms, self.settled_ms = settled.gpu_ms, settled.settled_ms
        self.faded = clock.at_base(settled.gpu_ms, settled.settled_ms)
        self.members = 0  # jobs that wait or run
        self.micro = 0  # millionths of billing weight that run
        self.starts = 0
        self.ending = 0  # of ``micro``, what has not reached its end
        self.end_sum = 0  # sum of ``micro`` * end
        self.planned = 0  # micro-GPU-ms of jobs that wait for their victims
        self.ratio = self.target = 0.0
        self.tick = self.version = -1

    def consumed(self, clock: Clock) -> int:
        """GPU-ms consumed so far, faded to now, what runs included."""
        used = self.faded * clock.factor
        if self.micro:
            used += clock.used_since(self.micro, self.starts)
        return math.floor(used + 0.5)

    def in_flight(self, clock: Clock) -> int:
        """Millionths of GPU-ms that running and planned jobs may still use."""
        return self.end_sum - self.ending * clock.now_ms + self.planned

    def read(self, clock: Clock) -> float:
        """consumed / target as of now, what may still be consumed included; infinite when the target is 0.

        Rounded, so that equal sums tie whatever the weights.
        """
        if self.target > 0.0:
            # ``consumed`` and ``in_flight`` written out: every pass reads a dozen of these.
            used = self.faded * clock.factor
            if self.micro:
                used += clock.used_since(self.micro, self.starts)
            flight = self.end_sum - self.ending * clock.now_ms + self.planned
            self.ratio = round((math.floor(used + 0.5) * MICRO + flight) / (self.target * MICRO), 12)
        else:
            self.ratio = math.inf
        self.tick = clock.tick
        return self.ratio

    def settle(self, used: float, clock: Clock) -> None:
        """``used`` GPU-ms, as they count now, are those of something that has stopped now: they fade from here on.

        Whoever waited for its turn may have read the clock before what was settled last: the account never goes back.
        """
        now, at = clock.now_ms, max(clock.now_ms, self.settled_ms)
        kept = decay(self.settled_gpu_ms, at - self.settled_ms, clock.half_life_ms)
        kept += decay(used, at - now, clock.half_life_ms)
        self.settled_gpu_ms, self.settled_ms = kept, at
        self.faded = kept * clock.rise if at == now else clock.at_base(kept, at)

    def rebase(self, clock: Clock) -> None:
        """The clock's base has moved; the sum over starts is to be made anew."""
        self.starts = 0
        self.faded = clock.at_base(self.settled_gpu_ms, self.settled_ms)


class Ledger(Generic[Key]):
    """One kind of entity. A target is a share of ``total`` GPU-ms by weight among the entities that are active."""

    def __init__(
        self,
        usage: Mapping[Key, Account],
        weight: Callable[[Key], float],
        total: Callable[[Key], float],
        *,
        family: Callable[[Key], Hashable],
        clock: Clock,
    ) -> None:
        """Entities of one ``family`` share one total: users of a project, or all of them."""
        self._usage, self._weight, self._total, self._family = usage, weight, total, family
        self._clock = clock
        self.entities: dict[Key, Entity] = {}
        self._active: dict[Hashable, dict[Key, float]] = {}
        self._whole: dict[Hashable, float] = {}

    def entity(self, key: Key) -> Entity:
        """The entity of that key, made on first use."""
        found = self.entities.get(key)
        if found is None:
            found = self.entities[key] = Entity(self._usage.get(key, Account(0.0, self._clock.base_ms)), self._clock)
        return found

    def activate(self, key: Key) -> None:
        """The entity counts among the active ones from now on, so that targets move."""
        family = self._family(key)
        self._active.setdefault(family, {})[key] = self._weight(key)
        self._whole.pop(family, None)

    def retire(self, key: Key) -> None:
        """The entity is no longer active."""
        family = self._family(key)
        del self._active[family][key]
        self._whole.pop(family, None)

    def target(self, key: Key) -> float:
        """The entity's target in GPU-ms; 0 when its weight is 0 or it is not active.

        A part below one GPU-ms, the unit of consumption, is zero: dividing by it could leave the finite numbers (D4).
        """
        family = self._family(key)
        active = self._active.get(family, {})
        weight = active.get(key, 0.0)
        if weight <= 0.0:
            return 0.0
        whole = self._whole.get(family)
        if whole is None:
            whole = self._whole[family] = math.fsum(active.values())
        part = self._total(key) * weight / whole
        return part if part >= 1.0 else 0.0

    def keys(self) -> list[Key]:
        """The active entities."""
        return [key for active in self._active.values() for key in active]
