"""What a job may be called: any language and emoji, nothing that deceives a reader or a file system."""

from __future__ import annotations

import unicodedata

from scheduling.core.fields import Fields, shown
from scheduling.core.unusable import BrokenText

MAX_NAME = 100
# They change the direction of the text around them, so that a name shows as something else than it is.
BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
UNPRINTABLE = frozenset({"Cc", "Cs", "Cn", "Co", "Zl", "Zp"})


def read_name(fields: Fields, field: str, *, default: str | None) -> str | None:
    """The name in ``field``, ``default`` if none was sent, or None after an error."""
    value = fields.value(field)
    return default if value is None else as_name(fields, field, value)


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
