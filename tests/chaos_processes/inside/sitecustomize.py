"""Python imports this by itself in every process of a house of chaos: the wall clock of a node may then jump.

``EMEP_CHAOS_CLOCK`` names a file with the seconds by which the node's wall clock is off; it is read at each look, so a
jump meets running processes. The clock that counts since boot is untouched, as it is on a real machine. What the
checker's own part writes keeps the true time: it compares the processes of several nodes.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CLOCK = "EMEP_CHAOS_CLOCK"


def _the_checkers() -> ModuleType:
    """The checker's file of the same name has run: Python itself takes only the first."""
    path = ROOT / "tests" / "checker" / "inside" / "sitecustomize.py"
    spec = importlib.util.spec_from_file_location("checker_inside", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _jumping(file: Path) -> None:
    """``time.time`` is off by what the file says; a file that can't be read means that it is right."""
    true_time, true_ns = time.time, time.time_ns
    if "tests.checker.truth" in sys.modules:
        truth: Any = sys.modules["tests.checker.truth"]
        truth.time = SimpleNamespace(
            time=true_time, clock_gettime=time.clock_gettime, CLOCK_BOOTTIME=time.CLOCK_BOOTTIME
        )

    def off() -> float:
        try:
            return float(file.read_text() or 0)
        except (OSError, ValueError):
            return 0.0

    time.time = lambda: true_time() + off()
    time.time_ns = lambda: true_ns() + int(off() * 1e9)


def _hand_on(file: str) -> None:
    """Every job that this agent starts has the node's clock too."""
    from workers.agent import launch

    build = launch.build

    def with_clock(*given: Any, **named: Any) -> Any:
        spec = build(*given, **named)
        path = os.pathsep.join(p for p in (str(HERE), spec.env.get("PYTHONPATH", "")) if p)
        return replace(spec, env={**spec.env, CLOCK: file, "PYTHONPATH": path})

    launch.build = with_clock


_the_checkers()
if CLOCK in os.environ:
    _jumping(Path(os.environ[CLOCK]))
    if "EMEP_JOB_ID" not in os.environ and "agent" in sys.orig_argv:
        _hand_on(os.environ[CLOCK])
