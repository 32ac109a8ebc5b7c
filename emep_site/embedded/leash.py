"""``python leash.py COMMAND ...`` becomes COMMAND, and is killed by the kernel as soon as its parent is gone.

Standard library only and run by path, so that it costs a few milliseconds and no import of the project.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(sig: int) -> None:
    """This process gets ``sig`` when its parent ends, also across exec; at once if the parent has ended already."""
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        os.kill(os.getpid(), sig)


if __name__ == "__main__":
    die_with_parent(signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  the command is the supervisor's
