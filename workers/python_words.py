"""Is a word of a command line a Python interpreter? Standard library only: server and agent read this file."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_PYTHON = re.compile(r"python(3(\.\d+)?)?")


def interpreter(word: str) -> bool:
    """``python``, ``python3``, ``/env/bin/python3.12``."""
    return _PYTHON.fullmatch(PurePosixPath(word).name) is not None
