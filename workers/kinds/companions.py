"""The small files beside a model's weights (config, tokenizer, …): carried into the merge byte for byte."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from workers.engines.durable import write_file
from workers.engines.sources import CHECKPOINTS, FOREIGN
from workers.protocol import check_path

MAX_COMPANION = 64_000_000
_WEIGHTS = (".safetensors", ".safetensors.index.json", ".bin.index.json", *CHECKPOINTS, *FOREIGN)


@dataclass(frozen=True, slots=True)
class Companions:
    """Names of the files that were copied, and of those that were too large."""

    copied: tuple[str, ...]
    skipped: tuple[str, ...]


def copy_companions(source: Path, destination: Path) -> Companions:
    """Copy every file of ``source`` that is neither weights nor above ``MAX_COMPANION`` bytes.

    Only regular files: symbolic links are neither followed nor copied. ``destination`` exists afterwards.
    """
    destination.mkdir(parents=True, exist_ok=True)
    copied, skipped = [], []
    for folder, _, names in os.walk(source):
        for name in sorted(names):
            path = Path(folder) / name
            relative = path.relative_to(source).as_posix()
            if name.lower().endswith(_WEIGHTS) or path.is_symlink() or not path.is_file():
                continue
            if path.stat().st_size > MAX_COMPANION:
                skipped.append(relative)
                continue
            target = destination / check_path(relative)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_file(target, path.read_bytes())
            copied.append(relative)
    return Companions(tuple(sorted(copied)), tuple(sorted(skipped)))
