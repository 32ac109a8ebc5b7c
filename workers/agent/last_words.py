"""What did a job write last? The end of its log in one line, for the error of one that failed."""

from __future__ import annotations

import re
from pathlib import Path

from workers.agent.tail import clean_text

# The last line is looked for in so much of the end of a log; of a longer line the beginning is not needed.
READ_BYTES = 16 * 1024
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")


def last_words(log: Path) -> str:
    """The last line of the log with a letter or digit in it, without colours; "" when there is none at its end."""
    try:
        with log.open("rb") as source:
            size = source.seek(0, 2)
            source.seek(max(0, size - READ_BYTES))
            text = source.read(READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [_ESCAPES.sub("", line).strip() for line in re.split(r"[\r\n]", clean_text(text))]
    return next((line for line in reversed(lines) if any(c.isalnum() for c in line)), "")
