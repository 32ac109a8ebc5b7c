"""Which element types exist, how large they are, and in which order their tensors lie in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Class = Literal["float", "integer", "boolean", "unsupported"]


@dataclass(frozen=True, slots=True)
class Dtype:
    """An element type: ``name`` as in a safetensors header, ``size`` in bytes, ``rank`` its place in a file.

    Tensors of a higher rank come first. That is the order of the safetensors library's own writer; it refines
    "largest element first", so every tensor stays aligned.
    """

    name: str
    torch: torch.dtype
    size: int
    kind: Class
    rank: int


def _table() -> dict[str, Dtype]:
    rows: list[tuple[str, torch.dtype, Class]] = [
        ("BOOL", torch.bool, "boolean"),
        ("U8", torch.uint8, "integer"),
        ("I8", torch.int8, "integer"),
        ("F8_E5M2", torch.float8_e5m2, "unsupported"),
        ("F8_E4M3", torch.float8_e4m3fn, "unsupported"),
        ("F8_E8M0", torch.float8_e8m0fnu, "unsupported"),
        ("I16", torch.int16, "integer"),
        ("U16", torch.uint16, "integer"),
        ("F16", torch.float16, "float"),
        ("BF16", torch.bfloat16, "float"),
        ("I32", torch.int32, "integer"),
        ("U32", torch.uint32, "integer"),
        ("F32", torch.float32, "float"),
        ("C64", torch.complex64, "unsupported"),
        ("F64", torch.float64, "float"),
        ("I64", torch.int64, "integer"),
        ("U64", torch.uint64, "integer"),
    ]
    return {name: Dtype(name, kind, kind.itemsize, group, rank) for rank, (name, kind, group) in enumerate(rows)}


DTYPES = _table()
SUB_BYTE = ("F4", "F6_E2M3", "F6_E3M2")
BY_TORCH = {d.torch: d for d in DTYPES.values()}
BY_PARAMETER = {
    "float64": DTYPES["F64"],
    "float32": DTYPES["F32"],
    "float16": DTYPES["F16"],
    "bfloat16": DTYPES["BF16"],
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is known of a tensor before its data is read."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements; 1 for a scalar."""
        n = 1
        for length in self.shape:
            n *= length
        return n

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return self.numel * self.dtype.size


def output_order(spec: TensorSpec) -> tuple[int, bytes]:
    """Sort key of processing and of the file: element type, then the name bytewise. Nothing else may change it."""
    return -spec.dtype.rank, spec.name.encode()
