"""From a path to a model: which files hold its weights, and how a stretch of a tensor is read from them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from workers.engines.dtypes import TensorSpec
from workers.engines.headers import Extent, Header, read_header
from workers.engines.pickled import is_mapped, open_checkpoint, spec_of
from workers.engines.refusals import EngineRefusal, Problem

SINGLE = "model.safetensors"
CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
CHECKPOINTS = (".pt", ".pth", ".bin")
FOREIGN = (".onnx", ".jit", ".pkl", ".pickle", ".joblib", ".h5", ".hdf5", ".keras", ".msgpack", ".gguf", ".ggml",
           ".npz", ".npy", ".tflite", ".ckpt")  # fmt: skip
MAX_INDEX = 100_000_000
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Reader(Protocol):
    """Gives stretches of a tensor's elements, flat and in row-major order, in the stored type."""

    def read(self, spec: TensorSpec, start: int, stop: int) -> torch.Tensor:
        """Elements ``start`` to ``stop`` of the tensor ``spec``; the caller may overwrite them."""


@dataclass(frozen=True, slots=True)
class Model:
    """An opened model: its ``label`` in messages, its tensors, and the directory of its other files (if any).
    ``resident``: so many bytes of it are in memory as long as it is open."""

    label: str
    specs: Mapping[str, TensorSpec]
    metadata: Mapping[str, str]
    reader: Reader
    directory: Path | None
    resident: int = 0

    @property
    def config(self) -> object:
        """What its ``config.json`` says; None where it has none that can be read."""
        if self.directory is None:
            return None
        try:
            return json.loads((self.directory / CONFIG).read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Positioned:
    """Plain positioned reads: as fast as a map for data read once, safe on network mounts, and a file that is
    cut short under us is an error here where a map would be a SIGBUS."""

    extents: Mapping[str, Extent]

    def read(self, spec: TensorSpec, start: int, stop: int) -> torch.Tensor:
        extent = self.extents[spec.name]
        size = spec.dtype.size
        buffer = torch.empty((stop - start) * size, dtype=torch.uint8)
        view = buffer.numpy().data
        at = extent.start + start * size
        fd = os.open(extent.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while view:
                got = os.preadv(fd, [view], at)
                if got == 0:
                    raise EngineRefusal(
                        "corrupt_input", f"{extent.path.name} became shorter while it was read",
                        {"file": extent.path.name, "tensor": spec.name},
                    )  # fmt: skip
                view, at = view[got:], at + got
        finally:
            os.close(fd)
        return buffer.view(spec.dtype.torch)


@dataclass(frozen=True, slots=True)
class _InMemory:
    tensors: Mapping[str, torch.Tensor]

    def read(self, spec: TensorSpec, start: int, stop: int) -> torch.Tensor:
        tensor = self.tensors[spec.name]
        if tensor.is_contiguous():
            return tensor.view(-1)[start:stop].clone()
        # A view of another order: gathered, since laying it out as a whole would take its size for every stretch.
        return tensor.view(_BITS[tensor.itemsize]).take(torch.arange(start, stop)).view(tensor.dtype)


def open_model(source: Path, label: str) -> Model:
    """Open the model at ``source`` without reading its data; refuses with every problem of this model."""
    if source.is_dir():
        return _open_directory(source, label)
    if not source.is_file():
        raise EngineRefusal("not_found", f"{label}: there is no file or directory {source.name!r}", {"model": label})
    return _open_file(source, label, directory=None)


def _open_file(path: Path, label: str, *, directory: Path | None) -> Model:
    named = f"{label}: {path.name}" if label != path.name else label
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        return _from_headers(label, {path.name: read_header(path, named)}, directory)
    if suffix in CHECKPOINTS:
        tensors = open_checkpoint(path, named)
        specs = {name: spec_of(name, tensor) for name, tensor in tensors.items()}
        resident = 0 if is_mapped(path) else sum(spec.nbytes for spec in specs.values())
        return Model(label, specs, {"format": "pt"}, _InMemory(tensors), directory, resident)
    raise EngineRefusal(
        "unsupported_format",
        f"{named} can't be read: give .safetensors, or a PyTorch state dictionary as {', '.join(CHECKPOINTS)}",
        {"file": path.name, "model": label},
    )


def _open_directory(directory: Path, label: str) -> Model:
    if (directory / SINGLE).is_file():
        return _open_file(directory / SINGLE, label, directory=directory)
    if (directory / INDEX).is_file():
        return _open_sharded(directory, label)
    names = sorted(p.name for p in directory.iterdir() if p.is_file())
    for suffixes in ((".safetensors",), CHECKPOINTS):
        weights = [n for n in names if n.lower().endswith(suffixes)]
        if len(weights) == 1:
            return _open_file(directory / weights[0], label, directory=directory)
        if weights:
            raise EngineRefusal(
                "ambiguous_input",
                f"{label} has {len(weights)} weight files ({', '.join(weights[:5])}) and no {INDEX} that says which",
                {"model": label, "files": weights[:20]},
            )
    foreign = [n for n in names if n.lower().endswith(FOREIGN)]
    if foreign:
        return _open_file(directory / foreign[0], label, directory=directory)
    raise EngineRefusal(
        "no_weights",
        f"{label} has neither {SINGLE} nor {INDEX}; its files are: {', '.join(names[:10]) or 'none'}",
        {"model": label, "files": names[:20]},
    )


def _open_sharded(directory: Path, label: str) -> Model:
    weight_map = _weight_map(directory / INDEX, label)
    headers: dict[str, Header] = {}
    problems: list[Problem] = []
    for shard in sorted(set(weight_map.values())):
        try:
            headers[shard] = read_header(directory / shard, f"{label}: {shard}")
        except EngineRefusal as refusal:
            problems += refusal.problems
    if not problems:
        problems = _index_problems(weight_map, headers, label)
    if problems:
        raise EngineRefusal.of(problems)
    return _from_headers(label, headers, directory)


def _weight_map(path: Path, label: str) -> dict[str, str]:
    named = f"{label}: {path.name}"
    try:
        if path.stat().st_size > MAX_INDEX:
            raise ValueError(f"larger than {MAX_INDEX} bytes")
        document = json.loads(path.read_text("utf-8"))
        weight_map = document["weight_map"]
        if not isinstance(weight_map, dict) or not weight_map:
            raise ValueError("weight_map is not a filled object")
        for shard in weight_map.values():
            if not isinstance(shard, str) or {"/", "\\", "\0"} & set(shard) or not shard.endswith(".safetensors"):
                raise ValueError(f"{str(shard)[:80]!r} is not the name of a .safetensors file beside it")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EngineRefusal("corrupt_input", f"{named} is not a valid index: {error}", {"file": named}) from error
    return weight_map


def _index_problems(weight_map: dict[str, str], headers: dict[str, Header], label: str) -> list[Problem]:
    indexed = set(weight_map.items())
    held = {(name, shard) for shard, header in headers.items() for name in header.extents}
    wrong = [
        (f"its index puts {name[:200]!r} into {shard}, which does not hold it", shard)
        for name, shard in sorted(indexed - held)
    ] + [
        (f"{shard} holds {name[:200]!r}, which its index does not put there", shard)
        for name, shard in sorted(held - indexed)
    ]
    return [Problem("corrupt_input", f"{label}: {what}", {"model": label, "file": shard}) for what, shard in wrong]


def _from_headers(label: str, headers: Mapping[str, Header], directory: Path | None) -> Model:
    extents = {name: extent for header in headers.values() for name, extent in header.extents.items()}
    metadata = {key: value for header in headers.values() for key, value in header.metadata.items()}
    return Model(label, {n: e.spec for n, e in extents.items()}, metadata, Positioned(extents), directory)
