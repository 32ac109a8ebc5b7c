"""What a job had declared by its end: its events, and what it left where its kind lets that speak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from workers.agent.contract import COMMAND, contract_of
from workers.agent.last_words import last_words
from workers.agent.outcome import Exit, Facts
from workers.agent.tail import read_facts
from workers.protocol import Launch

# The results of a program that knows nothing of artifacts: all it left.
WHOLE = {"type": "artifact", "name": "output", "path": ".", "kind": "output"}


def facts_at_end(directory: Path, launch: Launch | None, *, end: Exit, stop_offset: int | None) -> Facts:
    """The facts of the attempt in ``directory``, by its ``end``.

    ``stop_offset`` is where in its events the stop was asked.
    """
    left = end.cause == "exit" and end.exit_code == contract_of(launch).checkpoint_exit_code
    facts = read_facts(directory / "events.jsonl", stop_offset=stop_offset, left=left)
    if end.exit_code != 0:
        facts = replace(facts, last_words=last_words(directory / "stdout"))
    if launch is None or launch["kind"] != COMMAND:
        return facts
    output, sign = directory / "work" / "output", contract_of(launch).done_file
    left = not facts.artifacts and any(path.is_file() for path in output.rglob("*"))
    return replace(
        facts, done_file=bool(sign) and (output / sign).is_file(), artifacts=(WHOLE,) if left else facts.artifacts
    )
