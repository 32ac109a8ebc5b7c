"""Python's search for cyclic garbage, held back while objects are made by the hundred thousand that all stay.

Each search walks through what is alive. Nothing is decided by it: results are the same, only sooner.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects made between two searches of the youngest: a fiftieth of what a large simulation makes.
SELDOM = 1_000_000


@contextmanager
def searched_seldom() -> Iterator[None]:
    """Within it the youngest objects are searched once in a million made, and not in 700 as Python has it by itself."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], SELDOM) if before[0] else 0, *before[1:])  # 0: somebody has turned it off
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def not_searched() -> Iterator[None]:
    """Within it nothing is searched: for work of a few seconds whose objects all stay."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
