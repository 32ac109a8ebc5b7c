"""How long may a checkpoint's upload go on once the server waits no longer, and what is told when it is given up?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workers.agent.meter import Moved
from workers.agent.outcome import Ending
from workers.agent.statedir import Ref
from workers.protocol import Outcome, Transfer

# Who cancels has waited for the grace or wants no more of it; what a lost one leaves behind would come too late.
AT_ONCE = ("cancel", "lost")
# As many times as long as a job has between signal and kill: the GPUs are kept for who waits for them a little longer.
KILLS = 2


@dataclass(frozen=True, slots=True)
class CheckpointFound:
    """The ended attempt has left something to resume from, and its upload begins."""

    ref: Ref


@dataclass(slots=True)
class Upload:
    """What is known of the upload at an attempt's end: ``until`` when (boot clock) it may go on, whether a checkpoint
    was ``found`` to be moved, and how far the newest move of its files is."""

    until: float = math.inf
    found: bool = False
    moved: Moved | None = None

    def ends_at(self, *, waits: bool) -> float:
        """When it is given up; never as long as nothing is known to be on its way: a job that has left nothing to
        resume from has nothing that could come too late. ``waits``: one declared before the end is on its way."""
        return self.until if self.found or waits else math.inf


@dataclass(frozen=True, slots=True)
class UploadLimit:
    """Keep on disk until when (boot clock) the upload of its checkpoint may go on: a restart adds nothing to it."""

    ref: Ref
    until: float


def upload_until(why: str, now: float, kill_s: float) -> float:
    """When an upload ends that the server has asked, for ``why``, to end at ``now``."""
    return now if why in AT_ONCE else now + KILLS * kill_s


def given_up(ending: Ending, moved: Moved | None) -> Ending:
    """The same end, without the checkpoint, and in words how far its upload was."""
    far = ""
    if moved is not None and moved.what == Transfer.SAVE_CHECKPOINT and not moved.over:  # else it is of one before
        files = "1 file" if moved.of_files == 1 else f"{moved.of_files} files"
        far = f" ({moved.files} of {files}, {moved.bytes} of {moved.of_bytes} bytes were there)"
    before = ending.error
    if ending.outcome is Outcome.TIMED_OUT:  # whose words say that it saved, which is not true then
        before = "its max_duration came to its end"
    words = (
        f"its checkpoint was not in the store in time{far}, so its upload was given up and the one before counts: "
        "save less or earlier, or ask an admin for a longer grace_s of the queue"
    )
    return replace(ending, detail="upload given up", error=f"{before}; {words}" if before else words)
