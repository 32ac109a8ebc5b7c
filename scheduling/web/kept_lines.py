"""What of an earlier job can no line of a field say? It goes along beside them unless it is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scheduling.web.form_fields import loaded
from scheduling.web.rule_lines import in_words

MORE, DROP = "_more", "_drop"


def names(field: str) -> tuple[str, str]:
    """The texts of the form that have what is kept beside this field, and whether it is left out."""
    return field + MORE, field + DROP


def as_text(kept: Any) -> str:
    """What is kept as the form sends it along; "" for nothing."""
    return json.dumps(kept) if kept else ""


def rules(texts: Mapping[str, str], field: str) -> list[Any]:
    """The rules that are kept beside the lines of this field."""
    found = _kept(texts, field)
    return found if isinstance(found, list) else []


def pairs(texts: Mapping[str, str], field: str) -> dict[str, Any]:
    """The names with their values that are kept beside the lines of this field."""
    found = _kept(texts, field)
    return found if isinstance(found, dict) else {}


def shown(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """What is kept beside each field, as people read it; left out or not."""
    found: dict[str, list[str]] = {}
    for field in (name.removesuffix(MORE) for name in texts if name.endswith(MORE)):
        kept = loaded(texts[field + MORE])
        if isinstance(kept, list):
            found[field] = [in_words(rule) for rule in kept]
        elif isinstance(kept, dict):
            found[field] = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in kept.items()]
    return found


def _kept(texts: Mapping[str, str], field: str) -> Any:
    more, drop = names(field)
    return None if texts.get(drop) else loaded(texts.get(more, ""))
