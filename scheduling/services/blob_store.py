"""Where blobs are kept: one interface, and which of the stores the settings choose."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from django.conf import settings
from safetensors import SafetensorError, safe_open

# The file, or object, that tells whose the store is.
NAME = "store-name"

T = TypeVar("T")


class NoSpace(Exception):
    """The artifact store is full."""


class StoreAway(Exception):
    """The artifact store does not answer, or not with what was asked for: nothing is known of its bytes just now."""


class StoreRefused(StoreAway):
    """The artifact store refuses what must be allowed, or there is none: somebody has to mend that."""


class CorruptModel(ValueError):
    """A file named ``*.safetensors`` is not one, or is cut off."""


@dataclass(frozen=True, slots=True)
class Words:
    """How the store is spoken of: what it is and where, what to look at when it has nothing, in what its name is kept,
    and how each database gets one of its own."""

    place: str
    question: str
    name_kept_in: str
    one_each: str


class BlobStore(Protocol):
    """Blobs by their sha256: whole or not there, never changed. Every call raises StoreAway when the store is away."""

    def words(self) -> Words:
        """How it is spoken of."""

    def can_store(self) -> bool:
        """Whether it takes blobs now, as far as that can be told at once."""

    def sizes(self, digests: Collection[str]) -> dict[str, int]:
        """The size in bytes of each of these blobs that is there."""

    def opened(self, sha256: str) -> BinaryIO:
        """The blob's bytes, which can be sought in; FileNotFoundError when it is not there."""

    def tensors(self, sha256: str) -> dict[str, list[object]]:
        """``{name: [dtype, [shape]]}`` of a blob of safetensors; CorruptModel says what is wrong with it."""

    def keep(self, files: Sequence[tuple[Path, str]], *, anew: Collection[str] = ()) -> None:
        """These files, each with its sha256 (checked before by the caller), are blobs, durably. NoSpace when that
        can't be.

        A blob that is there already stays, but one of another size, and those ``anew``, which are damaged: these are
        replaced.
        """

    def all(self) -> dict[str, int]:
        """Every blob that is there, with its size in bytes."""

    def remove(self, digests: Collection[str]) -> None:
        """These blobs are not there any more."""

    def name(self) -> str | None:
        """By what name the store's database knows it; None before it was given one."""

    def give_name(self, name: str) -> None:
        """The store has that name from now on."""

    def tidy(self, *, older_than_s: float) -> int:
        """What was begun to be stored longer ago and never ended is gone; returns how many."""

    def check(self) -> None:
        """StoreAway says why the store can't be used and what to do. It is written to and read for that."""


def store() -> BlobStore:
    """The store that the settings choose: the artifact directory, or a bucket."""
    from scheduling.services import blobs_in_directory  # noqa: PLC0415  it needs the names above

    if not settings.STORE_BUCKET:
        return blobs_in_directory.Directory()
    return _bucket(os.getpid(), settings.STORE_BUCKET, settings.STORE_PREFIX, settings.STORE_ENDPOINT,
                   settings.STORE_REGION, settings.STORE_PATH_STYLE)  # fmt: skip


@functools.lru_cache(maxsize=4)
def _bucket(_process: int, bucket: str, prefix: str, endpoint: str, region: str, path_style: bool) -> BlobStore:
    from scheduling.services.blobs_in_bucket import Bucket  # noqa: PLC0415  boto3 is an extra

    return Bucket(bucket, prefix, endpoint=endpoint, region=region, path_style=path_style)


def a_few_at_a_time(work: Callable[[T], object], things: Sequence[T], *, workers: int = 8) -> None:
    """The work is done on each: a store takes many for little more than one, and a checkpoint has thousands."""

    def some(first: int) -> None:
        for thing in things[first::workers]:
            work(thing)

    if len(things) < workers:
        for thing in things:
            work(thing)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(some, range(workers)))


def tensors_of(path: Path) -> dict[str, list[object]]:
    """``{name: [dtype, [shape]]}`` of a safetensors file, from its header alone; CorruptModel says what is wrong."""
    try:
        with safe_open(str(path), framework="numpy") as file:
            return {name: _row(file.get_slice(name)) for name in file.keys()}  # noqa: SIM118  no mapping
    except (SafetensorError, OSError, ValueError) as wrong:
        raise CorruptModel(str(wrong)[:300]) from wrong


def _row(piece: object) -> list[object]:
    return [piece.get_dtype(), list(piece.get_shape())]  # type: ignore[attr-defined]
