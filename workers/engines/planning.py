"""Where every byte of the output will lie, known before any data is read.

The files equal, byte for byte, what the safetensors library writes for the same tensors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.engines.dtypes import TensorSpec
from workers.engines.sources import SINGLE


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """One output tensor: its bytes begin at ``offset`` of file number ``file``."""

    spec: TensorSpec
    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One output file: its header (with the length prefix) and its final size in bytes."""

    name: str
    header: bytes
    size: int


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """The whole output. ``digest`` identifies it: equal digests mean that equal bytes will be written."""

    files: tuple[PlannedFile, ...]
    tensors: tuple[PlannedTensor, ...]
    index: bytes | None
    digest: str

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(f.size for f in self.files)


def plan_output(
    outputs: Sequence[TensorSpec],
    *,
    metadata: Mapping[str, str],
    identity: Mapping[str, Any],
    max_shard_size: int | None = None,
) -> OutputPlan:
    """Lay ``outputs`` out in their order.

    ``max_shard_size`` bounds the tensor bytes of one file; a single larger tensor gets a file of its own.
    ``identity`` is everything else that the bytes depend on (input digests, recipe, engine version, device class).
    """
    groups = list(_shards(outputs, max_shard_size))
    names = _names(len(groups))
    files: list[PlannedFile] = []
    tensors: list[PlannedTensor] = []
    for number, (name, group) in enumerate(zip(names, groups, strict=True)):
        header = encode_header(group, metadata)
        at = len(header)
        for spec in group:
            tensors.append(PlannedTensor(spec, number, at))
            at += spec.nbytes
        files.append(PlannedFile(name, header, at))
    shape = {"identity": identity, "files": [[f.name, f.size, hashlib.sha256(f.header).hexdigest()] for f in files]}
    digest = hashlib.sha256(json.dumps(shape, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    return OutputPlan(tuple(files), tuple(tensors), _index(files, tensors), f"sha256:{digest}")


def encode_header(specs: Sequence[TensorSpec], metadata: Mapping[str, str]) -> bytes:
    """Length prefix and JSON header for tensors that follow each other in this order, padded to 8 bytes."""
    document: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    at = 0
    for spec in specs:
        document[spec.name] = {
            "dtype": spec.dtype.name,
            "shape": list(spec.shape),
            "data_offsets": [at, at + spec.nbytes],
        }
        at += spec.nbytes
    raw = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw


def _shards(outputs: Sequence[TensorSpec], limit: int | None) -> Iterator[list[TensorSpec]]:
    group: list[TensorSpec] = []
    size = 0
    for spec in outputs:
        if group and limit is not None and size + spec.nbytes > limit:
            yield group
            group, size = [], 0
        group.append(spec)
        size += spec.nbytes
    yield group


def _names(count: int) -> list[str]:
    if count == 1:
        return [SINGLE]
    stem = SINGLE.removesuffix(".safetensors")
    return [f"{stem}-{i:05d}-of-{count:05d}.safetensors" for i in range(1, count + 1)]


def _index(files: Sequence[PlannedFile], tensors: Sequence[PlannedTensor]) -> bytes | None:
    if len(files) == 1:
        return None
    document = {
        "metadata": {"total_size": sum(t.spec.nbytes for t in tensors)},
        "weight_map": {t.spec.name: files[t.file].name for t in tensors},
    }
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
