"""What a job's end means: one pure table. (Was a stop asked? How did it end? What did it declare?)"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workers.agent.contract import Contract
from workers.protocol import Outcome
from workers.said_back import shown

OOM_CODES = ("oom", "out_of_memory")
NO_SPACE = "no_space"
DISK_QUOTA = "disk_quota"
GRACE_EXCEEDED = "grace exceeded"
MAX_QUOTED = 300


@dataclass(frozen=True, slots=True)
class Exit:
    """How the leader ended, from the keeper: ``cause`` is exit, kill, fence, guard, keeper (it died), exec (it could
    not be run) or node (it must not be, as the node is set up).

    ``clean`` False: its GPUs are not free, because something of the job could not be killed, or is ``left`` on them in
    words. ``memory_limit``: the kernel ended it for taking more bytes of host memory than that (0: it did not).
    """

    exit_code: int | None = None
    signal: int | None = None
    cause: str = "exit"
    error: str = ""
    clean: bool = True
    survivors: tuple[int, ...] = ()
    at: float = 0.0
    memory_limit: int = 0
    left: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the job declared in its events file. ``checkpoint_after_stop``: one written after the stop was asked.

    ``last_path`` is where the last declared checkpoint lies (None: none was declared); ``done_file``: the file by
    which the job says that it is done lies there; ``yielded``: it says that it leaves to be run again. ``last_words``:
    the last line of its log. ``problems``: what is wrong one by one, as it has listed it.
    """

    done: bool = False
    yielded: bool = False
    done_file: bool = False
    last_path: str | None = None
    checkpoint_after_stop: bool = False
    last_step: int | None = None
    artifacts: tuple[dict[str, Any], ...] = ()
    error_code: str = ""
    error_message: str = ""
    problems: tuple[dict[str, str], ...] = ()
    bad_lines: int = 0
    first_bad: str = ""
    last_words: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """The verdict: ``outputs`` are uploaded on success, the checkpoint where a later run may resume from it.

    ``clean`` is whether the job ended in order, so that its checkpoint directory may be taken as it is.
    """

    outcome: Outcome
    detail: str = ""
    error: str = ""
    outputs: tuple[dict[str, Any], ...] = field(default=())
    checkpoint: bool = False
    clean: bool = False


# Of a job whose agent was restarted since: how much it took is not known any more.
_OVER_QUOTA = (
    "what it wrote and its inputs took more of the disk than its node grants one job (job_disk_bytes): write less, or "
    "ask an operator to raise it"
)


def how_it_ended(end: Exit) -> str:
    """The end in words: exit code, or signal with what it usually means."""
    if end.error:
        return end.error
    if end.signal is not None:
        likely = " (often the kernel's out-of-memory killer)" if end.signal == 9 and end.cause == "exit" else ""
        return f"ended by signal {end.signal}{likely}"
    return f"exit code {end.exit_code}"


def decide(end: Exit, facts: Facts, *, asked: str | None, contract: Contract | None = None) -> Ending:
    """The outcome of one attempt; ``asked`` is why it was asked to stop (None: it was not)."""
    terms = contract or Contract()
    if end.cause in ("fence", "guard", "keeper", "node") or asked == "lost":
        return Ending(Outcome.LOST, end.cause, error=_lost_words(end), checkpoint=False)
    succeeded = Ending(Outcome.SUCCEEDED, outputs=facts.artifacts, clean=True)
    if asked is None:
        return succeeded if end.exit_code == 0 else _unasked(end, facts, terms)
    left = end.exit_code == terms.checkpoint_exit_code or facts.yielded
    confirmed = end.cause == "exit" and (left or facts.checkpoint_after_stop)
    # What died by a signal is not in order, but what it had declared complete by then is.
    in_order = confirmed and end.signal is None
    # Declared is enough: torchrun exits 1 after a signal whatever its ranks did, and 0 alone says nothing.
    if facts.done or (end.exit_code == 0 and (facts.done_file or terms.zero_is_done)):
        return succeeded
    if asked == DISK_QUOTA:
        return Ending(Outcome.FAILED, DISK_QUOTA, facts.error_message or _OVER_QUOTA)
    if asked == "cancel":
        return Ending(Outcome.CANCELLED, _manner(end, confirmed), checkpoint=confirmed, clean=in_order)
    if asked == "time_limit":
        words = facts.error_message or _out_of_time(confirmed)
        return Ending(Outcome.TIMED_OUT, _manner(end, confirmed), words, checkpoint=confirmed, clean=in_order)
    return Ending(Outcome.PREEMPTED, _manner(end, confirmed), checkpoint=True, clean=in_order)


def _unasked(end: Exit, facts: Facts, contract: Contract) -> Ending:
    if end.exit_code == contract.checkpoint_exit_code or (facts.yielded and end.cause == "exit"):
        return Ending(Outcome.PREEMPTED, "yielded", checkpoint=True, clean=end.signal is None)
    if end.memory_limit:
        return Ending(Outcome.OOM, "host memory", _out_of_host_memory(end.memory_limit))
    words = f"{facts.error_code}: {facts.error_message}" if facts.error_code else facts.error_message
    words = f"{words} ({how_it_ended(end)})" if words else _with_last_words(end, facts)
    if facts.error_code in OOM_CODES:
        return Ending(Outcome.OOM, "out of memory", words)
    if facts.error_code == NO_SPACE:  # the node's fault, not the job's: it is tried again elsewhere, after a pause
        return Ending(Outcome.LOST, NO_SPACE, words)
    return Ending(Outcome.FAILED, facts.error_code, words)


def _with_last_words(end: Exit, facts: Facts) -> str:
    """How a job ended that declared no error: most programs say why in the last line that they write."""
    told = how_it_ended(end)
    if end.error or not facts.last_words:
        return told
    return f"{told}; the last line of its log: {shown(facts.last_words, MAX_QUOTED)}"


def _manner(end: Exit, confirmed: bool) -> str:
    if end.cause != "exit":
        return GRACE_EXCEEDED
    return "confirmed" if confirmed else "unconfirmed"


def _out_of_time(saved: bool) -> str:
    if saved:
        return "its max_duration came to its end, so it was asked to save, and did; a retry goes on from there"
    return "its max_duration came to its end; ask for more, or save checkpoints, from which a retry goes on"


def _out_of_host_memory(limit: int) -> str:
    return (
        f"it took more of the host's memory than its node grants one job: the limit is {limit} bytes "
        "(job_memory_bytes), and the kernel ended it. Use less (fewer loader workers, smaller pieces read at once), or "
        "ask an operator to raise the limit; this is not the GPU's memory"
    )


def _lost_words(end: Exit) -> str:
    if end.cause in ("node", "keeper") and end.error:
        return end.error
    return {
        "fence": "the node had not reached the server for too long and stopped the job by itself",
        "guard": "the node was stopped with its jobs",
        "keeper": "the process that kept the job died",
    }.get(end.cause, "the server gave the attempt up")
