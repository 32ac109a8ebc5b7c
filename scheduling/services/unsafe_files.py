"""Which files can run code when somebody loads them? Told by names and first bytes; nothing is ever loaded here."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import BinaryIO

PICKLE, TORCH, KERAS, ARCHIVE = "pickle", "PyTorch pickle", "Keras", "archive with a pickle"
BY_NAME = {
    ".pkl": PICKLE, ".pickle": PICKLE, ".joblib": PICKLE, ".dill": PICKLE, ".pdparams": PICKLE, ".pdopt": PICKLE,
    ".pt": TORCH, ".pth": TORCH, ".pt2": TORCH, ".ckpt": TORCH, ".bin": TORCH, ".jit": TORCH, ".nemo": TORCH,
    ".mar": TORCH, ".keras": KERAS,
}  # fmt: skip
MEMBERS = tuple(suffix for suffix, what in BY_NAME.items() if what in (PICKLE, TORCH) and suffix != ".bin")
# A zip whose list of members is longer than this many bytes is not looked through, but labelled.
MAX_DIRECTORY = 16 * 1024 * 1024
_END = struct.Struct("<4s4H2LH")


def format_of(path: str, opened: Callable[[], BinaryIO]) -> str:
    """In what format the file of this name can run code when it is loaded; "" when nothing speaks for it.

    ``opened`` opens its bytes. A pickle or a zip with one is recognised under any name.
    """
    named = BY_NAME.get(PurePosixPath(path).suffix.lower(), "")
    if named:
        return named
    with opened() as file:
        first = file.read(4)
        # The protocols with a header; a first operation of 0 there is none, but lengths of safetensors have one.
        if len(first) > 2 and first[0] == 0x80 and 2 <= first[1] <= 5 and first[2]:
            return PICKLE
        return ARCHIVE if first[:2] == b"PK" and _holds_a_pickle(file) else ""


def _holds_a_pickle(file: BinaryIO) -> bool:
    length = file.seek(0, 2)
    file.seek(max(0, length - _END.size - 0xFFFF))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        return False
    if _END.unpack_from(tail, at)[5] > MAX_DIRECTORY:
        return True
    try:
        with zipfile.ZipFile(file) as archive:
            return any(PurePosixPath(name).suffix.lower() in MEMBERS for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return False
