"""The fields of a submission: which there are, their other names, and reading one with its errors kept."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from itertools import islice

from scheduling.core.resources import FieldError, Limit
from scheduling.core.unusable import BrokenText, HugeNumber

ALIASES = {"gpu_per_node": "gpus_per_node", "nvlink": "nvlink_required", "duration": "max_duration"}
KNOWN = (
    "kind", "name", "project", "queue", "priority", "purpose", "gpu_count", "node_count", "gpus_per_node",
    "gpu_memory_min", "nvlink_required", "nvlink_exclusive", "required_level", "max_wait_for_level", "allow_span",
    "max_duration", "affinity", "anti_affinity", "with", "group", "after", "after_any",
    "not_before", "start_by", "retries", "preemptible",
    "params", "replaces",
)  # fmt: skip
MAX_SHOWN = 60
MAX_FIELD = 200

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_READ_DIGITS = 18  # longer ones are beyond every limit, and a text of thousands takes long to become a number


def shown(value: object) -> str:
    """What somebody sent, short enough to say back to him: as JSON, but for a text alone, which is in single quotes."""
    text = repr(value) if isinstance(value, str | BrokenText) else _written(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _written(value: object) -> str:
    """The beginning of the value as JSON, whole if it is no longer than what is shown."""
    if isinstance(value, Mapping):
        members = (f"{_written(name)}: {_written(each)}" for name, each in islice(value.items(), MAX_SHOWN))
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, islice(value, MAX_SHOWN)))}]"
    if isinstance(value, str | BrokenText):
        text = (value.text if isinstance(value, BrokenText) else value)[: MAX_SHOWN + 1]
        # What deceives a reader, such as a change of direction, is shown as its code.
        return json.dumps(text, ensure_ascii=not text.isprintable())
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def nearest(value: object, known: Sequence[str], *, likeness: float = 0.5) -> str:
    """`` (did you mean 'x'?)`` for the nearest of ``known`` whatever the case, or nothing where none is so like it, 0
    to 1."""
    folded = {name.casefold(): name for name in known}
    word = str(value)[:MAX_SHOWN].casefold()
    close = difflib.get_close_matches(word, list(folded), n=1, cutoff=likeness)
    return f" (did you mean {folded[close[0]]!r}?)" if close else ""


class Fields:
    """The raw fields by their right names, and what was found wrong with them so far."""

    def __init__(self, raw: Mapping[str, object]) -> None:
        self.errors: list[FieldError] = []
        self._values: dict[str, object] = {}
        self._spelt: dict[str, str] = {}
        for name, value in raw.items():
            right = ALIASES.get(name, name)
            if right in self._values and self._values[right] != value:
                message = (
                    f"{self.spelt(right)} and {name} are two names of one field, yet they disagree; give one of them"
                )
                self.refuse(right, "duplicate_field", message)
                continue
            self._values[right] = value
            self._spelt[right] = name

    def refuse(self, name: str, code: str, message: str, limit: Limit = None) -> None:
        """An error more; the field is named as the sender spelt it."""
        # A lone surrogate is a legal JSON string but no UTF-8; the answer must not fail on it.
        field = self.spelt(name)[:MAX_FIELD].encode("utf-8", "backslashreplace").decode()
        self.errors.append(FieldError(field, code, message, limit))

    def in_order(self) -> tuple[FieldError, ...]:
        """The errors in the order of the fields, those of unknown ones first."""

        def place(error: FieldError) -> int:
            name = error.field.split(".")[0]
            right = ALIASES.get(name, name)
            return KNOWN.index(right) if right in KNOWN else -1

        return tuple(sorted(self.errors, key=place))

    def spelt(self, name: str) -> str:
        """The field's name as the sender wrote it: itself or an alias."""
        return self._spelt.get(name, name)

    def value(self, name: str) -> object:
        """What was sent, or None: null says the same as leaving the field out. An empty text is a value like others:
        whoever reads the field refuses it."""
        return self._values.get(name)

    def given(self, name: str) -> bool:
        """Whether the field was sent at all, with null or something."""
        return name in self._values

    def refuse_unknown(self, known: Sequence[str]) -> None:
        """An error for each field there is not, naming the nearest one there is."""
        for name in self._values:
            if name not in known:
                hint = nearest(name, (*known, *(alias for alias, right in ALIASES.items() if right in known)))
                self.refuse(name, "unknown_field", f"there is no field {shown(name)}{hint}; remove it")

    def flag(self, name: str, *, default: bool) -> bool | None:
        """A true or false, or None after an error."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, "not_a_boolean", f"{name} must be true or false, not {shown(value)}")
            return None
        return value

    def whole(
        self, name: str, *, default: int, least: int, most: int | None = None, told: int | None = None
    ) -> int | None:
        """A whole number between the limits, or None after an error. Digits in quotes are read too: forms post text.

        ``told`` is an upper limit that is only named here: whoever knows why it holds refuses what is above it, but
        for numbers beyond all bounds. Every error has it as its limit, since ``least`` may not fit the other fields.
        """
        value = self.value(name)
        if value is None:
            return default
        upper = most if told is None else told
        wanted = f"a whole number from {least} up" if upper is None else f"a whole number from {least} to {upper}"
        if upper == least:
            wanted = str(least)
        read = as_whole(value)
        message = f"{name} must be {wanted}, not {shown(value)}"
        if read is None:
            self.refuse(name, "not_a_whole_number", message, least if upper is None else upper)
            return None
        if isinstance(read, HugeNumber) or not least <= read or (most is not None and read > most):
            below = read.literal.startswith("-") if isinstance(read, HugeNumber) else read < least
            self.refuse(name, "out_of_range", message, least if below and told is None else upper)
            return None
        return read


def as_whole(value: object) -> int | HugeNumber | None:
    """The whole number that the value is, as digits or as text; None for anything else."""
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    digits = value.strip() if isinstance(value, str) else value.literal if isinstance(value, HugeNumber) else ""
    if not _WHOLE.fullmatch(digits):
        return None
    return int(digits) if len(digits.lstrip("+-")) <= _READ_DIGITS else HugeNumber(digits)
