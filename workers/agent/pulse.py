"""Whether the node's keeper hangs: it leaves a pulse, and its agent takes it. Standard library only (the keeper's).

The pulse is the time of the last change that ``keeper.lock`` shows. Its value means nothing but that it moves: setting
it takes no room on a full disk, and no clock is compared with another.
"""

from __future__ import annotations

import contextlib
import os
import signal

from workers.agent import proctable
from workers.agent.statedir import StateDir, boot_id, lock, read_json, write_json

LOOK_S = 0.5
# A keeper beats once a second, however busy; below this much silence nothing is told from a slow machine.
LEAST_SILENCE_S = 2.0


def beat(state: StateDir, now: float) -> None:
    """The keeper is at work at ``now`` (s, boot clock)."""
    with contextlib.suppress(OSError):
        os.utime(state.keeper_lock, ns=(int(now * 1e9), int(now * 1e9)))


class Pulse:
    """The agent's hand on the pulse of the keeper of ``state``."""

    def __init__(self, state: StateDir) -> None:
        self.state = state
        self.looked = float("-inf")
        self.last: int | None = None
        self.silent_s = 0.0

    def hung(self, now: float, *, after_s: float) -> tuple[int, float] | None:
        """``(pid, silence)`` of a keeper without a pulse for ``after_s`` at ``now``, all in s; None: it works, or there
        is none. It is told once in such a time.

        Only what was watched counts: an agent that got no processor for a minute has seen nothing of it. A keeper that
        waits for its disk is not hung: no signal reaches it, and it goes on when the disk does.
        """
        if now - self.looked < LOOK_S:
            return None
        watched = min(now - self.looked, 2 * LOOK_S)
        self.looked = now
        moved = self._moved()
        pid = self._pid()
        if moved or pid is None or proctable.state_of(pid) == proctable.WAITS_FOR_DISK:
            self.silent_s = 0.0
            return None
        self.silent_s += watched
        if self.silent_s < max(after_s, LEAST_SILENCE_S):
            return None
        silence, self.silent_s = self.silent_s, 0.0
        return pid, silence

    def _moved(self) -> bool:
        before = self.last
        try:
            self.last = self.state.keeper_lock.stat().st_mtime_ns
        except OSError:
            self.last = None
        return self.last != before or self.last is None

    def _pid(self) -> int | None:
        """The living keeper's, as it wrote it down; a pid that somebody else has by now is not."""
        known = read_json(self.state.keeper_file) or {}
        pid = known.get("pid")
        if not isinstance(pid, int) or known.get("boot_id") != boot_id():
            return None
        proc = proctable.read_proc(pid)
        if proc is None or proc.start != known.get("start"):
            return None
        with lock(self.state.keeper_lock) as free:
            return pid if free is None else None


def end(state: StateDir, pid: int, silence_s: float) -> bool:
    """SIGKILL to the keeper ``pid``, and a word for the next one why; False when it is not ours to end."""
    why = {"pid": pid, "boot_id": boot_id(), "why": f"its keeper hung for {silence_s:.0f} s, so the agent ended it"}
    with contextlib.suppress(OSError):  # a full disk costs the word
        write_json(state.keeper_ended, why)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        state.keeper_ended.unlink(missing_ok=True)
        return False
    return True


def why_it_ended(state: StateDir) -> str:
    """Why the keeper before this one is gone, as far as its agent has said so; to be asked before this one is known."""
    last, said = read_json(state.keeper_file) or {}, read_json(state.keeper_ended) or {}
    hung = said.get("pid") == last.get("pid") and said.get("boot_id") == last.get("boot_id") == boot_id()
    return str(said["why"]) if hung and "why" in said else "the process that kept the job died"
