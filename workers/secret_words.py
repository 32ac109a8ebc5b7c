"""Does a text hold a secret? What looks like one is refused: a job's parameters are stored and shown."""

from __future__ import annotations

import re

WHAT_TO_DO = "parameters are stored and shown: put it into a file on the nodes that only the job's user may read"
# What services put in front of their keys; and a private key, a header, an address with a password.
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}|emep_[A-Za-z0-9]{20,})|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\bBearer\s+[\w.~+/-]{16,}|://[^/\s:@$]+:[^/\s:@$]+@",
)
_WORDS = (
    r"(?:password|passwd|passphrase|secret|secret[-_]?key|api[-_]?key|access[-_]?key|access[-_]?token|auth[-_]?token"
    r"|api[-_]?token|hf[-_]?token|private[-_]?key|credentials?)"
)
_NAME = re.compile(rf"(?:^|[-_]){_WORDS}$", re.IGNORECASE)
# --api-key=VALUE, API_KEY=VALUE; a value that begins with $ is looked up on the node and is no secret yet.
_GIVEN = re.compile(rf"(?:^|[\s'\"]|[-_]){_WORDS}=[\"']?(?![\s$\"'])\S", re.IGNORECASE)


def names_a_secret(name: str) -> bool:
    """Whether an option or variable of this name usually holds a secret: ``--api-key``, ``WANDB_API_KEY``."""
    return _NAME.search(name) is not None


def holds_a_secret(text: str) -> bool:
    """Whether ``text`` looks like a secret, or gives one to an option that takes one."""
    return _SHAPES.search(text) is not None or _GIVEN.search(text) is not None


def secret_argument(argv: list[str]) -> int | None:
    """The place of the first secret on a command line; None when there is none."""
    for place, word in enumerate(argv):
        if holds_a_secret(word):
            return place
        follows = argv[place + 1] if place + 1 < len(argv) else "-"
        if word.startswith("-") and names_a_secret(word) and follows and not follows.startswith(("-", "$")):
            return place + 1
    return None
