"""The test on a GPU that was out of service (D23), as a process of its own: it may hang or die, the agent does not.

It ends with 0 when the GPU does right; its last line says what was tried or what went wrong. Whole numbers are
multiplied, so that every product must be exact: a GPU that is nearly right is wrong. Without torch on the node
nothing can be computed, and that is said.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import signal
import sys
from typing import Any

SIDE = 512
FILL = 64 * 2**20


def main(arguments: list[str] | None = None) -> int:
    """0: the GPU that this process sees does right. 1: it does not. A process that outlives its limit is killed."""
    options = argparse.ArgumentParser(description="Tries the one GPU that this process sees.")
    options.add_argument("--limit", type=int, default=60, help="seconds after which it kills itself")
    options.add_argument("--simulated", choices=("pass", "fail", "hang"))
    options.add_argument("--cpu", action="store_true", help="compute without a GPU, to try this program itself")
    given = options.parse_args(arguments)
    signal.alarm(given.limit)  # the agent that started it may be gone
    if given.simulated is not None:
        return _simulated(given.simulated)
    if importlib.util.find_spec("torch") is None:
        return _say("torch is not installed here: nothing was computed, only the driver was asked")
    return _compute(importlib.import_module("torch"), "cpu" if given.cpu else "cuda")


def _simulated(wanted: str) -> int:
    if wanted == "hang":
        signal.pause()
    if wanted == "fail":
        return _say("simulated fault: 3 products of 512 x 512 are wrong", bad=True)
    return _say("simulated: nothing was computed")


def _compute(torch: Any, device: str) -> int:
    """Fill memory and read it back, and multiply whole numbers whose product is known."""
    if device == "cuda" and not torch.cuda.is_available():
        return _say("torch sees no GPU here", bad=True)
    for value in (0x55, 0xAA):
        kept = torch.full((FILL,), value, dtype=torch.uint8, device=device)
        wrong = int((kept != value).sum())
        if wrong:
            return _say(f"{wrong} of {FILL} bytes were not kept", bad=True)
    wrong = 0
    for kind in (torch.float64, torch.float32):
        left = (torch.arange(SIDE, dtype=kind, device=device) % 7)[:, None].expand(SIDE, SIDE).contiguous()
        right = (torch.arange(SIDE, dtype=kind, device=device) % 5)[None, :].expand(SIDE, SIDE).contiguous()
        wrong += int(((left @ right) != SIDE * left[:, :1] * right[:1, :]).sum())
    if wrong:
        return _say(f"{wrong} products of {SIDE} x {SIDE} are wrong", bad=True)
    return _say(f"{FILL // 2**20} MiB kept what was written, {SIDE} x {SIDE} products are right")


def _say(line: str, *, bad: bool = False) -> int:
    sys.stdout.write(line + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
