"""How long may a checkpoint's upload go on once the server waits no longer, and what is told when it is given up?"""

from __future__ import annotations

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
    if moved is not None and moved.what == Transfer.SAVE_CHECKPOINT:
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
