"""Which words does a typed program consist of? A line as a shell splits it, one word in each line, or sh's own line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

LINE, LINES, SH = "line", "lines", "sh"
READINGS = {
    LINE: "as a line: words between spaces, quotes keep them together; no shell",
    LINES: "one word in each line, as it stands",
    SH: "by sh, which replaces variables and *; one command",
}
# Words that only a shell understands.
OF_A_SHELL = frozenset({";", "&&", "||", "|", "&", ">", ">>", "<", "2>", "2>&1", "&>"})
EMPTY = "say which program runs: the program and its arguments, like python train.py --lr 0.1"


def words(text: str, reads: str) -> list[str]:
    """The program and its arguments; all of the text as one word where its quotes don't match."""
    if reads == LINES:
        return [line.strip() for line in text.split("\n") if line.strip()]
    try:
        return shlex.split(_unfolded(text))
    except ValueError:
        return [text]


def as_typed(argv: Any) -> str:
    """A line that is read back to the same words; "" for what is no list."""
    if not isinstance(argv, list):
        return ""
    return shlex.join(word if isinstance(word, str) else repr(word) for word in argv)


def program_faults(text: str, reads: str) -> Iterator[str]:
    """What is wrong with the text before it is words; sh's line is judged where all such lines are."""
    if not text.strip():
        yield EMPTY
    elif reads == LINE:
        try:
            found = shlex.split(_unfolded(text))
        except ValueError:
            yield "a quotation mark or backslash in it is not closed: close it, or choose one word in each line"
            return
        joint = next((word for word in found if word in OF_A_SHELL and word in text.split()), None)
        if joint is not None:
            yield (
                f"no shell reads this line, so {joint} would be an argument of the program: put the commands into a "
                "script and run that, or put it in quotes if it is one"
            )


def _unfolded(text: str) -> str:
    """The text with its folded lines (a backslash at the end) made one, as a shell does; not inside single quotes."""
    made: list[str] = []
    quote, place = "", 0
    while place < len(text):
        character = text[place]
        if character == "\\" and quote != "'":
            pair = text[place : place + 2]
            made.append("" if pair == "\\\n" else pair)
            place += 2
            continue
        if character in ("'", '"') and quote in ("", character):
            quote = "" if quote else character
        made.append(character)
        place += 1
    return "".join(made)
