"""What a job may be called: any language and emoji, nothing that deceives a reader or a file system; and its id."""

from __future__ import annotations

import re
import unicodedata

from scheduling.core.fields import Fields, shown
from scheduling.core.unusable import BrokenText

MAX_NAME = 100
# They change the direction of the text around them, so that a name shows as something else than it is.
BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ID = re.compile("[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
UNPRINTABLE = frozenset({"Cc", "Cs", "Cn", "Co", "Zl", "Zp"})


def read_name(fields: Fields, field: str, *, default: str | None) -> str | None:
    """The name in ``field``, ``default`` if none was sent, or None after an error."""
    value = fields.value(field)
    return default if value is None else as_name(fields, field, value)


def is_job_id(value: object) -> bool:
    """Whether the value is written like the id of a job, of one that there is or not."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def check_replaces(fields: Fields) -> None:
    """An error for what can't be the id of a job; which jobs there are the caller knows."""
    value = fields.value("replaces")
    if value is None or is_job_id(value):
        return
    message = f"replaces must be the id of a waiting job whose place it takes, not {shown(value)}; or leave it out"
    fields.refuse("replaces", "not_a_job_id", message)


def as_name(fields: Fields, path: str, value: object) -> str | None:
    """``value`` as a name without surrounding space, or None after an error at ``path``."""
    if isinstance(value, BrokenText):
        fields.refuse(path, "bad_character", f"{path} {value.why} (not {shown(value)})")
        return None
    if not isinstance(value, str):
        fields.refuse(path, "not_text", f"{path} must be text of 1 to {MAX_NAME} characters, not {shown(value)}")
        return None
    name = value.strip(" \t")
    if len(name) > MAX_NAME:
        message = f"{path} may have at most {MAX_NAME} characters, not {len(name)}; shorten it"
        fields.refuse(path, "too_long", message, MAX_NAME)
        return None
    problem = _problem(path, name)
    if problem is not None:
        code, message = problem
        fields.refuse(path, code, f"{message} (not {shown(value)})", MAX_NAME if code == "empty" else None)
        return None
    return name


def _problem(path: str, name: str) -> tuple[str, str] | None:
    if not any(unicodedata.category(character)[0] not in "CZ" for character in name):
        return "empty", f"{path} needs at least one visible character, and at most {MAX_NAME}"
    bad = forbidden_in(name)
    if bad is not None:
        return "bad_character", f"{path} may not hold the control character U+{ord(bad):04X}; remove it"
    if "/" in name or "\\" in name:
        return "bad_character", f"{path} may not hold a slash or a backslash; use - or _ instead"
    if name.startswith("."):
        return "bad_start", f"{path} may not begin with a dot; begin with a letter or a digit"
    return None


def forbidden_in(text: str) -> str | None:
    """The first character of ``text`` that no name or label may hold, or None."""
    return next((each for each in text if each in BIDI_CONTROLS or unicodedata.category(each) in UNPRINTABLE), None)
