"""How did an attempt leave that was asked to: saved, unsaved, or killed? In words for its end on the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduling.core.words import duration_in_words

if TYPE_CHECKING:
    from scheduling.store.commit.attempts import End

# The outcomes of which nodes say the manner, since a stop was asked for.
ASKED = ("PREEMPTED", "CANCELLED", "TIMED_OUT")


def in_words(how: End) -> str:
    """``it saved and left 12 s after it was asked``; of several nodes each, where they did not leave alike.

    "" for an end that nobody asked for, and where its node says no more.
    """
    if how.outcome not in ASKED:
        return ""
    said = [(part["node"], _manner(part["manner"], {})) for part in how.data.get("parts", [])]
    if len({words for _, words in said}) > 1:
        return ", ".join(f"{node}: {words or 'it had ended'}" for node, words in said)
    return _manner(str(how.data.get("manner") or ""), how.data)


def _manner(manner: str, times: dict[str, Any]) -> str:
    asked_s, had_s = times.get("asked_s"), times.get("had_s")
    after = "" if asked_s is None else f" {duration_in_words(round(asked_s))} after it was asked"
    given = "its time to save" if had_s is None else f"the {duration_in_words(round(had_s))} that it had to save"
    return {
        "confirmed": f"it saved and left{after}",
        "unconfirmed": f"it left{after} without saying that it saved",
        "grace exceeded": f"it was killed at the end of {given}",
        "killed by force": "it was killed at once",
        "not started": "it had not started yet",
    }.get(manner, "")
