"""Which checkpoints that jobs declared could not be taken, and what of that is still to be told?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from workers.agent.attempt import Held
from workers.agent.messages import Published, PublishFailed, Snapshotted, Tailed
from workers.agent.outcome import Ending
from workers.agent.phase import Phase
from workers.agent.statedir import Ref
from workers.protocol import Outcome

# So many different reasons of one attempt are told; a job that finds more has been told enough.
MAX_TOLD = 20
_NUMBER = re.compile(r"\d+")


@dataclass(slots=True)
class Known:
    """Of one attempt. ``newest`` is why its last checkpoint was not taken ("" when it was).

    ``doubtful``: it was gone when it was looked for, as happens to a job that goes on to its next checkpoint.
    """

    newest: str = ""
    doubtful: bool = False
    told: set[str] = field(default_factory=set)


class Refusals:
    """What is known of each attempt; each different reason is told once, as a report of its attempt."""

    def __init__(self) -> None:
        self.of: dict[Ref, Known] = {}

    def snapshotted(self, held: Held, event: Snapshotted) -> None:
        """A checkpoint on the way was taken or not. A node's own trouble with it is none of the job's."""
        known = self.of.setdefault(held.ref, Known())
        if event.artifact is not None:
            known.newest, known.doubtful = "", False
        elif not event.stale and not event.own and not (event.gone and held.next_save is not None):
            known.newest, known.doubtful = event.error, event.gone
            if not event.gone:
                _tell(held, known)

    def tailed(self, held: Held, event: Tailed) -> None:
        """Its events were read again: one that was gone is told, unless another was declared since."""
        known = self.of.get(held.ref)
        if known is None or not known.doubtful:
            return
        known.doubtful = False
        if event.saved is not None:
            known.newest = ""
        else:
            _tell(held, known)

    def ending(self, held: Held, ending: Ending, event: Published | PublishFailed) -> Ending:
        """The end as it is to be told: with why its checkpoint is not in the store, where it should be and is not."""
        if isinstance(event, PublishFailed):
            if ending.outcome is Outcome.SUCCEEDED:
                return Ending(Outcome.FAILED, "upload refused", event.error)
            return _without_checkpoint(held, ending, event.error)
        known = self.of.get(held.ref)
        if known is None or not known.newest or not ending.checkpoint or event.checkpoint is not None:
            return ending
        return _without_checkpoint(held, ending, known.newest)

    def forget(self, ref: Ref) -> None:
        """Nothing of this attempt is told any more."""
        self.of.pop(ref, None)


def _tell(held: Held, known: Known) -> None:
    reason = _NUMBER.sub("0", known.newest)  # the same fault of step-7 and of step-8 is one
    if reason in known.told or len(known.told) >= MAX_TOLD or held.phase not in (Phase.RUNNING, Phase.PUBLISHING):
        return
    known.told.add(reason)
    held.add({"type": "checkpoint_refused", "error": known.newest[:1500]})


def _without_checkpoint(held: Held, ending: Ending, why: str) -> Ending:
    before = ending.error
    if ending.outcome is Outcome.TIMED_OUT:  # whose words say that it saved, which is not true then
        said = held.exited.facts.error_message if held.exited is not None else ""
        before = said or "its max_duration came to its end"
    words = f"its checkpoint was refused: {why}"
    return replace(ending, detail="checkpoint refused", error=f"{before}; {words}" if before else words)
