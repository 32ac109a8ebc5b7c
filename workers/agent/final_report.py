"""What an attempt's last message says: how it ended, and what of it is in the store."""

from __future__ import annotations

from typing import Any

from workers.agent.messages import Exited, StopAsked
from workers.agent.outcome import Ending, Exit
from workers.agent.statedir import Ref
from workers.protocol import Outcome

# These speak for themselves, whatever had been asked.
_BY_ITSELF = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.OOM)


def final_report(
    ref: Ref, ending: Ending, *, exited: Exited | None, stop: StopAsked | None, artifacts: tuple[str, ...],
    checkpoint: str | None,
) -> dict[str, Any]:  # fmt: skip
    """The ``finished`` report for ``ending``; ``exited`` None: it never ran, or nobody saw its end."""
    end = exited.exit if exited is not None else None
    why = stop.why if stop is not None else ("lost" if ending.outcome is Outcome.LOST else None)
    report: dict[str, Any] = {
        "attempt": ref.attempt, "epoch": ref.epoch, "type": "finished",
        "outcome": str(ending.outcome), "exit_code": _exit_code(end.exit_code, end.signal) if end else None,
        "error": ending.error[:2000], "artifacts": list(artifacts), "checkpoint": checkpoint,
        "why": None if ending.outcome in _BY_ITSELF else why, "detail": ending.detail[:500],
        "step": (exited.facts.last_step if exited is not None else None) or 0,
    }  # fmt: skip
    if ending.outcome is Outcome.FAILED and exited is not None and exited.facts.problems:
        report["errors"] = list(exited.facts.problems)
    if end is not None and stop is not None and ending.outcome not in _BY_ITSELF:
        report |= _its_time(end, stop)
    if end is not None and not end.clean:
        report["gpus_clean"] = False
        report["gpus_held"] = bool(end.left)  # memory comes free without a reboot, and a test sees when
        report["detail"] = _why_not_free(end)
    return report


def _its_time(end: Exit, stop: StopAsked) -> dict[str, float]:
    """How long before its end it was asked to stop, and how long it was given; what was given is not known here where
    the server says when that is over."""
    if end.at < stop.at:  # nobody saw its end, or it is of another boot
        return {}
    told = {"asked_s": round(end.at - stop.at, 3)}
    return told if stop.kill_at is None else {**told, "had_s": round(max(0.0, stop.kill_at - stop.at), 3)}


def _why_not_free(end: Exit) -> str:
    """What the server shows as the reason of each GPU."""
    if end.left:
        return f"not free after its job: {end.left}"[:500]
    return f"processes that could not be killed: {list(end.survivors)[:20]}"


def _exit_code(exit_code: int | None, signal: int | None) -> int | None:
    """One number: a signal is 128 + its number, as shells write it."""
    return 128 + signal if signal is not None else exit_code
