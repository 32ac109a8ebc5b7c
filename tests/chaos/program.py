"""What a job computes here: a chain of hashes, one link a second, so that a step lost or done twice shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class Plan:
    """``steps`` seconds of work; saves every ``save_every`` steps, and when it is asked to stop in ``save_s``.

    ``manner``: ``saves`` and leaves when asked, ``ignores`` that it is asked, or ``dies`` of it.
    """

    steps: int
    save_every: int
    save_s: float
    manner: str

    @property
    def params(self) -> dict[str, Any]:
        """The job's parameters that say so."""
        words = ["work", str(self.steps), str(self.save_every), str(self.save_s), self.manner]
        return {"argv": words}

    @staticmethod
    def of(params: Mapping[str, Any]) -> Plan:
        """The plan in the parameters of a launch."""
        _, steps, every, save_s, manner = params["argv"]
        return Plan(int(steps), int(every), float(save_s), manner)


@lru_cache(maxsize=4096)
def link(state: str, step: int) -> str:
    """The chain after one step more."""
    return hashlib.sha256(f"{state}{step}".encode()).hexdigest()


@lru_cache(maxsize=512)
def chain(steps: int) -> str:
    """The chain after so many steps that each were done once."""
    return "" if steps == 0 else link(chain(steps - 1), steps - 1)


def content(step: int, state: str) -> bytes:
    """A checkpoint, or the result, as a file."""
    return json.dumps({"step": step, "state": state}).encode()
