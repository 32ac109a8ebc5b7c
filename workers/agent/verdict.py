"""What an attempt's end is judged by: its exit, what it declared, and whether its end is by what was asked of it."""

from __future__ import annotations

import signal
from dataclasses import replace

from workers.agent.contract import contract_of
from workers.agent.disk_share import over_words
from workers.agent.messages import Exited, OverQuota, StopAsked
from workers.agent.outcome import GRACE_EXCEEDED, Ending, Facts, decide
from workers.protocol import Launch


def verdict(
    event: Exited, *, launch: Launch | None, stop: StopAsked | None, spared: bool, over: OverQuota | None
) -> tuple[Ending, StopAsked | None]:
    """How the attempt ended, and the stop that its end is by (None: it ended by itself).

    ``spared``: the stop was taken back; ``over``: it had filled its share of the disk.
    """
    if stop is not None and spared and not _as_asked(event, stop, launch):
        stop = None
    asked = stop.why if stop is not None else None
    ending = decide(event.exit, _facts(event, over), asked=asked, contract=contract_of(launch))
    if ending.detail == GRACE_EXCEEDED and stop is not None and _by_force(event, stop):
        ending = replace(ending, detail="killed by force")
    return ending, stop


def _by_force(event: Exited, stop: StopAsked) -> bool:
    """Whether it was given no grace, or not to its end: by who cancelled it, or for a GPU that does not answer."""
    if stop.kill_at is not None and stop.kill_at <= stop.at:
        return True
    return stop.why in ("cancel", "health") and (stop.kill_at is None or event.exit.at < stop.kill_at)


def _as_asked(event: Exited, stop: StopAsked, launch: Launch | None) -> bool:
    """Whether one that was let run on ended by the stop all the same; else it may end as it likes.

    What it does within its grace, or by the signal itself, still comes of having been asked.
    """
    if event.exit.exit_code == 0 or event.exit.cause not in ("exit", "kill"):
        return False
    terms = contract_of(launch)
    died = event.exit.signal == signal.Signals[terms.preempt_signal]
    by_signal = died or event.exit.exit_code == terms.checkpoint_exit_code
    grace = launch["grace_s"] if launch is not None else 0.0
    return by_signal or event.exit.at <= stop.at + grace


def _facts(event: Exited, over: OverQuota | None) -> Facts:
    if over is None:
        return event.facts
    return replace(event.facts, error_message=over_words(over))
