"""An object of a bucket as a file: read from where it is asked for, streamed, taken up again where it broke off."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from scheduling.services.blob_store import StoreAway

# A stream that breaks off is taken up again where it was; so often without a byte is too often.
TRIES = 3


class StoredObject(io.RawIOBase):
    """One object, read as it is asked for; nothing of it is held."""

    def __init__(self, size: int, body_from: Callable[[int], Any], read_some: Callable[[Any, int], bytes]) -> None:
        self._size, self._body_from, self._read_some = size, body_from, read_some
        self._at = 0
        self._body: Any = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek position {start + offset}")
        if start + offset != self._at:
            self._let_go()
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        for left in reversed(range(TRIES)):
            if self._at >= self._size:
                return 0
            try:
                if self._body is None:
                    self._body = self._body_from(self._at)
                piece = self._read_some(self._body, len(buffer))
                if not piece:
                    raise StoreAway("a blob ends before its end")
            except StoreAway:
                self._let_go()
                if not left:
                    raise
                continue
            buffer[: len(piece)] = piece
            self._at += len(piece)
            return len(piece)
        return 0

    def _let_go(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    def close(self) -> None:
        self._let_go()
        super().close()
