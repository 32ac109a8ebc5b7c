"""How does the form say what a refusal calls by the names of REST?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scheduling.services.replacing import FIELD
from scheduling.web.people_words import label

_UNPREEMPTIBLE = (
    "a job that is never preempted needs the permission submit_unpreemptible, which an admin can give; untick "
    "Never preempted"
)
_SHARED_OUT = re.compile(
    r"multiple of node_count, which is (?P<nodes>\d+): ask for (?P<product>\d+) instead of (?P<gpus>\d+)"
)
_PART = re.compile(r"\b(with|anti_affinity)\.(group|level)\b")
_PARTS = {"group": "group", "level": "place"}


def in_form(error: Mapping[str, Any]) -> str:
    """The message of the error in words of the form, as far as those of :func:`people_words.said` don't suffice."""
    field, code, message = str(error["field"]), error.get("code"), str(error["message"])
    if (field, code) == ("preemptible", "not_permitted"):
        return _UNPREEMPTIBLE
    counts = _SHARED_OUT.search(message) if code == "mismatch" else None
    if counts is not None:
        empty = f", or leave {label('node_count')} empty" if message.endswith("leave node_count out") else ""
        return (
            f"{counts['gpus']} GPUs can't be shared out over {counts['nodes']} nodes with as many on each: ask for "
            f"{counts['product']} GPUs, or for another number of nodes{empty}"
        )
    if code == "needs_nvlink":
        message = message.replace("must be true", "must be ticked")
    if code == "not_after":
        message = message.replace("add its id to after", f"add it to {label('after')}")
    if code == "did_not_succeed":
        message = message.replace("set after_any", f"tick {label('after_any')}")
    if field == FIELD:
        message = message.replace(f"submit it without {FIELD}", f"untick {label(FIELD)}")
    message = _PART.sub(lambda found: f"the {_PARTS[found[2]]} of {label(found[1])}", message)
    message = f"{label('with')}{message[4:]}" if message.startswith("with ") else message
    return message[:1].upper() + message[1:] if field.startswith(("with", "anti_affinity")) else message


def by_label(field: str, message: str) -> str:
    """The message, begun by what the form calls the parameter that it is about where it begins with its name."""
    name = field.removeprefix("params.").split(".")[0]
    return f"{label(name)}{message[len(name) :]}" if message.startswith(f"{name} ") else message
