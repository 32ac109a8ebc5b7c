"""When a running job is asked to end for its ``max_duration``, and when it is killed (D25). Pure."""

from __future__ import annotations

from workers.agent.contract import limit_notice_of, saves_by_itself
from workers.protocol import Launch

# Most of a limit that is given up to saving: a job of a few minutes would otherwise be stopped long before its time.
SAVING_SHARE = 10


def limits(launch: Launch, started_at: float, *, declared: bool, kill_s: float) -> tuple[float, float]:
    """``(ask at, kill at)`` on the clock of ``started_at``, in seconds.

    A job that is known to save is asked its grace before the end of its time, and at most a tenth of that time: it is
    of a built-in kind, was restored from a checkpoint, or has ``declared`` one. Any other runs to the end, since all
    that the signal brings it is its death; ``limit_notice_s`` says otherwise, up to half of the time. From the signal
    on it has ``kill_s`` at least.
    """
    whole = launch["remaining_s"]
    own = limit_notice_of(launch)
    if own is not None:
        notice = min(own, whole / 2)
    elif declared or launch["resume"] is not None or saves_by_itself(launch):
        notice = min(launch["grace_s"], whole / SAVING_SHARE)
    else:
        notice = 0.0
    ask = started_at + whole - notice
    return ask, max(started_at + whole, ask + kill_s)
