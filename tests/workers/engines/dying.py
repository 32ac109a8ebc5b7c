"""A child process that kills itself with SIGKILL at its n-th step towards the disk."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import torch

STEPS = ("pwrite", "fsync", "fdatasync", "ftruncate", "rename", "replace", "posix_fallocate")


def run_and_die(work: Callable[[], None], at_step: int) -> bool:
    """Fork, run ``work`` and die just before the step number ``at_step``; False if it got to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads; ours hold no lock
        pid = os.fork()
    if pid == 0:
        code = 70
        try:
            torch.set_num_threads(1)
            _arm(at_step)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def _arm(at_step: int) -> None:
    taken = 0

    def deadly(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal taken
            taken += 1
            if taken == at_step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return step

    for name in STEPS:
        setattr(os, name, deadly(getattr(os, name)))
