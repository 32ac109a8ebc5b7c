"""Does a text hold a secret? What looks like one is refused: a job's parameters are stored and shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

# What is kept in a secret's place. It counts as a secret too: what was refused can't be submitted again with it.
MASK = "(not kept: looks like a secret)"
WHAT_TO_DO = "parameters are stored and shown: put it into a file on the nodes that only the job's user may read"
# What services put in front of their keys; and a private key, a header, an address with a password.
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|emep_[A-Za-z0-9]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\bBearer\s+[\w.~+/-]{16,}|://[^/\s:@$]+:[^/\s:@$]+@|" + re.escape(MASK),
)
_WORDS = (
    r"(?:password|passwd|passphrase|secret|secret[-_]?key|api[-_]?key|access[-_]?key|access[-_]?token|auth[-_]?token"
    r"|api[-_]?token|hf[-_]?token|private[-_]?key|credentials?)"
)
_OPTION = re.compile(rf"-{_WORDS}\s", re.IGNORECASE)
_NAME = re.compile(rf"(?:^|[-_]){_WORDS}$", re.IGNORECASE)
# --api-key=VALUE, API_KEY=VALUE; a value that begins with $ is looked up on the node and is no secret yet.
_GIVEN = re.compile(rf"(?:^|[\s'\"]|[-_]){_WORDS}=[\"']?(?![\s$\"'])\S", re.IGNORECASE)

# Errors quote the beginning of what they are about; of a longer secret so many letters already give it away.
_QUOTED = 8
# Shorter ones are in many words by chance.
_NO_CHANCE = 4


def names_a_secret(name: str) -> bool:
    """Whether an option or variable of this name usually holds a secret: ``--api-key``, ``WANDB_API_KEY``."""
    return _NAME.search(name) is not None


def holds_a_secret(text: str) -> bool:
    """Whether ``text`` looks like a secret, or gives one to an option that takes one."""
    return _SHAPES.search(text) is not None or _GIVEN.search(text) is not None


def secret_arguments(argv: list[str]) -> list[int]:
    """The places of all secrets on a command line, in order."""
    found = []
    for place, word in enumerate(argv):
        before = argv[place - 1] if place else ""
        follows = before.startswith("-") and names_a_secret(before) and word and not word.startswith(("-", "$"))
        if holds_a_secret(word) or follows:
            found.append(place)
    return found


def line_holds_a_secret(text: str) -> bool:
    """Whether a command line holds a secret, by its shape or by the option before it."""
    if holds_a_secret(text):
        return True
    if _OPTION.search(text) is None:
        return False
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return bool(secret_arguments(words))


def masked(value: Any) -> tuple[Any, list[str]]:
    """The value (as JSON has it) with :data:`MASK` in place of every secret in it, and the texts that it hides."""
    hidden: list[str] = []
    return _masked(value, hidden), hidden


def unquoted(text: str, hidden: list[str]) -> str:
    """A text about a masked value that may quote what was hidden, or the beginning of it: without that."""
    for secret in sorted(hidden, key=len, reverse=True):
        beginning = secret[:_QUOTED]
        at = text.find(beginning) if len(beginning) >= _NO_CHANCE else -1
        while at >= 0:
            alike = (a == b for a, b in zip(text[at:], secret, strict=False))
            text = f"{text[:at]}{MASK}{text[at + sum(takewhile(bool, alike)) :]}"
            at = text.find(beginning, at + len(MASK))
    return _SHAPES.sub(MASK, text)


def _masked(value: Any, hidden: list[str]) -> Any:
    if isinstance(value, str):
        return _hide(value, hidden) if line_holds_a_secret(value) else value
    if isinstance(value, Mapping):
        return {
            _masked(str(name), hidden): _hide(each, hidden) if names_a_secret(str(name)) else _masked(each, hidden)
            for name, each in value.items()
        }
    if isinstance(value, list):
        secret = set(secret_arguments([each if isinstance(each, str) else "" for each in value]))
        return [_hide(each, hidden) if n in secret else _masked(each, hidden) for n, each in enumerate(value)]
    return value


def _hide(value: Any, hidden: list[str]) -> Any:
    """The mask for anything that says something; each text in it counts as hidden."""
    if value in (None, "", True, False):
        return value
    if isinstance(value, Mapping):
        return {str(name): _hide(each, hidden) for name, each in value.items()}
    if isinstance(value, list):
        return [_hide(each, hidden) for each in value]
    hidden.append(str(value))
    return MASK
