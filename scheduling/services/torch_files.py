"""Is a file of PyTorch weights whole, as far as that is told without loading it? The rest only the job can tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import BinaryIO

SUFFIXES = frozenset({".pt", ".pth", ".bin", ".ckpt"})
# A zip archive ends with its list of members; the record that closes it is within so many bytes of the end.
_TAIL = 22 + 0xFFFF


def fault(path: str, opened: Callable[[], BinaryIO]) -> str:
    """What is wrong with the weights of this name, in words; "" when nothing is, or when this can't tell.

    ``opened`` opens the bytes. PyTorch has written zip archives since 1.6: one without its end was cut off.
    """
    if PurePosixPath(path).suffix.lower() not in SUFFIXES:
        return ""
    with opened() as file:
        first = file.read(2)
        if not first:
            return "it is empty"
        if first != b"PK":
            return ""
        length = file.seek(0, 2)
        file.seek(max(0, length - _TAIL))
        return "" if b"PK\x05\x06" in file.read() else "it is a zip archive without its end, cut off perhaps"
