"""What each Xid, the number under which the NVIDIA driver reports a fault, means for a GPU and for the job on it.

The verdicts follow NVIDIA's Xid catalogue and DCGM's health watch. Where the two disagree the number is counted and
acted on the second time in a day. A number that is not in the table is fatal: NVIDIA's own device plugin for
Kubernetes treats every Xid that is not an application's so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Effect(StrEnum):
    """``NOTE``: only told. ``COUNT``: the job's own fault, counted. ``TWICE``: fatal the second time in a day.
    ``AFTER``: no new work, and out of service once the job has ended. ``FATAL``: unhealthy at once."""

    NOTE = "NOTE"
    COUNT = "COUNT"
    TWICE = "TWICE"
    AFTER = "AFTER"
    FATAL = "FATAL"


class Need(IntEnum):
    """What must have happened before a GPU is tested again; the greater one wins."""

    NOTHING = 0
    RESET = 1
    REBOOT = 2
    OPERATOR = 3


NEED_WORDS = {
    Need.NOTHING: "",
    Need.RESET: "needs a reset of the GPU or a reboot of its node, or an operator's word that it was done",
    Need.REBOOT: "needs a reboot of its node, or an operator's word that it is well",
    Need.OPERATOR: "needs an operator: return it to service or retire it",
}


@dataclass(frozen=True, slots=True)
class Xid:
    """``answers``: the device can still save a checkpoint. ``link``: its whole NVLink group is in doubt.
    ``node``: its node is to be emptied, since only a restart of the machine helps."""

    meaning: str
    effect: Effect
    need: Need = Need.NOTHING
    answers: bool = True
    link: bool = False
    node: bool = False


_NVLINK5 = Xid("NVLink fault", Effect.FATAL, Need.RESET, link=True)
TABLE: dict[int, Xid] = {
    13: Xid("fault of the program in the graphics engine", Effect.COUNT),
    31: Xid("the program touched memory it does not have", Effect.COUNT),
    43: Xid("the program's channel was stopped", Effect.NOTE),
    45: Xid("clean-up after another fault", Effect.NOTE),
    46: Xid("the GPU stopped processing", Effect.FATAL, Need.RESET),
    48: Xid("double-bit memory error", Effect.FATAL, Need.RESET),
    62: Xid("microcontroller halt", Effect.FATAL, Need.RESET),
    63: Xid("a memory row is to be replaced at the next reset", Effect.AFTER, Need.RESET),
    64: Xid("a memory row could not be replaced", Effect.FATAL, Need.OPERATOR),
    68: Xid("fault of the program in the video decoder", Effect.COUNT),
    74: Xid("NVLink error", Effect.FATAL, Need.RESET, link=True),
    79: Xid("the GPU has fallen off the bus", Effect.FATAL, Need.REBOOT, answers=False, node=True),
    92: Xid("many single-bit memory errors", Effect.NOTE),
    94: Xid("contained memory error", Effect.AFTER, Need.RESET),
    95: Xid("uncontained memory error", Effect.FATAL, Need.RESET),
    109: Xid("time-out of a context switch", Effect.TWICE, Need.RESET),
    119: Xid("the GPU's system processor does not answer", Effect.FATAL, Need.RESET),
    120: Xid("error in the GPU's system processor", Effect.FATAL, Need.RESET),
    121: Xid("error of the link to the processor", Effect.NOTE),
    136: Xid("training of a link failed", Effect.FATAL, Need.RESET),
    137: Xid("an NVLink access was not allowed", Effect.NOTE),
    140: Xid("memory error that was not recovered", Effect.FATAL, Need.RESET),
    143: Xid("the GPU could not be initialized", Effect.FATAL, Need.RESET),
    **dict.fromkeys(range(144, 151), _NVLINK5),
    154: Xid("the driver changed its advice for this GPU", Effect.NOTE),
    158: Xid("fatal time-out in the GPU", Effect.FATAL, Need.RESET),
}
UNKNOWN = Xid("a fault that is not in the table of known ones", Effect.FATAL)


def meaning_of(number: int) -> Xid:
    """What the Xid of that number means; a number that is not known is fatal."""
    return TABLE.get(number, UNKNOWN)


def in_words(number: int) -> str:
    """``Xid 79 (the GPU has fallen off the bus)``."""
    return f"Xid {number} ({meaning_of(number).meaning})"
