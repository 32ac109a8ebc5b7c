"""The small files beside a model's weights (config, tokenizer, …): carried into the merge byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workers.engines.durable import named_when_full, sync_directory
from workers.engines.sources import CHECKPOINTS, FOREIGN
from workers.protocol import check_path
from workers.tokenizer_files import is_of_tokenizer

MAX_COMPANION = 64_000_000
_WEIGHTS = (".safetensors", ".safetensors.index.json", ".bin.index.json", *CHECKPOINTS, *FOREIGN)
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Companions:
    """Names of the files that were copied, and of those that were too large."""

    copied: tuple[str, ...]
    skipped: tuple[str, ...]


def companions_of(source: Path) -> Iterator[str]:
    """The relative path of every regular file of a model that is no weights; links are neither followed nor named."""
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder) / name
            if not name.lower().endswith(_WEIGHTS) and not path.is_symlink() and path.is_file():
                yield path.relative_to(source).as_posix()


def copy_companions(source: Path, destination: Path, wanted: Callable[[str], bool] = lambda path: True) -> Companions:
    """Copy every companion of ``source`` that is ``wanted`` and not above ``MAX_COMPANION`` bytes; a tokenizer's file
    may be larger.

    ``destination`` exists afterwards, and the copies are on the disk.
    """
    destination.mkdir(parents=True, exist_ok=True)
    copied, skipped = [], []
    for relative in sorted(filter(wanted, companions_of(source))):
        path, target = source / relative, destination / check_path(relative)
        if path.stat().st_size > MAX_COMPANION and not is_of_tokenizer(relative):
            skipped.append(relative)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(path, target)
        copied.append(relative)
    return Companions(tuple(copied), tuple(skipped))


def _copy(source: Path, target: Path) -> None:
    with named_when_full(target, source.stat().st_size), source.open("rb") as file, target.open("wb") as out:
        while chunk := file.read(_READ):
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    sync_directory(target.parent)
