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
) -> Ending:
    """How the attempt ended. ``spared``: the stop was taken back; ``over``: it had filled its share of the disk."""
    asked = _asked(event, launch=launch, stop=stop, spared=spared)
    ending = decide(event.exit, _facts(event, over), asked=asked, contract=contract_of(launch))
    if ending.detail == GRACE_EXCEEDED and stop is not None and _by_force(event, stop):
        return replace(ending, detail="killed by force")
    return ending


def _by_force(event: Exited, stop: StopAsked) -> bool:
    """Whether it was given no grace, or not to its end: by who cancelled it, or for a GPU that does not answer."""
    if stop.kill_at is not None and stop.kill_at <= stop.at:
        return True
    return stop.why in ("cancel", "health") and (stop.kill_at is None or event.exit.at < stop.kill_at)


def _asked(event: Exited, *, launch: Launch | None, stop: StopAsked | None, spared: bool) -> str | None:
    """Why it was asked to stop, as far as its end is by that: one that was let run on may end as it likes.

    What it does within its grace, or by the signal itself, still comes of having been asked.
    """
    if stop is None or not spared:
        return stop.why if stop is not None else None
    if event.exit.exit_code == 0:
        return None
    terms = contract_of(launch)
    died = event.exit.signal == signal.Signals[terms.preempt_signal]
    by_signal = died or event.exit.exit_code == terms.checkpoint_exit_code
    grace = launch["grace_s"] if launch is not None else 0.0
    return stop.why if by_signal or event.exit.at <= stop.at + grace else None


def _facts(event: Exited, over: OverQuota | None) -> Facts:
    if over is None:
        return event.facts
    return replace(event.facts, error_message=over_words(over))
