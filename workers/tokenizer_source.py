"""Of which model is the tokenizer that a merge carries? Standard library only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers.param_errors import nearest
from workers.said_back import shown
from workers.tokenizer_files import COMMON

BASE = "base"
UNION = "union"
_KNOWN = f"{BASE} (that of base_model) or one of the models, as it is called there"


def source_fault(given: Any, models: Sequence[str], *, based: bool) -> tuple[str, str] | None:
    """``(code, what is wrong)`` with a ``tokenizer_source``; ``models``: all that are named, ``based``: there is a
    ``base_model``."""
    if not isinstance(given, str) or not given.strip():
        return "not_a_name", f"is {_KNOWN}, not {shown(given)}"
    name = given.strip()
    if name == UNION:
        return "no_union", (
            "union makes one vocabulary of several and moves rows of the embeddings, which is not done here: name the "
            "model whose tokenizer fits all of them, or leave it out"
        )
    if name == BASE:
        return None if based else ("no_base", "is base and there is no base_model: name one of the models")
    if name in models:
        return None
    return "not_among_models", f"{shown(name)} is none of the models{nearest(name, list(models))}: it is {_KNOWN}"


def lacks_tokenizer(model: str) -> str:
    """What is said of a model that was named for its tokenizer and has none."""
    known = ", ".join(COMMON)
    return f"{model!r} has no tokenizer: there is no {known} or other file that holds its tokens; name another model"
